//! State of an agent's measurements.

use super::effect::AgentReport;
use accord_types::{NodeFigures, SessionKey};
use std::collections::VecDeque;
use std::time::Duration;

/// The agent's version, for the coordinator.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The time after the agent's start, and after the last session, in which a node measures nothing unprompted.
pub(super) const QUIET: Duration = Duration::from_secs(1);
/// The time for which another agent's measurement is expected.
pub(super) const EXPECTED_FOR: Duration = Duration::from_secs(5);
/// Most expected measurements. The coordinator orders one at a time; earlier ones may have failed.
pub(super) const EXPECTED_MAX: usize = 4;
/// Most measurements that the coordinator has not received.
pub(super) const REPORTED_LATER_MAX: usize = 8;

/// The state of an agent's measurements.
#[derive(Debug)]
pub(super) struct Measuring {
    pub(super) within: MeasurementStage,
    pub(super) figures: Option<NodeFigures>,
    /// Whether the figures were sent on this connection to the coordinator.
    pub(super) figures_reported: bool,
    /// The last time at which the node had sessions.
    pub(super) busy: Duration,
    /// Whether a client waits for the figures.
    pub(super) hurries: bool,
    /// The path that is being measured.
    pub(super) path: Option<u64>,
    pub(super) outcomes: VecDeque<AgentReport>,
    pub(super) expected: VecDeque<Expected>,
}

/// State of the measurement within the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MeasurementStage {
    /// Switched off.
    Never,
    Due,
    UnderWay,
    Done,
}

#[derive(Debug)]
pub(super) struct Expected {
    pub(super) measurement: u64,
    pub(super) key: SessionKey,
    pub(super) end: Duration,
}

impl Measuring {
    /// Creates the state of an agent that has just been started.
    pub(super) fn new(measures: bool) -> Self {
        Self {
            within: if measures { MeasurementStage::Due } else { MeasurementStage::Never },
            figures: None,
            figures_reported: false,
            busy: Duration::ZERO,
            hurries: false,
            path: None,
            outcomes: VecDeque::new(),
            expected: VecDeque::new(),
        }
    }

    /// Returns when a measurement is due, for a node without sessions.
    pub(super) fn next(&self) -> Option<Duration> {
        (self.within == MeasurementStage::Due).then(|| self.busy + QUIET)
    }
}
