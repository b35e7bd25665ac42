//! The order of waiting jobs, at once or from parts that are copied under separate locks.

use super::Scheduler;
use crate::accounts::JobOrder;
use crate::ids::JobId;
use crate::phase::Phase;
use std::collections::{BTreeSet, HashMap};

/// The place of a waiting job: among the jobs that administrators have put first, or in the queue of its account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitingPlace {
    front: Option<u64>,
    account: u32,
    turn: JobOrder,
}

/// The order of the accounts that have waiting jobs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccountOrder(HashMap<u32, usize>);

impl AccountOrder {
    /// Returns the key by which places are in the order of the queue. A place of an account that got its first waiting
    /// job after this order was copied is behind all others.
    #[must_use]
    pub fn key(&self, place: &WaitingPlace) -> impl Ord + use<> {
        let account = self.0.get(&place.account).copied().unwrap_or(usize::MAX);
        match place.front {
            Some(front) => (0, front, 0, None),
            None => (1, 0, account, Some(place.turn)),
        }
    }
}

impl Scheduler {
    /// Returns the waiting jobs that are not on hold, in order: a job's position is its index.
    #[must_use]
    pub fn order_of_waiting(&self) -> Vec<JobId> {
        let mut order: Vec<JobId> = self.front.values().copied().collect();
        let front: BTreeSet<JobId> = order.iter().copied().collect();
        self.accounts.visit(&mut |_, job| {
            self.pool.step();
            if !front.contains(&job) {
                order.push(job);
            }
            true
        });
        order
    }

    /// Returns the first waiting jobs that are not on hold, in order.
    #[must_use]
    pub fn first_waiting(&self, max: usize) -> Vec<JobId> {
        let mut first: Vec<JobId> = self.front.values().copied().take(max).collect();
        if first.len() < max {
            self.accounts.visit(&mut |_, job| {
                self.pool.step();
                if self.jobs.get(&job).is_some_and(|job| job.front.is_none()) {
                    first.push(job);
                }
                first.len() < max
            });
        }
        first
    }

    /// Returns the place of a waiting job that is not on hold. With [`Self::account_order`], places give the order of
    /// [`Self::order_of_waiting`] without one visit of all jobs.
    #[must_use]
    pub fn waiting_place(&self, id: JobId) -> Option<WaitingPlace> {
        self.pool.step();
        let job = self.jobs.get(&id).filter(|job| job.phase == Phase::Waiting && !job.on_hold)?;
        Some(WaitingPlace { front: job.front, account: job.account, turn: job.turn })
    }

    /// Returns the order of the accounts that have waiting jobs.
    #[must_use]
    pub fn account_order(&self) -> AccountOrder {
        let mut order = HashMap::new();
        self.accounts.visit_queues(&mut |account| {
            self.pool.step();
            let place = order.len();
            order.insert(account, place);
        });
        AccountOrder(order)
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::SitePolicy;
    use crate::{Input, JobId, Millis, Scheduler};

    #[test]
    fn places_and_the_order_of_accounts_give_the_order_of_the_queue() {
        let site = "[account.physics]\nweight = 2\nusers = [\"u0\", \"u1\", \"u2\"]\npriorities = [0, 3]\n\
                    [account.biology]\nusers = [\"u3\", \"u4\"]\n";
        let site = SitePolicy::read(site, None).unwrap();
        let mut scheduler = Scheduler::new(site.tree([]));
        let mut give = |at: u64, input: Input| scheduler.apply(Millis(at), input, &mut Vec::new());
        for at in 0..40_u64 {
            let (user, priority) = (format!("u{}", at % 5), if at % 5 < 3 { at % 4 } else { 0 });
            let account = SitePolicy::leaf(if at % 5 < 3 { "physics" } else { "biology" }, &user);
            let request = format!("1:cpu priority={priority}").parse().unwrap();
            give(at * 1_000, Input::Ask { user, account, origin: None, request });
        }
        for job in [17, 4] {
            give(50_000, Input::ToFront { job: JobId(job), by: "admin root".to_owned() });
        }
        give(50_000, Input::Hold { job: JobId(9), held: true });
        let accounts = scheduler.account_order();
        let mut places: Vec<_> = (1..=40)
            .filter_map(|job| Some((accounts.key(&scheduler.waiting_place(JobId(job))?), JobId(job))))
            .collect();
        places.sort();
        let order = scheduler.order_of_waiting();
        assert_eq!(order.len(), 39);
        for max in [0, 1, 2, 7, 40] {
            assert_eq!(scheduler.first_waiting(max), order[..max.min(39)]);
        }
        assert_eq!(places.into_iter().map(|(_, job)| job).collect::<Vec<_>>(), order);
    }
}
