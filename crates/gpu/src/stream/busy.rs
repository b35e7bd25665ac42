//! Samples of a stream's use.

use super::Stream;
use crate::driver::DriverError;
use accord_device::stream::Progress;

impl Stream {
    /// Whether the stream has incomplete operations, for a sample; `None` if unknown. Enqueues no work. The device's context is
    /// current.
    pub(crate) fn is_busy(&self) -> Option<bool> {
        // The holder of the lock is enqueuing an operation.
        let Some(state) = self.state.try_take() else { return Some(true) };
        let is_exposed = self.is_exposed();
        let progress = state.core.progress(state.core.last(), !is_exposed);
        let is_performing = state.core.performing() != 0;
        drop(state);
        match progress {
            _ if is_performing => return Some(true),
            Progress::NotIssued => return Some(true),
            Progress::OnHost | Progress::Done => return Some(false),
            Progress::InDriver { .. } => {}
        }
        self.has_driver_work()
    }

    /// Returns the number of operations that the stream has taken, for a sample.
    pub(crate) fn operations(&self) -> u64 {
        self.state.try_take().map_or(0, |state| state.core.last())
    }

    /// Whether the driver's stream has incomplete operations; `None` if unknown. The device's context is current.
    pub(super) fn has_driver_work(&self) -> Option<bool> {
        let driver = self.shared.context.driver;
        if self.is_exposed() {
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
