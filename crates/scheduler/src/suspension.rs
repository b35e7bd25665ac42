//! The suspension of a running job.

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
    /// The user or administrator who has suspended the job.
    pub(crate) by: String,
    pub(crate) reason: String,
}

impl Suspension {
    /// Returns the suspension of a job that an earlier scheduler has suspended.
    pub(crate) fn earlier(now: Millis, left_ms: u64) -> Self {
        let (by, reason) = (String::new(), String::new());
        let (stage, awaited, answer_by) = (SuspensionStage::Suspended, BTreeSet::new(), Millis::NEVER);
        Self { stage, awaited, answer_by, left_ms, since: now, by, reason }
    }
}

/// The suspension of a job, for users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SuspensionView {
    /// Its stage.
    pub stage: SuspensionStage,
    /// Its begin.
    pub since: Millis,
    /// The user or administrator who has suspended the job.
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
    by: String,
    reason: String,
}

impl From<&Suspension> for SavedSuspension {
    fn from(of: &Suspension) -> Self {
        let Suspension { stage, awaited, answer_by: _, left_ms, since, by, reason } = of.clone();
        let awaited = awaited.into_iter().map(|node| node.0).collect();
        Self { stage, awaited, left_ms, since: since.0, by, reason }
    }
}

impl From<SavedSuspension> for Suspension {
    fn from(saved: SavedSuspension) -> Self {
        let SavedSuspension { stage, awaited, left_ms, since, by, reason } = saved;
        let awaited = awaited.into_iter().map(NodeId).collect();
        Self { stage, awaited, answer_by: Millis::NEVER, left_ms, since: Millis(since), by, reason }
    }
}
