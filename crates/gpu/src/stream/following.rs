//! Waits of streams for each other, in the driver.

use super::{Stream, StreamProgress};
use crate::completion::Completion;
use crate::driver::DriverError;
use accord_device::stream::Dependence;
use std::sync::Arc;

impl Stream {
    /// Returns what a stream must wait for that follows this one up to `seq`. Records the stream's event if it must wait for that. The caller holds no
    /// stream's lock, because two streams may wait for each other concurrently.
    pub(crate) fn mark(&self, seq: u64) -> Result<Dependence, DriverError> {
        let state = self.lock();
        let dependence = state.core.dependence(seq, !self.is_exposed());
        if matches!(dependence, Dependence::Driver | Dependence::DriverThenHost) {
            let _current = self.shared.context.enter()?;
            // SAFETY: both live as long as `self`, and the event is recorded under its lock.
            unsafe { self.shared.context.driver.cuEventRecord(self.event, self.raw) }?;
        }
        Ok(dependence)
    }

    /// Makes the operation at `seq` of this stream wait for `other` up to `other_seq`.
    pub(crate) fn follow(
        &self,
        state: &mut StreamProgress,
        seq: u64,
        (other, other_seq): (&Arc<Self>, u64),
        dependence: Dependence,
    ) -> Result<(), DriverError> {
        if matches!(dependence, Dependence::Driver | Dependence::DriverThenHost) {
            // SAFETY: both are alive. A later recording of the event covers more.
            unsafe { self.shared.context.driver.cuStreamWaitEvent(self.raw, other.event, 0) }?;
        }
        if matches!(dependence, Dependence::Host | Dependence::DriverThenHost) {
            state.core.add_work(seq, Completion::Other(Arc::clone(other), other_seq));
        }
        Ok(())
    }
}
