//! The gate that a CPU device's regions pass in its worker.

use super::stream::{Shared, Stream};
use crate::kept_memory::KeptMemory;
use crate::turn::{Activity, GatedDevice, TurnWords};
use accord_types::SuspendRefusal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The worker's gate. A region may overwrite its words, which affects the turns of its own session only: the agent takes
/// back a turn that is not returned.
pub(crate) struct WorkerGate<F> {
    pub(crate) shared: Arc<Shared>,
    /// Returns the device's streams.
    pub(crate) streams: F,
}

impl<F: Fn() -> Vec<Arc<Stream>> + Send + Sync> GatedDevice for WorkerGate<F> {
    fn words(&self) -> &TurnWords {
        &self.shared.control.header().turn
    }

    /// Stops the worker. Its memory is host memory already.
    fn hold_work(&self) -> Result<(), SuspendRefusal> {
        self.shared.watched.stop();
        Ok(())
    }

    fn settle(&self, _until: Instant) -> Result<(), SuspendRefusal> {
        Ok(())
    }

    fn end_uses(&self, _until: Instant) -> Result<u64, SuspendRefusal> {
        Ok(0)
    }

    fn save(&self, _kept: &mut KeptMemory) -> Result<(), SuspendRefusal> {
        Ok(())
    }

    fn restore(&self) -> Result<(), SuspendRefusal> {
        Ok(())
    }

    fn let_work(&self) {
        self.shared.watched.go_on();
    }

    fn activity(&self) -> Activity {
        let mut activity = Activity::Idle;
        for stream in (self.streams)() {
            let block = stream.block();
            if block.running.load(Ordering::SeqCst) != 0 {
                return Activity::Running;
            }
            if block.blocked.load(Ordering::SeqCst) == 0 {
                activity = Activity::Ready;
            }
        }
        activity
    }
}
