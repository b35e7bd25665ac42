//! What jobs with long limits leave beside the guarantees of accounts.

use super::Scheduler;
use super::quarantine::is_charged;
use crate::accounts::taken_of;
use crate::amount::WHOLE;
use crate::demand::PartDemand;
use crate::ids::{ClassId, JobId};
use crate::job::Job;
use crate::plan::Plan;

impl Scheduler {
    /// Whether all guarantees can still be met within a quantum if the job takes these devices in addition to those of
    /// jobs with long limits. The claim of the first job counts as taken.
    pub(super) fn leaves_guarantees(&self, job: &Job, taken: &[(ClassId, u64)]) -> bool {
        let head = self.head.filter(|&head| head != job.id).and_then(|head| self.jobs.get(&head));
        let head = head.and_then(|head| Some((head.account, &head.reserved_start.as_ref()?.demand[..])));
        let mut takes = vec![(job.account, taken)];
        takes.extend(head);
        self.accounts.guaranteed_sets.iter().all(|&set| {
            let (sound, long) = self.pool.in_use(set);
            let more: u64 = takes.iter().map(|(_, demand)| taken_of(demand, set)).sum();
            taken_of(taken, set) == 0
                || long * u64::from(WHOLE) + more + self.accounts.unused_guarantees(set, &takes)
                    <= sound * u64::from(WHOLE)
        })
    }

    /// Whether a job's first choice fits besides all guarantees once no job with a long limit runs.
    pub(super) fn may_fit_beside_guarantees(&self, id: JobId) -> bool {
        let Some(job) = self.jobs.get(&id) else { return false };
        let demand = &self.shapes.get(job.shape).first_demand;
        !job.is_long(self.policy.quantum())
            || self.accounts.is_entitled(job.account, demand)
            || Future::new(self, job.account, demand).fits_without_long()
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
        let mut future = Future::new(self, job.account, &demand);
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
    account: u32,
    demand: &'a [(ClassId, u64)],
    /// Holdings of the ended jobs, by class.
    gone: Vec<u64>,
    /// Holdings of the ended jobs for each account with a guarantee, by class.
    gone_of: Vec<Vec<u64>>,
}

impl<'a> Future<'a> {
    fn new(scheduler: &'a Scheduler, account: u32, demand: &'a [(ClassId, u64)]) -> Self {
        let none = vec![0; scheduler.pool.classes.len()];
        let gone_of = vec![none.clone(); scheduler.accounts.guaranteed.len()];
        Self { scheduler, account, demand, gone: none, gone_of }
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
            |account, classes| crate::accounts::sum_of(&self.scheduler.accounts.get(account).long, classes),
        )
    }

    fn fits_without_long(&self) -> bool {
        self.leaves(|_| 0, |_, _| 0)
    }

    fn leaves(&self, long: impl Fn(u128) -> u64, long_of: impl Fn(u32, u128) -> u64) -> bool {
        let accounts = &self.scheduler.accounts;
        accounts.guaranteed_sets.iter().all(|&set| {
            let taken = taken_of(self.demand, set);
            let mut needed = long(set).saturating_sub(crate::accounts::sum_of(&self.gone, set)) + taken;
            for (gone, &top) in self.gone_of.iter().zip(&accounts.guaranteed) {
                for bound in accounts.get(top).guaranteed.iter().filter(|bound| bound.classes & !set == 0) {
                    let own = accounts.get(self.account).path.contains(&top);
                    let more = if own { taken_of(self.demand, bound.classes) } else { 0 };
                    let left = long_of(top, bound.classes).saturating_sub(crate::accounts::sum_of(gone, bound.classes));
                    needed += bound.milli.saturating_sub(left + more);
                }
            }
            taken == 0 || needed <= self.scheduler.pool.in_use(set).0 * u64::from(WHOLE)
        })
    }
}
