//! What jobs with long limits leave beside the guarantees of accounts.

use super::Scheduler;
use super::pass::Stop;
use super::quarantine::is_charged;
use crate::amount::WHOLE;
use crate::class_sums::{sum_of, taken_of};
use crate::demand::PartDemand;
use crate::guarantees::AdditionalDemand;
use crate::ids::{ClassId, JobId};
use crate::job::Job;
use crate::plan::Plan;

/// Most ends of jobs that are looked at for the first job's start; the jobs that end later count as running.
const ENDS_MAX: usize = 1_024;

impl Scheduler {
    /// Checks that all guarantees can be met within a quantum if the job takes these devices in addition to those of jobs
    /// with long limits: now, and at the reserved start of the first job, unless the job ends before.
    ///
    /// # Errors
    /// Returns [`Stop::Guarantee`] if they can't be met now, and [`Stop::First`] if not beside the first job.
    pub(super) fn leaves_guarantees(&self, job: &Job, taken: &[(ClassId, u64)]) -> Result<(), Stop> {
        let own = (job.account, taken);
        if !Future::new(self, vec![own]).fits() {
            return Err(Stop::Guarantee);
        }
        let head = self.head.filter(|&head| head != job.id).and_then(|head| self.jobs.get(&head));
        // A first job with a short limit gives its devices back within a quantum.
        let Some(head) = head.filter(|head| head.is_long(self.policy.quantum())) else { return Ok(()) };
        let Some(start) = &head.reserved_start else { return Ok(()) };
        if job.limit_ms.is_some_and(|limit| self.now.plus(limit) <= start.planned) {
            return Ok(());
        }
        let mut future = Future::new(self, vec![own, (head.account, &start.demand[..])]);
        let ends = self.ends.iter().take(ENDS_MAX).take_while(|(time, _)| *time <= start.planned);
        for (_, other) in ends {
            if future.fits() {
                break;
            }
            self.pool.step();
            if let Some(other) = self.jobs.get(other).filter(|other| other.long) {
                future.end(other);
            }
        }
        if future.fits() { Ok(()) } else { Err(Stop::First(head.id)) }
    }

    /// Whether guarantees of other accounts exclude a job with its limit for ever, whichever of its choices it gets.
    pub(super) fn is_excluded_by_guarantees(&self, job: &Job) -> bool {
        let shape = self.shapes.get(job.shape);
        let is_excluded = |choice: &Vec<PartDemand>| {
            let demand = shape.demand(choice, &self.pool.classes);
            !self.accounts.is_entitled(job.account, &demand)
                && !Future::new(self, vec![(job.account, &demand[..])]).fits_without_long()
        };
        job.is_long(self.policy.quantum()) && !shape.choices.is_empty() && shape.choices.iter().all(is_excluded)
    }

    /// Whether a job's first choice fits besides all guarantees once no job with a long limit runs.
    pub(super) fn may_fit_beside_guarantees(&self, id: JobId) -> bool {
        let Some(job) = self.jobs.get(&id) else { return false };
        let demand = &self.shapes.get(job.shape).first_demand;
        !job.is_long(self.policy.quantum())
            || self.accounts.is_entitled(job.account, demand)
            || Future::new(self, vec![(job.account, &demand[..])]).fits_without_long()
    }

    /// Moves a plan of the first job to the time at which jobs with long limits leave enough besides all guarantees.
    /// Reservations may move it further. `None` if that never happens.
    pub(super) fn beside_guarantees(
        &self,
        id: JobId,
        choice: Vec<PartDemand>,
        mut plan: Plan,
    ) -> Option<(Vec<PartDemand>, Plan)> {
        let job = self.jobs.get(&id)?;
        let demand = self.shapes.get(job.shape).demand(&choice, &self.pool.classes);
        if !job.is_long(self.policy.quantum()) || self.accounts.is_entitled(job.account, &demand) {
            return Some((choice, plan));
        }
        let mut future = Future::new(self, vec![(job.account, &demand[..])]);
        if !future.fits_without_long() {
            return None;
        }
        let mut ends = self.ends.iter();
        while !future.fits() {
            self.pool.step();
            let &(time, other) = ends.next()?;
            if let Some(other) = self.jobs.get(&other).filter(|other| other.long) {
                future.end(other);
                plan.starts = plan.starts.max(time);
            }
        }
        let lease_ms = job.lease_ms(self.policy.quantum());
        let mut windows = plan.spots.iter().flat_map(|&spot| &self.pool.device(spot).windows);
        if windows.any(|window| !window.leaves(plan.starts, lease_ms)) {
            plan = self.planner(job).plan(&choice, plan.starts)?;
        }
        Some((choice, plan))
    }
}

/// The devices that jobs with long limits leave after some of them have ended.
struct Future<'a> {
    scheduler: &'a Scheduler,
    /// What jobs take in addition. Only sets of classes count of which the first one takes some.
    takes: Vec<AdditionalDemand<'a>>,
    /// Holdings of the ended jobs, by class.
    gone: Vec<u64>,
    /// Holdings of the ended jobs for each account with a guarantee, by class.
    gone_of: Vec<Vec<u64>>,
}

impl<'a> Future<'a> {
    fn new(scheduler: &'a Scheduler, takes: Vec<AdditionalDemand<'a>>) -> Self {
        let none = vec![0; scheduler.pool.classes.len()];
        let gone_of = vec![none.clone(); scheduler.accounts.guaranteed.len()];
        Self { scheduler, takes, gone: none, gone_of }
    }

    fn end(&mut self, job: &Job) {
        let charged = job.grants.iter().filter(|grant| is_charged(&self.scheduler.quarantined, grant));
        let accounts = &self.scheduler.accounts;
        for grant in charged {
            self.gone[grant.class.index()] += grant.milli;
            for (gone, top) in self.gone_of.iter_mut().zip(&accounts.guaranteed) {
                if accounts.get(job.account).path.contains(top) {
                    gone[grant.class.index()] += grant.milli;
                }
            }
        }
    }

    fn fits(&self) -> bool {
        self.leaves(
            |set| self.scheduler.pool.in_use(set).1 * u64::from(WHOLE),
            |account, classes| sum_of(&self.scheduler.accounts.get(account).long, classes),
        )
    }

    fn fits_without_long(&self) -> bool {
        self.leaves(|_| 0, |_, _| 0)
    }

    fn leaves(&self, long: impl Fn(u128) -> u64, long_of: impl Fn(u32, u128) -> u64) -> bool {
        let accounts = &self.scheduler.accounts;
        accounts.guaranteed_sets.iter().all(|&set| {
            if self.takes.first().is_none_or(|(_, demand)| taken_of(demand, set) == 0) {
                return true;
            }
            let taken: u64 = self.takes.iter().map(|(_, demand)| taken_of(demand, set)).sum();
            let mut needed = long(set).saturating_sub(sum_of(&self.gone, set)) + taken;
            for (gone, &top) in self.gone_of.iter().zip(&accounts.guaranteed) {
                for bound in accounts.get(top).guaranteed.iter().filter(|bound| bound.classes & !set == 0) {
                    let own = self.takes.iter().filter(|(leaf, _)| accounts.get(*leaf).path.contains(&top));
                    let more: u64 = own.map(|(_, demand)| taken_of(demand, bound.classes)).sum();
                    let left = long_of(top, bound.classes).saturating_sub(sum_of(gone, bound.classes));
                    needed += bound.milli.saturating_sub(left + more);
                }
            }
            needed <= self.scheduler.pool.in_use(set).0 * u64::from(WHOLE)
        })
    }
}
