//! What the waiters of the first waiting jobs were last told.

use super::time::Millis;
use accord_scheduler::JobId;
use accord_types::QueuedJob;
use std::collections::BTreeMap;

/// Waiting jobs that are looked at, the first ones in order.
pub(super) const LOOKED_AT_MAX: usize = 64;

/// Time between two looks, in milliseconds.
pub(super) const LOOK_EVERY_MS: u64 = 10_000;

/// What the waiters of jobs were last told.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    pub(super) told: BTreeMap<JobId, QueuedJob>,
    /// Time of the last look at the first jobs.
    pub(super) looked: Millis,
}

impl Waiters {
    /// Notes what a job's waiters are told.
    pub(super) fn note(&mut self, id: JobId, told: &QueuedJob) {
        if self.told.len() < LOOKED_AT_MAX || self.told.contains_key(&id) {
            self.told.insert(id, told.clone());
        }
    }

    /// Whether a job's waiters know all that they would be told but the exact time of its reserved start.
    pub(super) fn knows(&self, id: JobId, news: &QueuedJob) -> bool {
        self.told.get(&id).is_some_and(|told| {
            let is_reserved = (told.starts_in_ms.is_some(), news.starts_in_ms.is_some());
            (told.position, &told.why) == (news.position, &news.why) && is_reserved.0 == is_reserved.1
        })
    }
}
