//! States of a job, and of each of its devices.

use serde::{Deserialize, Serialize};

/// The state of a job, from its request until its devices are free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Phase {
    /// It waits for devices.
    Waiting,
    /// It has devices.
    Running,
    /// It is over, and agents have not confirmed yet that its devices are free.
    Releasing,
}

/// The state of a device that a job has, or had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Hold {
    /// In use, and charged.
    Held,
    /// Over, charged, and not free until the agent confirms it.
    Releasing,
    /// The node or device is lost: not charged. Not free until the agent confirms it, or has started anew.
    Lost,
    /// Free.
    Freed,
}
