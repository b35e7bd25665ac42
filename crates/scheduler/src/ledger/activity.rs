//! The work of jobs and programs on devices.

use serde::{Deserialize, Serialize};

/// Work on devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Activity {
    /// Device time in which devices were busy, in milliseconds.
    pub busy_ms: u64,
    /// Bytes copied to devices.
    pub bytes_in: u64,
    /// Bytes copied from devices.
    pub bytes_out: u64,
}

impl Activity {
    /// Adds `more`, saturating.
    pub fn add(&mut self, more: Self) {
        for (sum, more) in [
            (&mut self.busy_ms, more.busy_ms),
            (&mut self.bytes_in, more.bytes_in),
            (&mut self.bytes_out, more.bytes_out),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    /// Whether all counters are 0.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// A job's use of its devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct JobUse {
    /// The reported use.
    pub activity: Activity,
    /// Whether the busy time of some device is unknown.
    pub is_unknown: bool,
}

/// A message to a job's program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobEvent {
    /// Its time, by the wall clock.
    pub unix_ms: u64,
    /// Its text.
    pub text: String,
}

/// Most events of a job; later ones are dropped.
pub const JOB_EVENTS_MAX: usize = 16;
