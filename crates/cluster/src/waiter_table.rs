//! What the waiters of the first waiting jobs were last told.

use super::time::Millis;
use accord_scheduler::JobId;
use accord_types::QueuedJob;
use std::collections::BTreeMap;

/// Waiting jobs that are looked at, the first ones in order.
pub(super) const LOOKED_AT_MAX: usize = 64;

/// Time between two looks, in milliseconds.
pub(super) const POLL_EVERY_MS: u64 = 10_000;

/// The last reports to the waiters of jobs.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    pub(super) reported: BTreeMap<JobId, QueuedJob>,
    /// Time of the last look at the first jobs.
    pub(super) looked: Millis,
}

impl Waiters {
    /// Notes what a job's waiters are told.
    pub(super) fn note(&mut self, id: JobId, reported: &QueuedJob) {
        if self.reported.len() < LOOKED_AT_MAX || self.reported.contains_key(&id) {
            self.reported.insert(id, reported.clone());
        }
    }

    /// Whether a job's waiters know all that they would be told but the exact time of its reserved start.
    pub(super) fn knows(&self, id: JobId, news: &QueuedJob) -> bool {
        self.reported.get(&id).is_some_and(|reported| {
            let is_reserved = (reported.starts_in_ms.is_some(), news.starts_in_ms.is_some());
            (reported.position, &reported.why) == (news.position, &news.why) && is_reserved.0 == is_reserved.1
        })
    }
}
