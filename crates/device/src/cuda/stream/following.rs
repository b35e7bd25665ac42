//! Streams that wait for each other, in the driver.

use super::{Stream, StreamProgress};
use crate::cuda::completion::Completion;
use crate::cuda::driver::DriverError;
use std::sync::Arc;

impl Stream {
    /// Marks what is now in this stream, for others to wait for; false if there is nothing to wait for. No stream's lock is held:
    /// two streams may wait for each other at the same time.
    pub(crate) fn mark(&self, seq: u64) -> Result<bool, DriverError> {
        let state = self.lock();
        if state.reached < seq || self.is_exposed() {
            let _current = self.shared.context.enter()?;
            // SAFETY: both are alive as long as `self`, and recorded with its lock held.
            unsafe { self.shared.context.driver.cuEventRecord(self.event, self.raw) }?;
            return Ok(true);
        }
        Ok(!state.completions.is_empty())
    }

    /// Makes this stream wait for what was marked in `other`. `completion`: the host has something left to do for that.
    pub(crate) fn follow(
        &self,
        state: &mut StreamProgress,
        seq: u64,
        other: &Arc<Self>,
        other_seq: u64,
        completion: bool,
    ) -> Result<(), DriverError> {
        // SAFETY: both are alive. If the event was recorded again meanwhile, it covers more.
        unsafe { self.shared.context.driver.cuStreamWaitEvent(self.raw, other.event, 0) }?;
        if completion {
            state.completions.push_back((seq, Completion::Other(Arc::clone(other), other_seq)));
        }
        Ok(())
    }
}
