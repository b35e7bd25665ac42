//! The gate that launches on a GPU pass if it is shared by turns.

use super::shared::Shared;
use accord_device::{Activity, GatedDevice, KeptMemory, TurnWords};
use accord_types::SuspendRefusal;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often the driver is asked whether a region runs, while the turn has an end.
const QUERY_INTERVAL: Duration = Duration::from_micros(200);

/// A GPU's gate.
pub(crate) struct LaunchGate {
    pub(crate) words: Arc<TurnWords>,
    pub(crate) shared: Weak<Shared>,
}

impl GatedDevice for LaunchGate {
    fn words(&self) -> &TurnWords {
        &self.words
    }

    fn activity(&self) -> Activity {
        let Some(shared) = self.shared.upgrade() else { return Activity::Idle };
        // The driver answers only threads with a current context.
        let Ok(_current) = shared.context.enter() else { return Activity::Idle };
        let mut activity = Activity::Idle;
        for stream in shared.all_streams() {
            match stream.activity() {
                Activity::Running => return Activity::Running,
                Activity::Ready => activity = Activity::Ready,
                Activity::Idle => {}
            }
        }
        activity
    }

    fn hold_work(&self) -> Result<(), SuspendRefusal> {
        self.shared.upgrade().map_or(Ok(()), |shared| shared.hold_work())
    }

    fn settle(&self, until: Instant) -> Result<(), SuspendRefusal> {
        self.shared.upgrade().map_or(Ok(()), |shared| shared.settle(until))
    }

    fn end_uses(&self, until: Instant) -> Result<u64, SuspendRefusal> {
        self.shared.upgrade().map_or(Ok(0), |shared| shared.end_memory_uses(until))
    }

    fn save(&self, kept: &mut KeptMemory) -> Result<(), SuspendRefusal> {
        self.shared.upgrade().map_or(Ok(()), |shared| shared.save_memory(kept))
    }

    fn restore(&self) -> Result<(), SuspendRefusal> {
        self.shared.upgrade().map_or(Ok(()), |shared| shared.restore_memory())
    }

    fn let_work(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.let_work();
        }
    }

    fn query_interval(&self) -> Option<Duration> {
        Some(QUERY_INTERVAL)
    }
}
