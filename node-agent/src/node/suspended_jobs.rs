//! Suspended jobs, and orders of the coordinator to suspend jobs or to resume them.

use accord_types::SessionKey;
use std::collections::BTreeMap;

/// Most jobs with orders or suspended work, as many as may hold devices.
pub(super) const JOBS_MAX: usize = 1_024;

/// Suspended jobs, and jobs with orders of the coordinator.
#[derive(Debug, Default)]
pub(super) struct Suspensions(pub(super) BTreeMap<SessionKey, JobSuspension>);

/// The orders for a job.
#[derive(Debug, Default)]
pub(super) struct JobSuspension {
    pub(super) is_suspended: bool,
    /// The latest order that was not begun: to suspend the job, or to resume it.
    pub(super) ordered: Option<bool>,
    /// The order that is carried out.
    pub(super) runs: Option<bool>,
    /// The outcome of the last order, until the coordinator is told.
    pub(super) answer: Option<(bool, Result<(), String>)>,
}

impl JobSuspension {
    /// Whether nothing is kept of the job.
    pub(super) fn is_over(&self) -> bool {
        !self.is_suspended && self.ordered.is_none() && self.runs.is_none() && self.answer.is_none()
    }
}

impl Suspensions {
    /// Whether a job is suspended.
    pub(super) fn has(&self, job: SessionKey) -> bool {
        self.0.get(&job).is_some_and(|known| known.is_suspended)
    }

    /// Removes a job that is released.
    pub(super) fn forget(&mut self, job: SessionKey) {
        self.0.remove(&job);
    }

    /// # Errors
    /// Returns an error if the bound is exceeded.
    pub(super) fn check_bounds(&self) -> Result<(), String> {
        let count = self.0.len();
        (count <= JOBS_MAX).then_some(()).ok_or_else(|| format!("suspended jobs: {count}"))
    }
}
