//! Keeps programs and commands informed of why their jobs wait.
//!
//! The scheduler says when a job is put on hold, released, put first, or gets another reserved start. That another job
//! is before it, that starts are paused, or that devices are drained follows from changes of which the scheduler names
//! no jobs. So the core checks the first waiting jobs at intervals, and informs the waiters of those whose reason or
//! position has changed.

use super::effect::Effect;
use super::state::Cluster;
use super::time::Millis;
use super::waiter_table::{CHECKED_MAX, POLL_EVERY_MS};

impl Cluster {
    /// Informs the waiters of the first jobs whose reason or position has changed.
    pub(super) fn check_waiters(&mut self, now: Millis, out: &mut Vec<Effect>) {
        if now < self.waiters.checked.plus(POLL_EVERY_MS) {
            return;
        }
        self.waiters.checked = now;
        let first = self.allocations.scheduler().first_waiting(CHECKED_MAX);
        self.waiters.reported.retain(|id, _| first.contains(id));
        for id in first {
            if let Some(state) = self.queued(now, id).filter(|state| !self.waiters.knows(id, state)) {
                self.tell_waiters(id, state, out);
            }
        }
    }
}
