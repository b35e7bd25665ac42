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
    /// Of a suspended job, and not charged. Other jobs may have the device.
    Suspended,
    /// Free.
    Freed,
}

impl Hold {
    /// Whether the job holds the device, so that its part is not free for others.
    pub(crate) fn is_hold(self) -> bool {
        !matches!(self, Self::Suspended | Self::Freed)
    }
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
