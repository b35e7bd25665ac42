//! Waits of streams for each other, in the driver.

use super::{Stream, StreamProgress};
use crate::cuda::completion::Completion;
use crate::cuda::driver::DriverError;
use std::sync::Arc;

impl Stream {
    /// Records the stream's event, for others to wait for. Returns `false` if there is no operation to wait for. The caller holds no stream's lock, because
    /// two streams may wait for each other concurrently.
    pub(crate) fn mark(&self, seq: u64) -> Result<bool, DriverError> {
        let state = self.lock();
        if state.reached < seq || self.is_exposed() {
            let _current = self.shared.context.enter()?;
            // SAFETY: both live as long as `self`, and the event is recorded under its lock.
            unsafe { self.shared.context.driver.cuEventRecord(self.event, self.raw) }?;
            return Ok(true);
        }
        Ok(!state.completions.is_empty())
    }

    /// Makes this stream wait for the recorded event of `other`. `completion`: the host has work left for it.
    pub(crate) fn follow(
        &self,
        state: &mut StreamProgress,
        seq: u64,
        other: &Arc<Self>,
        other_seq: u64,
        completion: bool,
    ) -> Result<(), DriverError> {
        // SAFETY: both are alive. A later recording of the event covers more.
        unsafe { self.shared.context.driver.cuStreamWaitEvent(self.raw, other.event, 0) }?;
        if completion {
            state.completions.push_back((seq, Completion::Other(Arc::clone(other), other_seq)));
        }
        Ok(())
    }
}
