//! The gate that launches on a GPU pass if it is shared by turns.

use super::shared::Shared;
use crate::turn::{Activity, GatedDevice, TurnWords};
use std::sync::{Arc, Weak};
use std::time::Duration;

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

    fn query_interval(&self) -> Option<Duration> {
        Some(QUERY_INTERVAL)
    }
}
