//! Preemption by suspension: running jobs give way to waiting ones of a higher priority or within a guarantee.
//!
//! A job that gave way keeps its devices from all jobs but those to which it would give way, and resumes once they are free. It is not asked
//! again within a quantum of the end of its suspension, so that it gets on and two jobs don't take turns.

use super::pass::Fit;
use super::{Scheduler, Timer};
use crate::effect::Effect;
use crate::ids::{ClassId, JobId};
use crate::job::{Grant, Job};
use crate::phase::{Hold, Phase};
use crate::policy::PreemptMode;
use crate::pool::{Holder, HostResources, Spot};
use crate::shapes::Shape;
use crate::suspension::{SuspensionCause, SuspensionStage};
use crate::time::Millis;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Least time between two searches for jobs that give way, in milliseconds.
pub const PREEMPT_INTERVAL_MS: u64 = 1_000;

/// Most running jobs of which those that give way to one job are chosen.
pub const PREEMPTABLE_MAX: usize = 64;

impl Scheduler {
    /// Suspends running jobs whose devices let waiting jobs start that go before them, in the order of the waiting jobs.
    pub(super) fn preempt(&mut self, effects: &mut Vec<Effect>) {
        if self.policy.preempt_mode == PreemptMode::Off || self.waiting == 0 {
            return;
        }
        if self.now < self.preempts_from {
            return self.preempt_later(self.preempts_from);
        }
        self.preempts_from = self.now.plus(PREEMPT_INTERVAL_MS);
        let candidates = self.preemptable();
        for id in self.first_jobs(self.policy.backfill_depth) {
            let victims = self.victims_of(id, &candidates);
            for victim in self.needed(id, victims) {
                let Some((job, other)) = self.jobs.get(&id).zip(self.jobs.get(&victim)) else { continue };
                let (priority, least) = (job.request.priority, other.request.priority);
                let reason = match priority > least {
                    true => format!("its priority is {priority}, that of this job {least}"),
                    false => "it is within the guarantee of its account".to_owned(),
                };
                self.suspend(victim, SuspensionCause::Preemption { by: id }, format!("job {id}"), reason, effects);
            }
        }
        let unsuspended = self.jobs.values().filter(|job| job.phase == Phase::Running && job.suspension.is_none());
        let exempt = unsuspended.map(|job| self.exempt_until(job)).filter(|until| *until > self.now);
        if let Some(next) = exempt.min() {
            self.preempt_later(next.max(self.preempts_from));
        }
    }

    fn preempt_later(&mut self, at: Millis) {
        if let Some(before) = self.preempt_timer.replace(at) {
            self.timers.remove(&(before, Timer::Preempt));
        }
        self.timers.insert((at, Timer::Preempt));
    }

    /// Returns the time until which a running job does not give way: for a while after its start, and for a quantum after each suspension,
    /// also after one that was refused.
    fn exempt_until(&self, job: &Job) -> Millis {
        let exempt = self.policy.preempt_exempt_ms;
        match job.went_on {
            None => job.started.plus(exempt),
            Some(went_on) => went_on.plus(exempt.max(self.policy.quantum())),
        }
    }

    /// Returns the jobs that may give way now, in the order in which they do: those of the lowest priority, then those of the account with
    /// the largest share, then the latest ones.
    fn preemptable(&self) -> Vec<JobId> {
        let mut found: Vec<&Job> = self.jobs.values().filter(|job| self.is_preemptable(job)).collect();
        found.sort_by_key(|job| {
            let share = self.accounts.share(job.account);
            (job.request.priority, Reverse(share), Reverse(job.started), Reverse(job.id))
        });
        found.into_iter().map(|job| job.id).collect()
    }

    /// Whether a job may give way now: it has all its devices, is beyond its guarantee, is neither exempt nor about to end, and is on no reservation.
    fn is_preemptable(&self, job: &Job) -> bool {
        self.pool.step();
        let classes = job.grants.iter().fold(0u128, |set, grant| set | 1 << grant.class.index());
        job.phase == Phase::Running
            && job.suspension.is_none()
            && job.ending.is_none()
            && job.request.reservation.is_none()
            && self.exempt_until(job) <= self.now
            && job.grants.iter().all(|grant| grant.hold == Hold::Held)
            && !self.accounts.is_within_guarantee(job.account, classes)
    }

