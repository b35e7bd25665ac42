//! Invariants of the scheduler, checked after each step.

use super::quarantine::is_charged;
use super::{Scheduler, Timer};
use crate::amount::{Amount, WHOLE};
use crate::ids::{AccountId, JobId};
use crate::job::Job;
use crate::phase::Rank;
use crate::phase::{Hold, Phase};
use crate::pool::{HostResources, Spot};
use crate::suspension::SuspensionStage;
use std::collections::BTreeSet;

impl Scheduler {
    /// Checks the whole state, for tests and the simulation.
    ///
    /// # Errors
    /// Returns the violated invariant and the state that violates it.
    pub fn check_invariants(&self) -> Result<(), String> {
        let mut held: BTreeSet<(Spot, JobId)> = BTreeSet::new();
        for job in self.jobs.values() {
            for grant in job.grants.iter().filter(|grant| grant.hold.is_hold()) {
                held.insert((grant.spot, job.id));
            }
            if job.phase != Phase::Waiting && job.long != job.is_long(self.policy.quantum()) {
                return Err(format!("job {} counts as one with a long limit, or as another, wrongly", job.id));
            }
            match job.phase {
                Phase::Waiting if !job.grants.is_empty() => return Err(format!("job {} waits with devices", job.id)),
                Phase::Running
                    if job.grants.iter().all(|grant| !matches!(grant.hold, Hold::Held | Hold::Suspended)) =>
                {
                    return Err(format!("job {} runs without devices", job.id));
                }
                _ => {}
            }
            self.check_suspension(job)?;
        }
        let mut holders = 0;
        for (at, node) in (0..).zip(&self.pool.nodes) {
            let (mut cores, mut memory) = (0, 0);
            for (device, of) in (0..).zip(&node.devices) {
                let spot = Spot { node: at, device };
                let mut sum = Amount::default();
                for (before, holder) in of.holders.iter().enumerate() {
                    holders += 1;
                    sum.milli += holder.amount.milli;
                    sum.memory += holder.amount.memory + if before > 0 { of.context } else { 0 };
                    if !held.contains(&(spot, holder.job)) {
                        return Err(format!("job {} holds {spot:?}, which is not its own", holder.job));
                    }
                }
                let whole = Amount { milli: WHOLE, memory: of.memory };
                if !whole.covers(sum) && !of.absent {
                    return Err(format!("{spot:?} is over its capacity: {sum:?}"));
                }
                if of.holders.len() > 1 && of.holders.iter().any(|holder| holder.exclusive) {
                    return Err(format!("{spot:?} is exclusive and has {} holders", of.holders.len()));
                }
            }
            for grant in self.jobs.values().flat_map(|job| &job.grants) {
                if grant.spot.node == at && grant.hold.is_hold() {
                    (cores, memory) = (cores + grant.cores, memory + grant.host_memory);
                }
            }
            if !self.pool.has_settled_claims(at) {
                return Err(format!("{}: claims on its cores and host memory are out of date", node.id));
            }
            if node.host_held != (HostResources { cores, memory }) {
                return Err(format!("{}: cores or host memory do not add up", node.id));
            }
        }
        if holders != held.len() {
            return Err(format!("{holders} holders of devices, {} parts of jobs", held.len()));
        }
        self.check_accounts()?;
        self.check_reserved_starts_made()
    }

    fn check_suspension(&self, job: &Job) -> Result<(), String> {
        let has = |hold| job.grants.iter().any(|grant| grant.hold == hold);
        let stage = job.suspension.as_ref().map(|suspension| suspension.stage);
        let is_parted = stage.is_some_and(SuspensionStage::is_without_devices);
        let is_running = job.phase == Phase::Running;
        if stage.is_some() && !is_running
            || is_running && (is_parted != has(Hold::Suspended) || is_parted && has(Hold::Held))
        {
            return Err(format!("job {} is {:?} in stage {stage:?}, which its devices are not", job.id, job.phase));
        }
        if has(Hold::Suspended) != self.without_devices.contains(&job.id) {
            return Err(format!("job {} counts as suspended, or does not, wrongly", job.id));
        }
        if (stage == Some(SuspensionStage::Waiting)) != self.resuming.contains(&job.id) {
            return Err(format!("job {} counts as waiting to be resumed, or does not, wrongly", job.id));
        }
        let gave_way = job.suspension.as_ref().is_some_and(|suspension| suspension.cause.preempted_by().is_some());
        if gave_way != self.preempted.contains(&job.id) {
            return Err(format!("job {} counts as one that gave way, or does not, wrongly", job.id));
        }
        let has_timer = self.timers.contains(&(job.ends, Timer::Lease(job.id)));
        if is_running && stage.is_some() == has_timer {
            return Err(format!("job {} in stage {stage:?} has an end: {has_timer}", job.id));
        }
        Ok(())
    }

