//! Copies in whose course somebody reaches the device's memory, which has to stay meanwhile: a library, or a stream's worker that gives the driver
//! what it has waited for, which may be after the device was shut down.

use crate::failure::shut_down;
use accord_types::Result;
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::sync::Condvar;

/// See the module.
#[derive(Default)]
pub(crate) struct NativeCopies {
    state: ShortLock<UnderWay>,
    over: Condvar,
}

#[derive(Default)]
struct UnderWay {
    count: usize,
    ended: bool,
}

/// One of them.
pub(crate) struct NativeCopy<'a>(&'a NativeCopies);

impl NativeCopies {
    /// Somebody may reach the memory, or have the driver reach it in a stream of the device's, until what is returned is dropped.
    ///
    /// # Errors
    /// When the device was shut down.
    pub(crate) fn begin(&self) -> Result<NativeCopy<'_>> {
        let mut state = self.state.lock();
        if state.ended {
            return Err(shut_down());
        }
        state.count += 1;
        Ok(NativeCopy(self))
    }

    /// None begins any more, and none is under way when this returns.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        while state.count > 0 {
            state = ShortGuard::wait(state, &self.over);
        }
    }
}

impl Drop for NativeCopy<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.count -= 1;
        let is_last = state.ended && state.count == 0;
        drop(state);
        if is_last {
            self.0.over.notify_all();
        }
    }
}
