//! Samples of a stream's use.

use super::Stream;
use crate::cuda::driver::DriverError;
use std::sync::atomic::Ordering;

impl Stream {
    /// Whether the stream has incomplete operations, for a sample; `None` if unknown. Enqueues no work. The device's context is
    /// current.
    pub(crate) fn is_busy(&self) -> Option<bool> {
        // The holder of the lock is enqueuing an operation.
        let Some(state) = self.state.try_take() else { return Some(true) };
        if state.issued < state.last || self.performing.load(Ordering::Acquire) != 0 {
            return Some(true);
        }
        let is_exposed = self.is_exposed();
        let is_open = state.reached < state.last || is_exposed;
        drop(state);
        if !is_open {
            return Some(false);
        }
        let driver = self.shared.context.driver;
        if is_exposed {
            // A query would end the program's capture of this stream.
            let mut status = 0;
            // SAFETY: the stream lives as long as `self`.
            unsafe { driver.cuStreamIsCapturing(self.raw, &raw mut status) }.ok()?;
            if status != 0 {
                return Some(false);
            }
        }
        // SAFETY: as above.
        let asked = unsafe { driver.cuStreamQuery(self.raw) };
        Some(matches!(asked, Err(DriverError { code: DriverError::NOT_READY, .. })))
    }
}
