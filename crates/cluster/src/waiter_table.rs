//! The last reports to the waiters of the first waiting jobs.

use super::time::Millis;
use accord_scheduler::JobId;
use accord_types::QueuedJob;
use std::collections::BTreeMap;

/// Most waiting jobs that are checked, the first ones in order.
pub(super) const CHECKED_MAX: usize = 64;

/// Interval of the checks, in milliseconds.
pub(super) const POLL_EVERY_MS: u64 = 10_000;

/// The last reports to the waiters of jobs.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    pub(super) reported: BTreeMap<JobId, QueuedJob>,
    /// Time of the last check.
    pub(super) checked: Millis,
}

impl Waiters {
    /// Notes a report to a job's waiters.
    pub(super) fn note(&mut self, id: JobId, reported: &QueuedJob) {
        if self.reported.len() < CHECKED_MAX || self.reported.contains_key(&id) {
            self.reported.insert(id, reported.clone());
        }
    }

    /// Whether the last report to a job's waiters says the same, but for the exact time of its reserved start.
    pub(super) fn knows(&self, id: JobId, state: &QueuedJob) -> bool {
        self.reported.get(&id).is_some_and(|reported| {
            let is_reserved = (reported.starts_in_ms.is_some(), state.starts_in_ms.is_some());
            (reported.position, &reported.why) == (state.position, &state.why) && is_reserved.0 == is_reserved.1
        })
    }
}
