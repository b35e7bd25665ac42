//! Uses of a device's memory, which keep it mapped: a call that gives the driver work on it, or a library that accesses it.
//!
//! A thread that holds a stream's lock needs no use to enqueue an operation, because shutting a device down takes all locks
//! first.

use accord_device::failure::shut_down;
use accord_types::Result;
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::sync::Condvar;
use std::time::Instant;

/// The uses of a device's memory by calls of the driver without a stream's lock.
#[derive(Default)]
pub(crate) struct MemoryUses {
    state: ShortLock<UseCount>,
    over: Condvar,
}

#[derive(Default)]
struct UseCount {
    count: usize,
    is_suspended: bool,
    ended: bool,
}

/// One use.
pub(crate) struct MemoryUse<'a>(&'a MemoryUses);

impl MemoryUses {
    /// Keeps the memory until the returned value is dropped; shutdown waits for work given to the driver by then. The
    /// owner of a use waits only for the driver or the library. Blocks while uses are suspended.
    ///
    /// # Errors
    /// Returns the error of a device that was shut down.
    pub(crate) fn begin(&self) -> Result<MemoryUse<'_>> {
        let mut state = self.state.lock();
        while state.is_suspended && !state.ended {
            state = ShortGuard::wait(state, &self.over);
        }
        if state.ended {
            return Err(shut_down());
        }
        state.count += 1;
        Ok(MemoryUse(self))
    }

    /// Blocks further uses, and waits until none is in progress. Returns `false`, without effect, if that takes too long.
    pub(super) fn suspend(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        state.is_suspended = true;
        while state.count > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                self.resume();
                return false;
            }
            state = ShortGuard::wait_timeout(state, &self.over, left).0;
        }
        true
    }

    /// Lets uses begin again.
    pub(super) fn resume(&self) {
        self.state.lock().is_suspended = false;
        self.over.notify_all();
    }

    /// Refuses further uses, and blocks until none is in progress.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        self.over.notify_all();
        while state.count > 0 {
            state = ShortGuard::wait(state, &self.over);
        }
    }
}

impl Drop for MemoryUse<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.count -= 1;
        let is_last = (state.ended || state.is_suspended) && state.count == 0;
        drop(state);
        if is_last {
            self.0.over.notify_all();
        }
    }
}