    /// Whether a waiting job goes before one that is beyond its guarantee.
    fn goes_before(&self, job: &Job, other: &Job) -> bool {
        job.request.priority > other.request.priority
            || self.accounts.is_entitled(job.account, &self.shapes.get(job.shape).first_demand)
    }

    /// Returns the first jobs that may give way to a waiting one and have devices that it may use; none if jobs give way to it already.
    fn victims_of(&self, id: JobId, candidates: &[JobId]) -> Vec<JobId> {
        let Some(job) = self.jobs.get(&id).filter(|job| job.request.reservation.is_none()) else { return Vec::new() };
        if self.is_preempting(id) {
            return Vec::new();
        }
        let shape = self.shapes.get(job.shape);
        let suits = |other: &&JobId| {
            self.pool.step();
            let other = self.jobs.get(other).filter(|other| other.suspension.is_none());
            other.is_some_and(|other| self.goes_before(job, other) && has_device_for(shape, other))
        };
        candidates.iter().filter(suits).take(PREEMPTABLE_MAX).copied().collect()
    }

    /// Whether jobs are being suspended for a waiting one.
    pub(super) fn is_preempting(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|job| job.phase == Phase::Waiting)
            && self.preempted.iter().filter_map(|other| self.jobs.get(other)?.suspension.as_ref()).any(|suspension| {
                self.pool.step();
                suspension.stage == SuspensionStage::Suspending && suspension.cause.preempted_by() == Some(id)
            })
    }

    /// Returns those jobs without whose suspension a waiting job can't start; none if it can't start beside all of them either. The last to
    /// give way are left alone first.
    fn needed(&mut self, id: JobId, victims: Vec<JobId>) -> Vec<JobId> {
        if victims.is_empty() {
            return victims;
        }
        let spots_of = |victim: &JobId| self.jobs.get(victim).map_or(&[][..], |job| &job.grants[..]);
        let spots: BTreeSet<Spot> = victims.iter().flat_map(spots_of).map(|grant| grant.spot).collect();
        let has_some = |other: &&JobId| {
            let reserved = self.jobs.get(*other).and_then(|job| job.reserved_start.as_ref());
            **other == id || reserved.is_some_and(|reserved| reserved.spots.iter().any(|spot| spots.contains(spot)))
        };
        // A suspended job's devices have no reserved starts, and the job's own is no obstacle.
        let aside: Vec<JobId> = self.with_reserved_start.iter().filter(has_some).copied().collect();
        let changes = self.pool.changes();
        aside.iter().for_each(|other| self.set_claims(*other, false));
        victims.iter().for_each(|victim| self.lift(*victim));
        let mut needed = victims;
        if self.fits_anywhere(id) {
            for at in (0..needed.len()).rev() {
                self.put_back(needed[at]);
                if self.fits_anywhere(id) {
                    needed.remove(at);
                } else {
                    self.lift(needed[at]);
                }
            }
            needed.iter().for_each(|victim| self.put_back(*victim));
        } else {
            needed.iter().for_each(|victim| self.put_back(*victim));
            needed.clear();
        }
        aside.iter().for_each(|other| self.set_claims(*other, true));
        self.pool.forget_changes(changes);
        needed
    }

    fn fits_anywhere(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|job| self.fit_anywhere(job).is_ok())
    }

    /// Frees a job's devices in the pool, until [`Self::put_back`].
    fn lift(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let mut nodes = BTreeSet::new();
        for grant in &job.grants {
            self.pool.free(grant.spot, id, grant.cores, grant.host_memory);
            nodes.insert(grant.spot.node);
        }
        nodes.into_iter().for_each(|node| self.pool.refresh(self.now, node));
    }

    fn put_back(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let mut nodes = BTreeSet::new();
        for grant in &job.grants {
            let Grant { amount, exclusive, cores, host_memory, .. } = *grant;
            let host_resources = HostResources { cores, memory: host_memory };
            let (long, ends) = (job.long, job.planned_end);
            self.pool.hold(grant.spot, Holder { job: id, amount, exclusive, long, ends, host_resources });
            nodes.insert(grant.spot.node);
        }
        nodes.into_iter().for_each(|node| self.pool.refresh(self.now, node));
    }

    /// Whether a suspended job can't resume yet: other jobs are still being suspended for the one to which it gave way, or its last
    /// resumption has just failed.
    pub(super) fn is_held_back(&self, job: &Job) -> bool {
        job.suspension.as_ref().is_some_and(|suspension| {
            let by = suspension.cause.preempted_by();
            by.is_some() && suspension.resumes_from > self.now || by.is_some_and(|by| self.is_preempting(by))
        })
    }

    /// Starts waiting jobs on devices that are kept for suspended ones, if these would give way to them.
    pub(super) fn start_before_suspended(&mut self, effects: &mut Vec<Effect>) {
        while let Some((id, (choice, picks))) = self.first_before_suspended() {
            self.start(id, &choice, &picks, effects);
            self.check_reserved_starts();
        }
    }

    fn first_before_suspended(&mut self) -> Option<(JobId, Fit)> {
        let may_be_passed = |id: &&JobId| self.jobs.get(*id).is_some_and(|job| self.may_be_passed(job));
        let suspended: Vec<JobId> = self.preempted.iter().filter(may_be_passed).copied().collect();
        if suspended.is_empty() {
            return None;
        }
        self.first_jobs(self.policy.backfill_depth).into_iter().find_map(|id| {
            let job = self.jobs.get(&id)?;
            let shape = self.shapes.get(job.shape);
            let suits = |other: &&JobId| {
                let other = self.jobs.get(*other);
                other.is_some_and(|other| self.passes(job, other) && has_device_for(shape, other))
            };
            let passed: Vec<JobId> = suspended.iter().filter(suits).copied().collect();
            Some((id, self.fit_before(id, &passed)?))
        })
    }

    /// Whether a device of a job that gave way is free, and it was suspended less than an ageing time ago, so that other jobs may pass it.
    fn may_be_passed(&self, job: &Job) -> bool {
        let suspension = job.suspension.as_ref().filter(|of| of.stage == SuspensionStage::Waiting);
        suspension.is_some_and(|suspension| self.now < suspension.since.plus(self.policy.ageing_ms))
            && self.has_free_device(job)
    }

    /// Whether a waiting job goes before one that gave way: it is the one to which that gave way, or that would be beyond its guarantee again.
    fn passes(&self, job: &Job, other: &Job) -> bool {
        let gave_way_to = other.suspension.as_ref().and_then(|suspension| suspension.cause.preempted_by());
        self.goes_before(job, other) && (gave_way_to == Some(job.id) || !self.would_be_within_guarantee(other))
    }

    /// Whether a suspended job would be within its guarantee with its devices.
    fn would_be_within_guarantee(&self, job: &Job) -> bool {
        let mut demand: Vec<(ClassId, u64)> = Vec::new();
        for grant in job.grants.iter().filter(|grant| grant.hold == Hold::Suspended) {
            match demand.iter_mut().find(|(class, _)| *class == grant.class) {
                Some((_, milli)) => *milli += grant.milli,
                None => demand.push((grant.class, grant.milli)),
            }
        }
        self.accounts.is_entitled(job.account, &demand)
    }

    /// Returns a start that takes devices of these suspended jobs.
    fn fit_before(&mut self, id: JobId, passed: &[JobId]) -> Option<Fit> {
        if passed.is_empty() {
            return None;
        }
        let changes = self.pool.changes();
        for other in passed {
            self.resuming.remove(other);
            self.mark_awaited(*other);
        }
        self.set_claims(id, false);
        let fit = self.jobs.get(&id).and_then(|job| self.fit_anywhere(job).ok());
        self.set_claims(id, true);
        for other in passed {
            self.resuming.insert(*other);
            self.mark_awaited(*other);
        }
        self.pool.forget_changes(changes);
        let kept = |spot: Spot| {
            let mut grants = passed.iter().filter_map(|other| self.jobs.get(other)).flat_map(|other| &other.grants);
            grants.any(|grant| grant.spot == spot && grant.hold == Hold::Suspended)
        };
        fit.filter(|(_, picks)| picks.iter().any(|pick| kept(pick.spot)))
    }

    /// Returns the jobs that give way, or gave way, to a job.
    pub fn gave_way_to(&self, id: JobId) -> impl Iterator<Item = JobId> {
        self.preempted.iter().copied().filter(move |other| {
            let suspension = self.jobs.get(other).and_then(|other| other.suspension.as_ref());
            suspension.is_some_and(|suspension| suspension.cause.preempted_by() == Some(id))
        })
    }
}

/// Whether a job has a device that jobs of a shape may use.
fn has_device_for(shape: &Shape, job: &Job) -> bool {
    job.grants.iter().any(|grant| {
        shape.classes >> grant.class.index() & 1 == 1
            && shape.nodes.as_ref().is_none_or(|nodes| nodes.contains(grant.spot.node))
    })
}
