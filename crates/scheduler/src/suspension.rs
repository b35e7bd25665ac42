//! The suspension of a running job.

use crate::ids::JobId;
use crate::time::Millis;
use accord_types::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The stage of a suspension.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SuspensionStage {
    /// Agents move the memory of the job's devices to host memory. The job holds its devices.
    Suspending,
    /// The memory is in host memory, and other jobs may have the devices.
    Suspended,
    /// As [`Self::Suspended`], and the job resumes once all its devices are free.
    Waiting,
    /// The job holds its devices again, and agents bring the memory back.
    Resuming,
    /// An agent has refused the suspension, and the other ones bring the memory back. The job has held its devices all the time.
    Undoing,
}

impl SuspensionStage {
    /// Whether other jobs may have the job's devices.
    #[must_use]
    pub fn is_without_devices(self) -> bool {
        matches!(self, Self::Suspended | Self::Waiting)
    }

    /// Whether an administrator may take over the suspension of an owner or a job.
    #[must_use]
    pub fn may_be_taken_over(self) -> bool {
        matches!(self, Self::Suspending | Self::Suspended | Self::Waiting)
    }
}

/// The origin of a suspension, which decides how it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SuspensionCause {
    /// An administrator has suspended the job, and only an administrator resumes it.
    #[default]
    Administrator,
    /// The job's owner has suspended it. Its devices aren't kept for it.
    Owner,
    /// The job gave way to another job, and resumes by itself.
    Preemption {
        /// The other job.
        by: JobId,
    },
}

impl SuspensionCause {
    /// Returns the job to which the suspended one gave way.
    #[must_use]
    pub fn preempted_by(self) -> Option<JobId> {
        match self {
            Self::Preemption { by } => Some(by),
            Self::Administrator | Self::Owner => None,
        }
    }
}

/// The suspension of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Suspension {
    pub(crate) stage: SuspensionStage,
    /// Nodes whose agents have not answered yet.
    pub(crate) awaited: BTreeSet<NodeId>,
    /// The time until which all of them should have answered.
    pub(crate) answer_by: Millis,
    /// The time that is left of the lease.
    pub(crate) left_ms: u64,
    pub(crate) since: Millis,
    pub(crate) cause: SuspensionCause,
    /// The owner, administrator or job that has suspended the job, for messages.
    pub(crate) by: String,
    pub(crate) reason: String,
    /// The time of the next attempt to resume a job that resumes by itself, after a failed one.
    pub(crate) resumes_from: Millis,
}

impl Suspension {
    /// Returns the suspension of a job that an earlier scheduler has suspended. Its origin is not known, so that its owner may resume it, too.
    pub(crate) fn earlier(now: Millis, left_ms: u64) -> Self {
        let (by, reason) = (String::new(), String::new());
        let (stage, awaited, answer_by) = (SuspensionStage::Suspended, BTreeSet::new(), Millis::NEVER);
        let (cause, resumes_from) = (SuspensionCause::Owner, Millis(0));
        Self { stage, awaited, answer_by, left_ms, since: now, cause, by, reason, resumes_from }
    }

    /// Whether other jobs are kept off the devices of the job once it waits for them. An owner can't keep devices idle that the job is not
    /// charged for.
    pub(crate) fn keeps_devices(&self) -> bool {
        self.stage == SuspensionStage::Waiting && self.cause != SuspensionCause::Owner
    }
}

/// The suspension of a job, for users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SuspensionView {
    /// Its stage.
    pub stage: SuspensionStage,
    /// Its begin.
    pub since: Millis,
    /// Its origin.
    pub cause: SuspensionCause,
    /// The owner, administrator or job that has suspended the job, for messages.
    pub by: String,
    /// The reason; empty if none was given.
    pub reason: String,
    /// The time that is left of the job's limit; `None` without a limit.
    pub left_ms: Option<u64>,
}

/// The record of a suspension.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct SavedSuspension {
    stage: SuspensionStage,
    awaited: BTreeSet<u32>,
    left_ms: u64,
    since: u64,
    /// Files of releases that had no other suspensions have those of administrators.
    #[serde(default)]
    cause: SavedCause,
    by: String,
    reason: String,
}

/// The record of a suspension's origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
enum SavedCause {
    #[default]
    Administrator,
    Owner,
    Preemption {
        by: u64,
    },
}

impl From<&Suspension> for SavedSuspension {
    fn from(of: &Suspension) -> Self {
        let Suspension { stage, awaited, answer_by: _, left_ms, since, cause, by, reason, resumes_from: _ } =
            of.clone();
        let awaited = awaited.into_iter().map(|node| node.0).collect();
        let cause = match cause {
            SuspensionCause::Administrator => SavedCause::Administrator,
            SuspensionCause::Owner => SavedCause::Owner,
            SuspensionCause::Preemption { by } => SavedCause::Preemption { by: by.0 },
        };
        Self { stage, awaited, left_ms, since: since.0, cause, by, reason }
    }
}

impl From<SavedSuspension> for Suspension {
    fn from(saved: SavedSuspension) -> Self {
        let SavedSuspension { stage, awaited, left_ms, since, cause, by, reason } = saved;
        let awaited = awaited.into_iter().map(NodeId).collect();
        let cause = match cause {
            SavedCause::Administrator => SuspensionCause::Administrator,
            SavedCause::Owner => SuspensionCause::Owner,
            SavedCause::Preemption { by } => SuspensionCause::Preemption { by: JobId(by) },
        };
        let (answer_by, resumes_from) = (Millis::NEVER, Millis(0));
        Self { stage, awaited, answer_by, left_ms, since: Millis(since), cause, by, reason, resumes_from }
    }
}
