//! Begins and ends leases, and releases their devices.

use super::quarantine::is_charged;
use super::{Scheduler, Timer};
use crate::accounts::Holding;
use crate::effect::{Effect, EndCause, LeasedDevice};
use crate::ids::{ClassId, JobId};
use crate::job::{Grant, Job};
use crate::path_class::{ChosenPaths, PathClass};
use crate::phase::{Hold, Phase};
use crate::pool::Holder;
use crate::search::{PartDemand, Pick};
use crate::time::Millis;
use accord_types::{DeviceId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

impl Scheduler {
    /// Starts a waiting job with the chosen devices.
    pub(super) fn start(&mut self, id: JobId, choice: &[PartDemand], picks: &[Pick], effects: &mut Vec<Effect>) {
        let first_of = |job: &Job| self.accounts.get(job.account).queue.first() == Some(&job.turn);
        let is_first = self.jobs.get(&id).is_some_and(first_of);
        let reserved = self.jobs.get(&id).and_then(|job| job.reserved_start.as_ref());
        let is_reserved =
            reserved.is_some_and(|reserved_start| picks.iter().all(|pick| reserved_start.spots.contains(&pick.spot)));
        self.leave_queues(id);
        let Some(job) = self.jobs.remove(&id) else { return };
        self.forget_waiting(&job);
        self.accounts.count(job.account, 0, -1);
        self.give(job, choice, picks, is_first, effects);
        if is_reserved && let Some(job) = self.jobs.get_mut(&id) {
            // The reserved devices were the first ones available, regardless of paths.
            job.paths = None;
        }
    }

    /// Grants devices to a job that no longer waits. `is_first` means that it was the first job of its account.
    pub(super) fn give(
        &mut self,
        mut job: Job,
        choice: &[PartDemand],
        picks: &[Pick],
        is_first: bool,
        effects: &mut Vec<Effect>,
    ) {
        let id = job.id;
        let (limit, quantum) = (job.limit_ms, self.policy.quantum());
        job.phase = Phase::Running;
        job.started = self.now;
        job.ends = self.now.plus(job.lease_ms(quantum));
        job.warned = self.warning_time(job.ends);
        job.planned_end = limit.map_or(Millis::NEVER, |_| job.ends);
        job.long = job.is_long(quantum);
        let (planned_end, long) = (job.planned_end, job.long);
        if planned_end == Millis::NEVER {
            self.endless.insert(id);
        } else {
            self.ends.insert((planned_end, id));
        }
        let mut nodes = BTreeSet::new();
        let mut holdings: BTreeMap<ClassId, Holding> = BTreeMap::new();
        for pick in picks {
            let part = &choice[pick.part];
            let class = &self.pool.classes[part.class.index()];
            let milli = u64::from(crate::arithmetic::charge(pick.amount, pick.exclusive, class));
            let (amount, exclusive, host_resources) = (pick.amount, pick.exclusive, part.host_resources());
            self.pool.hold(pick.spot, Holder { job: id, amount, exclusive, long, ends: planned_end, host_resources });
            nodes.insert(pick.spot.node);
            let charged = self.pool.charge_with_cores(milli, part.cores, part.class, pick.spot.node);
            let holding =
                holdings.entry(part.class).or_insert(Holding { class: part.class, milli: 0, charged: 0, long });
            (holding.milli, holding.charged) = (holding.milli + milli, holding.charged + charged);
            job.grants.push(Grant {
                device: self.pool.device_id(pick.spot),
                spot: pick.spot,
                class: part.class,
                amount: pick.amount,
                exclusive: pick.exclusive,
                milli,
                charged,
                cores: part.cores,
                host_memory: part.host_memory,
                hold: Hold::Held,
            });
        }
        job.paths = self.paths_to(&job, &nodes);
        for node in nodes {
            self.pool.refresh(self.now, node);
        }
        for holding in holdings.into_values() {
            self.accounts.hold(self.now, job.account, holding, true);
        }
        self.accounts.count(job.account, 1, 0);
        if is_first {
            self.accounts.started(self.now, job.account);
        }
        self.shapes.leave(job.shape);
        let leased =
            |grant: &Grant| LeasedDevice { device: grant.device, amount: grant.amount, exclusive: grant.exclusive };
        effects.push(Effect::Started { job: id, devices: job.grants.iter().map(leased).collect(), ends: job.ends });
        self.timers.insert((job.ends, Timer::Lease(id)));
        self.timers.insert((job.warned, Timer::Warn(id)));
        let account = job.account;
        self.jobs.insert(id, job);
        self.touch(account);
    }

    /// Returns the paths by which a job's nodes were chosen, if the program's own node matters and other nodes are
    /// used.
    fn paths_to(&self, job: &Job, nodes: &BTreeSet<u32>) -> Option<ChosenPaths> {
        let (own, request) = (job.origin?, &job.request);
        if !request.goes_by_own_node() {
            return None;
        }
        let others = nodes.iter().copied().filter(|&node| node != own);
        let classes: BTreeMap<NodeId, PathClass> =
            others.map(|node| (self.pool.node(node).id, self.pool.path_class(own, node))).collect();
        (!classes.is_empty()).then_some(ChosenPaths { times: self.pool.path_times, classes })
    }

    /// Returns when a job is warned of the end of its lease.
    pub(super) fn warning_time(&self, ends: Millis) -> Millis {
        Millis(ends.0.saturating_sub(self.policy.grace_ms)).max(self.now)
    }

    /// Moves the end of a running job's lease.
    pub(super) fn move_end(&mut self, id: JobId, ends: Millis, effects: &mut Vec<Effect>) {
        let warning = self.warning_time(ends);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        self.timers.remove(&(job.ends, Timer::Lease(id)));
        self.timers.remove(&(job.warned, Timer::Warn(id)));
        (job.ends, job.warned) = (ends, warning);
        job.ending = None;
        self.timers.insert((ends, Timer::Lease(id)));
        self.timers.insert((warning, Timer::Warn(id)));
        let planned = job.limit_ms.map_or(Millis::NEVER, |_| ends);
        self.set_planned_end(id, planned);
        effects.push(Effect::LeaseEnds { job: id, ends });
    }

    /// Sets the end of a job's lease for planning.
    pub(super) fn set_planned_end(&mut self, id: JobId, planned: Millis) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        self.ends.remove(&(job.planned_end, id));
        self.endless.remove(&id);
        job.planned_end = planned;
        if planned == Millis::NEVER {
            self.endless.insert(id);
        } else {
            self.ends.insert((planned, id));
        }
        let mut nodes = BTreeSet::new();
        for grant in job.grants.iter().filter(|grant| grant.hold != Hold::Freed) {
            self.pool.set_end(grant.spot, id, planned);
            nodes.insert(grant.spot.node);
        }
        for node in nodes {
            self.pool.refresh(self.now, node);
            self.pool.touch_claims(node);
        }
    }

    pub(super) fn set_limit(&mut self, id: JobId, limit_ms: u64, by: &str, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(&id) else { return };
        effects.push(Effect::Audit(format!("{by} sets the limit of job {id} to {} s", limit_ms / 1_000)));
        match job.phase {
            Phase::Waiting => {
                let held = job.on_hold;
                self.dequeue(id);
                let Some(job) = self.jobs.get(&id) else { return };
                let key = self.shape_key(job.account, job.origin, &job.request, Some(limit_ms));
                self.shapes.leave(job.shape);
                let shape = self.shapes.of(&key, &self.pool);
                if let Some(job) = self.jobs.get_mut(&id) {
                    (job.shape, job.limit_ms) = (shape, Some(limit_ms));
                }
                if !held {
                    self.enqueue(id);
                }
            }
            Phase::Running => {
                let ends = job.started.plus(limit_ms).plus(job.stood_still_ms);
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.limit_ms = Some(limit_ms);
                }
                self.note_long(id);
                match self.jobs.get_mut(&id).and_then(|job| job.suspension.as_mut()) {
                    Some(suspension) => suspension.left_ms = ends.since(suspension.since),
                    None => self.move_end(id, ends.max(self.now), effects),
                }
            }
            Phase::Releasing => {}
        }
    }

    /// Updates whether a job's limit is longer than the quantum, after a change of either.
    fn note_long(&mut self, id: JobId) {
        let quantum = self.policy.quantum();
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.long != job.is_long(quantum)) else { return };
        job.long = !job.long;
        let (account, long) = (job.account, job.long);
        for grant in job.grants.iter().filter(|grant| grant.hold != Hold::Freed) {
            self.pool.set_long(grant.spot, id, long);
            if is_charged(&self.quarantined, grant) {
                self.accounts.change_long(account, grant.class, grant.milli, long);
            }
        }
    }

    pub(super) fn cancel(&mut self, id: JobId, by: String, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(&id) else { return };
        if by != job.user {
            effects.push(Effect::Audit(format!("{by} ends job {id} of user {:?}", job.user)));
        }
        match job.phase {
            Phase::Waiting => self.withdraw(id, EndCause::Cancelled { by }, effects),
            Phase::Running => self.end(id, EndCause::Cancelled { by }, effects),
            Phase::Releasing => {}
        }
    }

    /// Withdraws a waiting job, or ends a running one.
    pub(super) fn finish(&mut self, id: JobId, cause: EndCause, effects: &mut Vec<Effect>) {
        match self.jobs.get(&id).map(|job| job.phase) {
            Some(Phase::Waiting) => self.withdraw(id, cause, effects),
            Some(Phase::Running) => self.end(id, cause, effects),
            Some(Phase::Releasing) | None => {}
        }
    }

    /// Takes back a running job's charges since its last sign of life.
    pub(super) fn take_back(&mut self, id: JobId, seen: Option<Millis>) {
        let Some((job, seen)) = self.jobs.get(&id).filter(|job| job.phase == Phase::Running).zip(seen) else { return };
        let silent_ms = self.now.since(seen);
        for grant in job.grants.iter().filter(|grant| is_charged(&self.quarantined, grant)) {
            let milli_ms = grant.charged.saturating_mul(silent_ms);
            self.accounts.take_back(self.now, job.account, grant.class, milli_ms);
        }
    }

    /// Charges an account for device time without a job.
    pub(super) fn use_up(&mut self, account: &str, device: DeviceId, milli_ms: u64) {
        let Some(class) = self.pool.spot(device).map(|spot| self.pool.device(spot).class) else { return };
        let account = self.accounts.named(account).unwrap_or(0);
        self.accounts.use_up(self.now, account, class, milli_ms);
        if self.accounts.get(account).is_leaf {
            self.touch(account);
        }
    }

    /// Ends a running job. Its devices become free when their agents have confirmed the end.
    pub(super) fn end(&mut self, id: JobId, cause: EndCause, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.phase = Phase::Releasing;
        let was_suspended = job.suspension.is_some();
        self.timers.remove(&(job.ends, Timer::Lease(id)));
        self.timers.remove(&(job.warned, Timer::Warn(id)));
        effects.push(Effect::Ended { job: id, cause });
        let mut nodes = BTreeSet::new();
        for grant in &mut job.grants {
            if grant.hold == Hold::Held {
                grant.hold = Hold::Releasing;
                nodes.insert(grant.device.node);
            }
            if grant.hold == Hold::Suspended {
                nodes.insert(grant.device.node);
            }
        }
        let account = job.account;
        if was_suspended {
            self.end_suspension(id);
        }
        effects.extend(nodes.into_iter().map(|node| Effect::Release { job: id, node }));
        self.accounts.count(account, -1, 0);
        self.set_planned_end(id, self.now.plus(crate::time::RELEASE_EXPECTED_MS));
        self.forget_if_free(id);
        self.touch(account);
    }

    /// Frees a job's devices on a node whose agent has confirmed the end.
    pub(super) fn released(&mut self, id: JobId, node: NodeId) {
        let has_ended = self.jobs.get(&id).is_some_and(|job| job.phase == Phase::Releasing);
        let is_over = |hold: Hold| matches!(hold, Hold::Releasing | Hold::Lost) || has_ended && hold == Hold::Suspended;
        self.change_grants(id, node, |_, hold| if is_over(hold) { Hold::Freed } else { hold });
        self.forget_if_free(id);
    }

    /// Changes the state of a job's devices on a node, except free ones.
    pub(super) fn change_grants(&mut self, id: JobId, node: NodeId, to: impl Fn(DeviceId, Hold) -> Hold) {
        let (Some(at), Some(job)) = (self.pool.node_at(node), self.jobs.get_mut_unnoted(&id)) else { return };
        let (mut changed, account, long) = (false, job.account, job.long);
        for grant in job.grants.iter_mut().filter(|grant| grant.device.node == node && grant.hold != Hold::Freed) {
            let (old, new) = (grant.hold, to(grant.device, grant.hold));
            if old == new {
                continue;
            }
            changed = true;
            let was_charged = is_charged(&self.quarantined, grant);
            grant.hold = new;
            if was_charged && !is_charged(&self.quarantined, grant) {
                self.accounts.hold(self.now, account, grant.holding(long), false);
            }
            if old.is_hold() && !new.is_hold() {
                self.pool.free(grant.spot, id, grant.cores, grant.host_memory);
            }
        }
        if changed {
            if let Some(holds) = &mut self.changed_holds {
                holds.insert((id, node));
            }
            self.pool.refresh(self.now, at);
            self.touch(account);
            self.note_parted(id);
        }
    }

    /// Removes an ended job once all its devices are free.
    pub(super) fn forget_if_free(&mut self, id: JobId) {
        let is_free = |grant: &Grant| grant.hold == Hold::Freed;
        if self.jobs.get(&id).is_some_and(|job| job.phase == Phase::Releasing && job.grants.iter().all(is_free))
            && let Some(job) = self.jobs.remove(&id)
        {
            self.ends.remove(&(job.planned_end, id));
            self.without_devices.remove(&id);
        }
    }

    pub(super) fn count_session(&mut self, id: JobId, opened: bool) {
        if let Some(job) = self.jobs.get_mut_unnoted(&id) {
            job.sessions = if opened { job.sessions + 1 } else { job.sessions.saturating_sub(1) };
        }
    }
}
