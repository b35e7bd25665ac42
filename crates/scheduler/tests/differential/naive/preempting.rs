//! Jobs that give way to others.

use super::*;
use accord_scheduler::policy::PreemptMode;
use accord_scheduler::{PREEMPT_INTERVAL_MS, PREEMPTABLE_MAX};
use std::cmp::Reverse;

impl Naive {
    /// Suspends running jobs for waiting ones. Returns whether there are some.
    pub(super) fn preempt(&mut self, effects: &mut Vec<Effect>) -> bool {
        let waits = self.jobs.values().any(|job| job.phase == NPhase::Waiting);
        if self.policy.preempt_mode == PreemptMode::Off || !waits || self.now < self.preempts_from {
            return false;
        }
        self.preempts_from = self.now.plus(PREEMPT_INTERVAL_MS);
        let mut candidates: Vec<&NJob> = self.jobs.values().filter(|job| self.is_preemptable(job)).collect();
        candidates.sort_by_key(|job| {
            (job.request.priority, Reverse(self.share(job.account)), Reverse(job.started), Reverse(job.id))
        });
        let candidates: Vec<JobId> = candidates.into_iter().map(|job| job.id).collect();
        let mut changed = false;
        for id in self.first_jobs() {
            let job = &self.jobs[&id];
            if job.request.reservation.is_some() || self.is_preempting(id) {
                continue;
            }
            let suits = |other: &&JobId| {
                let other = &self.jobs[*other];
                other.suspension.is_none() && self.goes_before(job, other) && self.has_device_for(job, other)
            };
            let victims: Vec<JobId> = candidates.iter().filter(suits).take(PREEMPTABLE_MAX).copied().collect();
            for victim in self.needed(id, victims) {
                self.suspend(victim, SuspensionCause::Preemption { by: id }, effects);
                changed = true;
            }
        }
        changed
    }

    fn is_preemptable(&self, job: &NJob) -> bool {
        let exempt = self.policy.preempt_exempt_ms;
        let exempt_until = match job.went_on {
            None => job.started.plus(exempt),
            Some(at) => at.plus(exempt.max(self.policy.quantum())),
        };
        let mine: BTreeSet<usize> = job.grants.iter().map(|grant| grant.class).collect();
        job.phase == NPhase::Running
            && job.suspension.is_none()
            && job.ending.is_none()
            && job.request.reservation.is_none()
            && exempt_until <= self.now
            && job.grants.iter().all(|grant| grant.hold == NHold::Held)
            && !self.is_within_guarantee(job, &mine)
    }

    fn goes_before(&self, job: &NJob, other: &NJob) -> bool {
        job.request.priority > other.request.priority || self.entitled(job.account, &self.first_demand(job))
    }

    fn has_device_for(&self, job: &NJob, other: &NJob) -> bool {
        let classes: BTreeSet<usize> = self.choices(job).iter().flatten().map(|want| want.class).collect();
        other.grants.iter().any(|grant| classes.contains(&grant.class) && self.is_allowed(job, grant.at.0))
    }

    /// Whether jobs are being suspended for a waiting one.
    fn is_preempting(&self, id: JobId) -> bool {
        let is_for = |job: &NJob| {
            let suspension = job.suspension.as_ref();
            suspension.is_some_and(|of| {
                of.stage == SuspensionStage::Suspending && of.cause == SuspensionCause::Preemption { by: id }
            })
        };
        self.jobs.get(&id).is_some_and(|job| job.phase == NPhase::Waiting) && self.jobs.values().any(is_for)
    }

    /// Returns those of some jobs without whose suspension a job can't start.
    fn needed(&self, id: JobId, victims: Vec<JobId>) -> Vec<JobId> {
        let mut trial = self.clone();
        trial.lifted = victims.iter().copied().collect();
        let places: BTreeSet<At> =
            victims.iter().flat_map(|victim| &self.jobs[victim].grants).map(|grant| grant.at).collect();
        let has_some = |job: &&NJob| {
            let mut reserved = job.reserved_start.iter().flat_map(|reserved_start| &reserved_start.places);
            job.id == id || reserved.any(|at| places.contains(at))
        };
        trial.aside = self.jobs.values().filter(has_some).map(|job| job.id).collect();
        if victims.is_empty() || trial.fit_anywhere(&self.jobs[&id]).is_none() {
            return Vec::new();
        }
        let mut needed = victims.clone();
        for victim in victims.into_iter().rev() {
            trial.lifted.remove(&victim);
            if trial.fit_anywhere(&self.jobs[&id]).is_some() {
                needed.retain(|of| *of != victim);
            } else {
                trial.lifted.insert(victim);
            }
        }
        needed
    }

    pub(super) fn is_held_back(&self, id: JobId) -> bool {
        let suspension = self.jobs[&id].suspension.as_ref().unwrap();
        match suspension.cause {
            SuspensionCause::Preemption { by } => suspension.resumes_from > self.now || self.is_preempting(by),
            SuspensionCause::Administrator | SuspensionCause::Owner => false,
        }
    }

    /// Starts jobs on devices that are kept for suspended ones. Returns whether there are some.
    pub(super) fn start_before_suspended(&mut self, effects: &mut Vec<Effect>) -> bool {
        let mut changed = false;
        while let Some((id, (choice, picks))) =
            self.first_jobs().into_iter().find_map(|id| Some((id, self.fit_before(id)?)))
        {
            self.start(id, &choice, &picks, effects);
            self.check_reserved_starts();
            changed = true;
        }
        changed
    }

    /// Whether a job that gave way lets others pass it.
    fn may_be_passed(&self, job: &NJob) -> bool {
        let Some(suspension) = &job.suspension else { return false };
        suspension.stage == SuspensionStage::Waiting
            && matches!(suspension.cause, SuspensionCause::Preemption { .. })
            && self.now < suspension.since.plus(self.policy.ageing_ms)
            && job.grants.iter().any(|grant| grant.hold == NHold::Suspended && self.has_space(grant))
    }

    fn passes(&self, job: &NJob, other: &NJob) -> bool {
        let mut demand = BTreeMap::new();
        for grant in other.grants.iter().filter(|grant| grant.hold == NHold::Suspended) {
            *demand.entry(grant.class).or_default() += grant.milli;
        }
        let gave_way_to = other.suspension.as_ref().and_then(|suspension| suspension.cause.preempted_by());
        self.goes_before(job, other) && (gave_way_to == Some(job.id) || !self.entitled(other.account, &demand))
    }

    fn fit_before(&self, id: JobId) -> Option<Fit> {
        let job = &self.jobs[&id];
        let passed = self
            .jobs
            .values()
            .filter(|other| self.may_be_passed(other) && self.passes(job, other) && self.has_device_for(job, other));
        let passed: Vec<&NJob> = passed.collect();
        if passed.is_empty() {
            return None;
        }
        let mut trial = self.clone();
        trial.aside.insert(id);
        for other in &passed {
            trial.jobs.get_mut(&other.id).unwrap().suspension.as_mut().unwrap().stage = SuspensionStage::Suspended;
        }
        let is_kept = |at: At| {
            let mut grants = passed.iter().flat_map(|other| &other.grants);
            grants.any(|grant| grant.at == at && grant.hold == NHold::Suspended)
        };
        trial.fit_anywhere(job).filter(|(_, picks)| picks.iter().any(|(_, at)| is_kept(*at)))
    }
}
