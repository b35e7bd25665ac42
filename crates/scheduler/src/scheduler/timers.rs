//! Processes the passage of time.

use super::{Scheduler, Timer};
use crate::effect::{Effect, EndCause};
use crate::ids::JobId;
use crate::job::Job;
use crate::phase::Hold;
use crate::shapes::classes_of;

impl Scheduler {
    /// Processes what is due, in the order of time.
    pub(super) fn pass_time(&mut self, effects: &mut Vec<Effect>) {
        while let Some(&(at, timer)) = self.timers.first() {
            if at > self.now {
                return;
            }
            self.timers.pop_first();
            match timer {
                Timer::Settle(leaf) => {
                    self.settling.remove(&leaf);
                    self.touch(leaf);
                }
                Timer::Window(id) => self.window_changes(id, effects),
                Timer::Drain(target) => self.drain_is_due(target, effects),
                Timer::Lease(job) => self.lease_is_over(job, effects),
                Timer::Warn(job) => self.warn(job, effects),
                Timer::Wait(job) => self.withdraw(job, EndCause::WaitOver, effects),
                Timer::Keep(job) => self.withdraw(job, EndCause::Abandoned, effects),
                Timer::Promise(job) => self.reserved_start_is_due(job, effects),
                Timer::Suspension(job) => self.suspension_is_due(job, effects),
                // The pass that follows has jobs give way.
                Timer::Preempt => self.preempt_timer = None,
            }
        }
    }

    fn lease_is_over(&mut self, id: JobId, effects: &mut Vec<Effect>) {
        let was_spent = |job: &&Job| job.ending == Some(EndCause::Spent);
        if let Some(job) = self.jobs.get(&id).filter(was_spent) {
            let renewed = job.ends.plus(self.policy.quantum());
            // A month has begun since the warning, or the account has got more device-hours.
            if self.accounts.spent(self.now, job.account).is_none() && !self.is_wanted(id, renewed) {
                return self.move_end(id, renewed, effects);
            }
        }
        let cause = self.jobs.get_mut(&id).and_then(|job| job.ending.take()).unwrap_or(EndCause::Limit);
        self.end(id, cause, effects);
    }

    /// Warns a job of the end of its lease, or renews the lease of a job without a limit.
    fn warn(&mut self, id: JobId, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let renewed = job.ends.plus(self.policy.quantum());
        let cause = if job.limit_ms.is_some() {
            EndCause::Limit
        } else if self.accounts.spent(self.now, job.account).is_some() {
            EndCause::Spent
        } else if self.is_wanted(id, renewed) {
            EndCause::Quantum
        } else {
            self.move_end(id, renewed, effects);
            return;
        };
        let ends = job.ends;
        if let Some(job) = self.jobs.get_mut(&id) {
            job.ending = Some(cause.clone());
        }
        effects.push(Effect::Warning { job: id, ends, cause });
        if self.jobs.get(&id).is_some_and(|job| job.limit_ms.is_none()) {
            self.set_planned_end(id, ends);
        }
    }

    /// Whether a job without a limit is not to be renewed: its devices are set aside, or a job within its guarantee waits for their classes
    /// and this one is beyond its own guarantee.
    pub(super) fn is_wanted(&self, id: JobId, renewed: crate::time::Millis) -> bool {
        let Some(job) = self.jobs.get(&id) else { return false };
        let mut grants = job.grants.iter().filter(|grant| grant.hold == Hold::Held);
        let set_aside = grants.any(|grant| {
            let own = |reservation| {
                let known = self.reservations.get(&reservation);
                known.is_some_and(|(reservation, _)| self.is_for_job(reservation, job))
            };
            let takes_host_resources = grant.cores > 0 || grant.host_memory > 0;
            self.pool.is_set_aside(grant.spot, self.now, renewed, own)
                || takes_host_resources && self.pool.is_short_for_claims(grant.spot.node, (self.now, renewed), id)
        });
        if set_aside {
            return true;
        }
        let classes = job.grants.iter().filter(|grant| grant.hold == Hold::Held);
        let classes = classes.fold(0u128, |set, grant| set | 1 << grant.class.index());
        if self.accounts.is_within_guarantee(job.account, classes) {
            return false;
        }
        classes_of(classes).any(|class| {
            let shapes = self.shapes.by_class.get(class).into_iter().flatten();
            let mut waiting = shapes.flat_map(|&shape| {
                let waiting = &self.shapes.get(shape).waiting;
                waiting.iter().filter_map(move |(&account, turns)| turns.first().map(|turn| (account, turn.job)))
            });
            waiting.any(|(account, waiting)| {
                let demand = self.jobs.get(&waiting).map(|job| &self.shapes.get(job.shape).first_demand);
                demand.is_some_and(|demand| {
                    !demand.is_empty()
                        && demand.iter().any(|&(of, _)| of.index() == class)
                        && self.accounts.is_entitled(account, demand)
                        && self.accounts.spent(self.now, account).is_none()
                })
            })
        })
    }
}
