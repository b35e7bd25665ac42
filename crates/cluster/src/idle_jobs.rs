//! Jobs that leave their devices idle are warned, and ended if the policy says so.

use super::allocations::Allocations;
use super::effect::Effect;
use super::job::Stage;
use super::state::Cluster;
use super::time::Millis;
use accord_scheduler::{Input, JobId};

impl Cluster {
    /// Warns jobs that leave exclusive devices idle, and ends those that were idle for as long as the policy allows.
    pub(super) fn check_idle_jobs(&mut self, now: Millis, out: &mut Vec<Effect>) {
        while let Some(id) = self.allocations.next_unused(now) {
            let policy = &self.allocations.in_effect.policy;
            let (idle_ms, grace_ms) = (policy.idle_ms, policy.core.grace_ms);
            let Some((idle_ms, job)) = idle_ms.zip(self.allocations.jobs.get(&id)) else { continue };
            if !matches!(job.stage, Stage::Running(_)) || self.allocations.scheduler().stage_of(id).is_some() {
                continue;
            }
            // A job with unknown use may be busy.
            let is_silent = job.sessions.iter().any(|session| self.device_uses.is_silent(*session));
            if is_silent || self.allocations.is_use_unknown(now, id) {
                self.allocations.check_use(id, now.plus(idle_ms));
                continue;
            }
            let (ends, is_warned) = (job.active.plus(idle_ms), job.is_warned);
            let warns = Millis(ends.0.saturating_sub(grace_ms));
            if is_warned && ends <= now {
                self.allocations.push(Input::Idle { job: id });
            } else if !is_warned && warns <= now {
                let (done, left) = (now.since(job.active), ends.since(now));
                self.warn_idle(now, id, (done, left), out);
                self.allocations.check_use(id, ends.max(now.plus(1)));
            } else {
                self.allocations.check_use(id, if is_warned { ends } else { warns });
            }
        }
    }
}

impl Allocations {
    /// Notes that a job has used its devices.
    pub(super) fn job_is_active(&mut self, now: Millis, id: JobId) {
        if let Some(job) = self.jobs.get_mut_unnoted(&id) {
            (job.active, job.is_warned) = (now, false);
        }
    }

    /// Notes that a job was warned of being idle.
    pub(super) fn job_is_warned(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut_unnoted(&id) {
            job.is_warned = true;
        }
    }

    /// Adds a message to a job's program to the job's history.
    pub(super) fn note_event(&mut self, now: Millis, id: JobId, text: &str) {
        let books = self.books_mut();
        let clock = books.clock(now);
        books.ledger_mut().job_event(clock, id, text);
    }

    fn is_use_unknown(&self, now: Millis, id: JobId) -> bool {
        let (ledger, clock) = (self.books().ledger(), self.books().clock(now));
        ledger.job_use(clock, id).is_some_and(|(_, did)| did.is_unknown)
    }

    /// Schedules the next check of a job, if it has exclusive devices and the policy ends idle jobs.
    fn check_use(&mut self, id: JobId, at: Millis) {
        let is_exclusive = |job: &super::job::Job| job.devices().iter().any(|leased| leased.exclusive);
        if self.in_effect.policy.idle_ms.is_some() && self.jobs.get(&id).is_some_and(is_exclusive) {
            self.unused.insert((at, id));
        }
    }

    /// Notes that a job has got its devices, or is known to have them again.
    pub(super) fn use_begins(&mut self, id: JobId) {
        self.job_is_active(self.now, id);
        self.check_use(id, self.now);
    }

    /// Schedules checks of all jobs under a new policy.
    pub(super) fn check_all_uses(&mut self) {
        self.unused.clear();
        if self.in_effect.policy.idle_ms.is_none() {
            return;
        }
        let running = self.jobs.iter().filter(|(_, job)| matches!(job.stage, Stage::Running(_)));
        for id in running.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.check_use(id, self.now);
        }
    }

    /// Removes and returns the next job that is due for a check.
    fn next_unused(&mut self, now: Millis) -> Option<JobId> {
        let first = self.unused.first().copied().filter(|(at, _)| *at <= now)?;
        self.unused.remove(&first);
        Some(first.1)
    }
}
