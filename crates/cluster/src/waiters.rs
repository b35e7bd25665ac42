//! Keeps programs and commands informed of why their jobs wait.
//!
//! The scheduler says when a job is put on hold, released, put first, or gets another reserved start. That another job
//! is before it, that starts are paused, or that devices are drained follows from changes of which the scheduler names
//! no jobs. So the core looks at the first waiting jobs now and then, and informs the waiters of those whose reason or
//! position is another one.

use super::effect::Effect;
use super::state::Cluster;
use super::time::Millis;
use super::waiter_table::{LOOKED_AT_MAX, POLL_EVERY_MS};

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
