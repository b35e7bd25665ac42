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

/// The rank of reserved starts: lower ones give way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Rank {
    /// Gives way to the others.
    Later,
    /// Of the first job in order that is beyond every guarantee. It gives way to jobs within a guarantee that could not start in time beside it.
    First,
    /// Of a job within a guarantee. It gives way to none.
    Entitled,
}
