//! Keeps programs and commands informed of why their jobs wait.
//!
//! The scheduler says when a job is put on hold, released, put first, or gets another reserved start. That another job
//! is before it, that starts are paused, or that devices are drained follows from changes of which the scheduler names
//! no jobs. So the core looks at the first waiting jobs now and then, and informs the waiters of those whose reason or
//! position is another one.

use super::effect::Effect;
use super::state::Cluster;
use super::time::Millis;
use accord_scheduler::JobId;
use accord_types::QueuedJob;
use std::collections::BTreeMap;

/// Waiting jobs that are looked at, the first ones in order.
pub(super) const LOOKED_AT_MAX: usize = 64;

/// Time between two looks, in milliseconds.
const POLL_EVERY_MS: u64 = 10_000;

/// What the waiters of jobs were last told.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    reported: BTreeMap<JobId, QueuedJob>,
    looked: Millis,
}

impl Waiters {
    /// Notes what a job's waiters are told.
    pub(super) fn note(&mut self, id: JobId, reported: &QueuedJob) {
        if self.reported.len() < LOOKED_AT_MAX || self.reported.contains_key(&id) {
            self.reported.insert(id, reported.clone());
        }
    }

    /// Whether a job's waiters know all that they would be told but the exact time of its reserved start.
    fn knows(&self, id: JobId, news: &QueuedJob) -> bool {
        self.reported.get(&id).is_some_and(|reported| {
            let is_reserved = (reported.starts_in_ms.is_some(), news.starts_in_ms.is_some());
            (reported.position, &reported.why) == (news.position, &news.why) && is_reserved.0 == is_reserved.1
        })
    }
}

impl Cluster {
    /// Informs the waiters of the first jobs of other reasons and positions.
    pub(super) fn look_at_waiters(&mut self, now: Millis, out: &mut Vec<Effect>) {
        if now < self.waiters.looked.plus(POLL_EVERY_MS) {
            return;
        }
        self.waiters.looked = now;
        let first = self.allocations.scheduler().first_waiting(LOOKED_AT_MAX);
        self.waiters.reported.retain(|id, _| first.contains(id));
        for id in first {
            if let Some(news) = self.queued(now, id).filter(|news| !self.waiters.knows(id, news)) {
                self.tell_waiters(id, news, out);
            }
        }
    }
}