    fn check_accounts(&self) -> Result<(), String> {
        for (at, account) in self.accounts.all.iter().enumerate() {
            let below = |leaf: u32| self.accounts.get(leaf).path.contains(&u32::try_from(at).unwrap_or(u32::MAX));
            let jobs = || self.jobs.values().filter(|job| below(job.account));
            let running = jobs().filter(|job| job.phase == Phase::Running).count();
            let waiting = jobs().filter(|job| job.phase == Phase::Waiting).count();
            if (account.running as usize, account.waiting as usize) != (running, waiting) {
                return Err(format!("account {at} counts its jobs wrongly"));
            }
            let claimed = jobs()
                .filter_map(|job| job.reserved_start.as_ref())
                .filter(|reserved_start| reserved_start.rank != Rank::Later);
            let claimed: u64 = claimed.flat_map(|reserved_start| &reserved_start.demand).map(|(_, milli)| milli).sum();
            if account.claimed.iter().sum::<u64>() != claimed {
                return Err(format!("account {at} counts reserved starts of first jobs wrongly"));
            }
            let long = jobs().filter(|job| job.long).flat_map(|job| &job.grants);
            let long: u64 = long.filter(|grant| is_charged(&self.quarantined, grant)).map(|grant| grant.milli).sum();
            if account.long.iter().sum::<u64>() != long {
                return Err(format!("account {at} counts what jobs with long limits hold wrongly"));
            }
            for (class, (&held, &charged)) in account.held.iter().zip(&account.charged).enumerate() {
                let grants = jobs().flat_map(|job| &job.grants);
                let grants =
                    grants.filter(|grant| grant.class.index() == class && is_charged(&self.quarantined, grant));
                let sum = grants.fold((0, 0), |sum, grant| (sum.0 + grant.milli, sum.1 + grant.charged));
                if sum != (held, charged) {
                    return Err(format!(
                        "account {at} holds {held} of class {class} for {charged}, and its jobs {sum:?}"
                    ));
                }
            }
        }
        for (at, id) in self.order_of_waiting().into_iter().enumerate() {
            if self.jobs.get(&id).is_none_or(|job| self.position(job) != at) {
                return Err(format!("job {id} is at position {at} of the order, and not by the counts of accounts"));
            }
        }
        let queued: usize = self.accounts.all.iter().map(|account| account.queue.len()).sum();
        let waiting = self.jobs.values().filter(|job| job.phase == Phase::Waiting);
        if waiting.clone().filter(|job| !job.on_hold).count() != queued || waiting.count() != self.waiting {
            return Err(format!("{queued} jobs in queues, {} waiting", self.waiting));
        }
        if self.accounts.get(AccountId::SITE.0).parent.is_some() {
            return Err("the site has a parent".to_owned());
        }
        Ok(())
    }

    fn check_reserved_starts_made(&self) -> Result<(), String> {
        let of_rank = |rank: Rank| {
            let reserved_starts = self.jobs.values().filter_map(|job| job.reserved_start.as_ref());
            reserved_starts.filter(|reserved_start| reserved_start.rank == rank).count()
        };
        let (later, first, entitled) = (of_rank(Rank::Later), of_rank(Rank::First), of_rank(Rank::Entitled));
        if later > self.policy.backfill_depth || first > 1 || entitled != self.entitled.len() {
            return Err(format!("{later} reserved starts, {first} of first jobs, {entitled} within guarantees"));
        }
        let mut claims = 0;
        for (job, reserved_start) in self.jobs.values().filter_map(|job| Some((job, job.reserved_start.as_ref()?))) {
            if job.phase != Phase::Waiting || !self.with_reserved_start.contains(&job.id) {
                return Err(format!("job {} has a reserved start it should not have", job.id));
            }
            claims += reserved_start.spots.len();
        }
        let there = self.pool.nodes.iter().flat_map(|node| &node.devices).map(|device| device.claims.len());
        if claims != there.sum::<usize>() {
            return Err(format!("{claims} devices promised, which is not what devices say"));
        }
        Ok(())
    }
}
