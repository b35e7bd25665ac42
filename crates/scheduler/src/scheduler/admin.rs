//! Administrators' policies and drains.

use super::groups::Groups;
use super::quarantine::is_charged;
use super::{Drain, Scheduler, Timer};
use crate::accounts::Accounts;
use crate::effect::{Effect, EndCause, SlipCause};
use crate::ids::JobId;
use crate::input::DrainTarget;
use crate::phase::{Hold, Phase};
use crate::policy::{Account, Policy};
use crate::shapes::Shapes;
use crate::units::long_time_text;
use std::collections::{BTreeMap, BTreeSet};

/// Most jobs that a line of the audit log names.
const JOBS_NAMED_MAX: usize = 8;

impl Scheduler {
    /// Puts a policy into effect. Jobs keep their accounts by name. Waiting jobs of accounts that no longer exist end.
    pub(super) fn apply_policy(&mut self, policy: Policy, by: &str, effects: &mut Vec<Effect>) {
        effects.push(Effect::Audit(format!("{by} applies a policy of {} accounts", policy.accounts.len())));
        for account in 0..self.accounts.all.len() {
            self.accounts.settle(self.now, u32::try_from(account).unwrap_or(u32::MAX));
        }
        for id in self.with_reserved_start.clone() {
            self.lose_reserved_start(id, SlipCause::Policy);
        }
        self.head = None;
        let mut accounts = Accounts::new(&policy);
        let old_at: BTreeMap<&str, usize> =
            self.policy.accounts.iter().enumerate().map(|(at, account)| (account.name.as_str(), at)).collect();
        let same = policy.accounts.iter().enumerate();
        let same: Vec<(usize, usize)> =
            same.filter_map(|(at, account)| Some((at, *old_at.get(account.name.as_str())?))).collect();
        accounts.inherit(&self.accounts, same.into_iter());
        accounts.set_classes(&policy, &self.pool.classes, self.pool.installed());
        let names: Vec<String> = self.policy.accounts.iter().map(|account| account.name.clone()).collect();
        (self.accounts, self.policy) = (accounts, policy);
        self.timers.retain(|(_, timer)| !matches!(timer, Timer::Settle(_)));
        self.settling.clear();
        self.candidates.clear();
        (self.shapes, self.groups) = (Shapes::default(), Groups::default());
        let mut gone = Vec::new();
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            if !self.move_job(id, &names) {
                gone.push(id);
            }
        }
        for account in self.accounts.leaves() {
            self.touch(account);
        }
        for id in gone {
            self.withdraw(id, EndCause::NoAccount, effects);
        }
    }

    /// Adds an account to the policy in effect, without affecting other accounts' holdings, jobs and reserved starts.
    pub(super) fn add_account(&mut self, account: Account) {
        if self.accounts.named(&account.name).is_none() {
            self.accounts.add(self.now, &account, &self.pool.classes);
            self.policy.accounts.push(account);
        }
    }

    /// Counts a job for its account under the new policy. Returns whether the job may continue.
    fn move_job(&mut self, id: JobId, names: &[String]) -> bool {
        let Some(job) = self.jobs.get(&id) else { return true };
        let account = self.accounts.named(&names[job.account as usize]).filter(|&at| self.accounts.get(at).is_leaf);
        let at = account.unwrap_or(0);
        match job.phase {
            Phase::Waiting => {
                let key = self.shape_key(at, job.origin, &job.request, job.limit_ms);
                let turn = self.accounts.turn(id, job.submitted, job.request.priority);
                let shape = self.shapes.of(&key, &self.pool);
                let Some(job) = self.jobs.get_mut(&id) else { return true };
                (job.account, job.shape, job.turn, job.unplanned) = (at, shape, turn, [None; 3]);
                self.accounts.count(at, 0, 1);
                self.enqueue(id);
                return account.is_some();
            }
            Phase::Running => self.accounts.count(at, 1, 0),
            Phase::Releasing => {}
        }
        let quantum = self.policy.quantum();
        let Some(job) = self.jobs.get_mut(&id) else { return true };
        (job.account, job.long) = (at, job.is_long(quantum));
        let mut nodes = BTreeSet::new();
        for grant in job.grants.iter().filter(|grant| grant.hold != Hold::Freed) {
            if is_charged(&self.quarantined, grant) {
                self.accounts.hold(self.now, at, grant.holding(job.long), true);
            }
            self.pool.set_long(grant.spot, id, job.long);
            nodes.insert(grant.spot.node);
        }
        for node in nodes {
            self.pool.refresh(self.now, node);
        }
        true
    }

    pub(super) fn drain(&mut self, target: DrainTarget, drain: Drain, by: &str, effects: &mut Vec<Effect>) {
        let end = if drain.end { ", and ends what is left there then" } else { "" };
        let within = match drain.by_time.since(self.now) {
            0 => String::new(),
            ms => format!(" within {}{end}", long_time_text(ms)),
        };
        effects.push(Effect::Audit(format!("{by} drains {}{within}: {}", self.name_of(target), drain.reason)));
        if let Some(old) = self.drains.remove(&target) {
            self.timers.remove(&(old.by_time, Timer::Drain(target)));
        }
        self.timers.insert((drain.by_time, Timer::Drain(target)));
        self.set_drained(target, Some(drain.by_time));
        self.drains.insert(target, drain);
        self.site_changed = true;
    }

    pub(super) fn undrain(&mut self, target: DrainTarget, by: &str, effects: &mut Vec<Effect>) {
        let Some(drain) = self.drains.remove(&target) else { return };
        effects.push(Effect::Audit(format!("{by} takes the drain of {} back", self.name_of(target))));
        self.site_changed = true;
        self.timers.remove(&(drain.by_time, Timer::Drain(target)));
        self.set_drained(target, None);
    }

    /// Returns the name of a node or device for messages: `node gpu07`, `device 3 of node gpu07`.
    pub(super) fn name_of(&self, target: DrainTarget) -> String {
        let node = |id| self.node_name(id).map_or_else(|| id.to_string(), |name| format!("node {name}"));
        match target {
            DrainTarget::Node(id) => node(id),
            DrainTarget::Device(device) => format!("device {} of {}", device.ordinal, node(device.node)),
        }
    }

    /// Whether a node or device itself is drained, now or from a deadline on.
    #[must_use]
    pub fn is_drained(&self, target: DrainTarget) -> bool {
        self.drains.contains_key(&target)
    }

    fn set_drained(&mut self, target: DrainTarget, drained: Option<crate::time::Millis>) {
        match target {
            DrainTarget::Node(id) => {
                let Some(at) = self.pool.node_at(id) else { return };
                self.pool.nodes[at as usize].drained = drained;
                self.pool.refresh(self.now, at);
                self.pool.touch_claims(at);
            }
            DrainTarget::Device(id) => {
                let Some(spot) = self.pool.spot(id) else { return };
                self.pool.device_mut(spot).drained = drained;
                self.pool.refresh(self.now, spot.node);
                self.pool.touch_claims(spot.node);
            }
        }
    }

    /// Ends the remaining jobs at a drain's deadline, if the drain ends jobs. The audit log names jobs that remain.
    pub(super) fn drain_is_due(&mut self, target: DrainTarget, effects: &mut Vec<Effect>) {
        let Some(ends) = self.drains.get(&target).map(|drain| drain.end) else { return };
        let remaining = self.running_on(target);
        if remaining.is_empty() {
            return;
        }
        let name = self.name_of(target);
        let few: Vec<String> = remaining.iter().take(JOBS_NAMED_MAX).map(JobId::to_string).collect();
        let more = match remaining.len().saturating_sub(JOBS_NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let what = if ends { "end" } else { "run on" };
        let jobs = few.join(", ");
        effects.push(Effect::Audit(format!("the drain of {name} is due; these jobs there {what}: {jobs}{more}")));
        if ends {
            remaining.into_iter().for_each(|id| self.end(id, EndCause::Drained, effects));
        }
    }

    /// Returns the running jobs that hold devices of a drained node or a drained device.
    fn running_on(&self, target: DrainTarget) -> BTreeSet<JobId> {
        let id = match target {
            DrainTarget::Node(id) => id,
            DrainTarget::Device(id) => id.node,
        };
        let Some(at) = self.pool.node_at(id) else { return BTreeSet::new() };
        let is_meant = |ordinal: u32| match target {
            DrainTarget::Node(_) => true,
            DrainTarget::Device(id) => id.ordinal == ordinal,
        };
        let devices = self.pool.node(at).devices.iter().filter(|device| is_meant(device.ordinal));
        let holders = devices.flat_map(|device| device.holders.iter().map(|holder| holder.job));
        holders.filter(|id| self.jobs.get(id).is_some_and(|job| job.phase == Phase::Running)).collect()
    }
}
