//! States of a job and of its devices.

use serde::{Deserialize, Serialize};

/// The state of a job, from its request until its devices are free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Phase {
    /// It waits for devices.
    Waiting,
    /// It has devices.
    Running,
    /// It has ended, but agents have not confirmed yet that its devices are free.
    Releasing,
}

/// The state of a device of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Hold {
    /// In use, and charged.
    Held,
    /// Charged, and not free until the agent confirms the end.
    Releasing,
    /// On a lost node or itself lost, and not charged. Not free until the agent confirms the end or starts anew.
    Lost,
    /// Free.
    Freed,
}
