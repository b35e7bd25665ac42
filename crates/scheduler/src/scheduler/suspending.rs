//! Suspends running jobs and resumes them: all nodes of a job, or none.

use super::quarantine::charges;
use super::{Scheduler, Timer};
use crate::effect::{Effect, LeasedDevice};
use crate::ids::JobId;
use crate::job::Job;
use crate::phase::{Hold, Phase};
use crate::pool::{Holder, HostResources};
use crate::suspension::{Suspension, SuspensionCause, SuspensionStage, SuspensionView};
use crate::time::Millis;
use accord_types::{DeviceId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Longest wait for the answers of all agents to an order. Each copies gigabytes.
pub const ANSWER_MS: u64 = 300_000;
/// The pause before a suspension is undone again that could not be.
pub const RETRY_MS: u64 = 5_000;
/// The pause before a job that resumes by itself is resumed again, after an agent has refused it.
pub const RESUME_AGAIN_MS: u64 = 60_000;
/// The time for which an owner can't suspend a job again that has gone on.
pub const OWNER_AGAIN_MS: u64 = 60_000;

impl Scheduler {
    /// Suspends a running job for its owner or an administrator, who may also take over a suspension of another origin: then only
    /// administrators resume the job.
    pub(super) fn suspend_for(&mut self, id: JobId, by: String, reason: String, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let is_owner = job.user == by;
        match &job.suspension {
            None if is_owner && self.owner_may_suspend_from(id).is_some_and(|from| self.now < from) => {}
            None => {
                let cause = if is_owner { SuspensionCause::Owner } else { SuspensionCause::Administrator };
                self.suspend(id, cause, by, reason, effects);
            }
            Some(suspension) if is_owner || suspension.cause == SuspensionCause::Administrator => {}
            Some(suspension) if suspension.stage.may_be_taken_over() => self.take_over(id, by, reason, effects),
            Some(_) => {}
        }
    }

    /// Returns the time from which a running job's owner may suspend it again; `None` if it was not suspended yet.
    #[must_use]
    pub fn owner_may_suspend_from(&self, id: JobId) -> Option<Millis> {
        Some(self.jobs.get(&id)?.went_on?.plus(OWNER_AGAIN_MS))
    }

    /// Makes a suspension an administrator's. A job without devices stays suspended until an administrator resumes it.
    fn take_over(&mut self, id: JobId, by: String, reason: String, effects: &mut Vec<Effect>) {
        let because = because(&reason);
        effects.push(Effect::Audit(format!("{by} keeps job {id} suspended{because}")));
        if self.resuming.remove(&id) {
            self.set_stage(id, SuspensionStage::Suspended);
            self.mark_awaited(id);
        }
        self.preempted.remove(&id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.suspension_refused = None;
        if let Some(suspension) = &mut job.suspension {
            (suspension.cause, suspension.by, suspension.reason) = (SuspensionCause::Administrator, by, reason);
        }
    }

    /// Begins to suspend a running job. Its time limit stands still from now on.
    pub(super) fn suspend(
        &mut self,
        id: JobId,
        cause: SuspensionCause,
        by: String,
        reason: String,
        effects: &mut Vec<Effect>,
    ) {
        let is_meant = |job: &&Job| job.phase == Phase::Running && job.suspension.is_none();
        let Some(job) = self.jobs.get(&id).filter(is_meant) else { return };
        if cause != SuspensionCause::Owner {
            let because = because(&reason);
            effects.push(Effect::Audit(format!("{by} suspends job {id} of user {:?}{because}", job.user)));
        }
        let left_ms = job.ends.since(self.now);
        let (stage, awaited, answer_by) = (SuspensionStage::Suspending, BTreeSet::new(), Millis::NEVER);
        let (since, resumes_from) = (self.now, Millis(0));
        let suspension = Suspension { stage, awaited, answer_by, left_ms, since, cause, by, reason, resumes_from };
        self.timers.remove(&(job.ends, Timer::Lease(id)));
        self.timers.remove(&(job.warned, Timer::Warn(id)));
        if let Some(job) = self.jobs.get_mut(&id) {
            job.suspension = Some(suspension);
            job.suspension_refused = None;
            (job.ends, job.warned, job.ending) = (Millis::NEVER, Millis::NEVER, None);
        }
        if cause.preempted_by().is_some() {
            self.preempted.insert(id);
        }
        self.set_planned_end(id, Millis::NEVER);
        effects.push(Effect::LeaseEnds { job: id, ends: Millis::NEVER });
        self.order_agents(id, SuspensionStage::Suspending, effects);
    }

    /// Handles an agent's answer to [`Effect::Suspend`].
    pub(super) fn suspended(
        &mut self,
        id: JobId,
        node: NodeId,
        outcome: Result<(), String>,
        effects: &mut Vec<Effect>,
    ) {
        if self.stage_of(id) != Some(SuspensionStage::Suspending) {
            return;
        }
        match outcome {
            Ok(()) if self.has_answered(id, node) => self.is_suspended(id, effects),
            Ok(()) => {}
            Err(why) => self.undo(id, self.on_node(node, &why), effects),
        }
    }

    /// Resumes a suspended job once its devices are free. Owners resume what they have suspended. An administrator resumes each job, and has
    /// its devices kept for it.
    pub(super) fn resume(&mut self, id: JobId, by: &str, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(Suspension { stage, cause, .. }) = &job.suspension else { return };
        let is_owner = job.user == by;
        let may_resume = match stage {
            SuspensionStage::Suspended => !is_owner || *cause == SuspensionCause::Owner,
            SuspensionStage::Waiting => !is_owner && *cause != SuspensionCause::Administrator,
            SuspensionStage::Suspending | SuspensionStage::Resuming | SuspensionStage::Undoing => false,
        };
        if !may_resume {
            return;
        }
        if !is_owner {
            effects.push(Effect::Audit(format!("{by} resumes job {id} of user {:?}", job.user)));
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            job.suspension_refused = None;
            if let Some(suspension) = job.suspension.as_mut().filter(|_| !is_owner) {
                suspension.cause = SuspensionCause::Administrator;
            }
        }
        if !is_owner {
            self.preempted.remove(&id);
        }
        self.await_devices(id);
    }

    /// Has a suspended job resume once its devices are free.
    fn await_devices(&mut self, id: JobId) {
        self.set_stage(id, SuspensionStage::Waiting);
        self.resuming.insert(id);
        self.mark_awaited(id);
    }

    /// Handles an agent's answer to [`Effect::Resume`].
    pub(super) fn resumed(&mut self, id: JobId, node: NodeId, outcome: Result<(), String>, effects: &mut Vec<Effect>) {
        match (self.stage_of(id), outcome) {
            (Some(SuspensionStage::Resuming | SuspensionStage::Undoing), Ok(())) if self.has_answered(id, node) => {
                self.go_on(id, effects);
            }
            (Some(SuspensionStage::Resuming), Err(why)) => {
                let why = self.on_node(node, &why);
                effects.push(Effect::SuspensionFailed { job: id, why: format!("it can't be resumed: {why}") });
                self.refuse(id, why);
                let resumes_from = self.now.plus(RESUME_AGAIN_MS);
                if let Some(suspension) = self.jobs.get_mut(&id).and_then(|job| job.suspension.as_mut()) {
                    suspension.resumes_from = resumes_from;
                }
                // Nodes that have resumed the job suspend it again.
                self.order_agents(id, SuspensionStage::Suspending, effects);
            }
            // Nothing else has the devices, so that the next try succeeds at last.
            (Some(SuspensionStage::Undoing), Err(_)) => self.await_answers(id, RETRY_MS),
            _ => {}
        }
    }

    /// Resumes those jobs that wait for this and whose devices are free, the oldest first.
    pub(super) fn resume_waiting(&mut self, effects: &mut Vec<Effect>) {
        for id in self.resuming.clone() {
            if self.jobs.get(&id).is_some_and(|job| !self.is_held_back(job) && self.may_hold_again(job)) {
                self.hold_again(id);
                effects.push(Effect::DevicesHeldAgain { job: id });
                self.order_agents(id, SuspensionStage::Resuming, effects);
            }
        }
    }

    /// Whether a suspended job waits to be resumed on this device, and other jobs are kept off it.
    pub(super) fn is_awaited(&self, device: DeviceId) -> bool {
        self.awaited_devices().any(|awaited| awaited == device)
    }

    /// Returns the devices that are kept for suspended jobs.
    pub(super) fn awaited_devices(&self) -> impl Iterator<Item = DeviceId> {
        let keeping = self.resuming.iter().filter_map(|id| self.jobs.get(id)).filter(|job| {
            let suspension = job.suspension.as_ref();
            suspension.is_some_and(Suspension::keeps_devices)
        });
        let kept = keeping.flat_map(|job| &job.grants).filter(|grant| grant.hold == Hold::Suspended);
        kept.inspect(|_| self.pool.step()).map(|grant| grant.device)
    }

    /// Returns the suspended jobs with memory of a node's devices.
    pub(super) fn suspended_on(&self, node: NodeId) -> impl Iterator<Item = JobId> {
        let has = move |job: &Job| {
            let mut there = job.grants.iter().filter(|grant| grant.device.node == node);
            there.any(|grant| grant.hold == Hold::Suspended)
        };
        self.without_devices.iter().copied().filter(move |id| self.jobs.get(id).is_some_and(has))
    }

    /// Handles the loss of devices of a job that is being suspended or resumed: the node's agent does not answer any more.
    pub(super) fn lost_while_suspending(&mut self, id: JobId, node: NodeId, effects: &mut Vec<Effect>) {
        let has_some = |job: &Job| job.grants.iter().any(|grant| grant.device.node == node && grant.hold == Hold::Held);
        if self.jobs.get(&id).is_none_or(|job| job.phase != Phase::Running || has_some(job)) {
            return;
        }
        match self.stage_of(id) {
            Some(SuspensionStage::Suspending) => self.undo(id, self.on_node(node, "it is lost"), effects),
            Some(SuspensionStage::Resuming | SuspensionStage::Undoing) if self.has_answered(id, node) => {
                self.go_on(id, effects);
            }
            _ => {}
        }
    }

    /// Notes whether a job still has memory of devices without holding these.
    pub(super) fn note_parted(&mut self, id: JobId) {
        let is_suspended = |job: &Job| job.grants.iter().any(|grant| grant.hold == Hold::Suspended);
        if self.jobs.get(&id).is_none_or(|job| !is_suspended(job)) {
            self.without_devices.remove(&id);
        }
    }

    /// Gives up on agents that do not answer in time. One that resumes a job may wait for device memory.
    pub(super) fn suspension_is_due(&mut self, id: JobId, effects: &mut Vec<Effect>) {
        let suspension = self.jobs.get(&id).and_then(|job| job.suspension.as_ref());
        let Some(late) = suspension.filter(|suspension| suspension.answer_by <= self.now) else { return };
        let node = late.awaited.first().copied();
        match (late.stage, node) {
            (SuspensionStage::Suspending, Some(node)) => {
                self.undo(id, self.on_node(node, "its agent does not answer"), effects);
            }
            // Its work may be held back until the agents have obeyed.
            (SuspensionStage::Undoing, Some(_)) => self.order_agents(id, SuspensionStage::Undoing, effects),
            _ => {}
        }
    }

    /// Ends the suspension of a job that ends.
    pub(super) fn end_suspension(&mut self, id: JobId) {
        if self.resuming.remove(&id) {
            self.mark_awaited(id);
        }
        self.preempted.remove(&id);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.suspension = None;
        }
    }

    /// Returns the stage of a job's suspension.
    #[must_use]
    pub fn stage_of(&self, id: JobId) -> Option<SuspensionStage> {
        self.jobs.get(&id)?.suspension.as_ref().map(|suspension| suspension.stage)
    }

    /// Returns why the last suspension or resumption of a job has failed.
    #[must_use]
    pub fn suspension_refused(&self, id: JobId) -> Option<&str> {
        self.jobs.get(&id)?.suspension_refused.as_deref()
    }

    /// Returns the suspension of a job.
    #[must_use]
    pub fn suspension(&self, id: JobId) -> Option<SuspensionView> {
        let job = self.jobs.get(&id)?;
        let Suspension { stage, left_ms, since, cause, by, reason, .. } = job.suspension.clone()?;
        Some(SuspensionView { stage, since, cause, by, reason, left_ms: job.limit_ms.map(|_| left_ms) })
    }

    /// Returns the number of suspended jobs without devices.
    #[must_use]
    pub fn suspended_jobs(&self) -> usize {
        self.without_devices.len()
    }

    fn set_stage(&mut self, id: JobId, stage: SuspensionStage) {
        if let Some(suspension) = self.jobs.get_mut(&id).and_then(|job| job.suspension.as_mut()) {
            suspension.stage = stage;
        }
    }

    fn refuse(&mut self, id: JobId, why: String) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.suspension_refused = Some(why);
        }
    }

    fn on_node(&self, node: NodeId, why: &str) -> String {
        self.node_name(node).map_or_else(|| why.to_owned(), |name| format!("node {name}: {why}"))
    }

    /// Orders all agents of a job's devices to suspend or resume it.
    fn order_agents(&mut self, id: JobId, stage: SuspensionStage, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let held = job.grants.iter().filter(|grant| grant.hold == Hold::Held);
        let nodes: BTreeSet<NodeId> = held.map(|grant| grant.device.node).collect();
        if let Some(suspension) = &mut job.suspension {
            suspension.stage = stage;
            suspension.awaited.clone_from(&nodes);
        }
        self.await_answers(id, ANSWER_MS);
        effects.extend(nodes.into_iter().map(|node| match stage {
            SuspensionStage::Suspending => Effect::Suspend { job: id, node },
            _ => Effect::Resume { job: id, node },
        }));
    }

    /// Schedules what follows if agents have not answered, or have refused, after this time.
    fn await_answers(&mut self, id: JobId, ms: u64) {
        let answer_by = self.now.plus(ms);
        if let Some(suspension) = self.jobs.get_mut(&id).and_then(|job| job.suspension.as_mut()) {
            suspension.answer_by = answer_by;
        }
        self.timers.insert((answer_by, Timer::Suspension(id)));
    }

    /// Notes a node's answer. Returns whether it was the last one.
    fn has_answered(&mut self, id: JobId, node: NodeId) -> bool {
        let suspension = self.jobs.get_mut(&id).and_then(|job| job.suspension.as_mut());
        suspension.is_some_and(|suspension| suspension.awaited.remove(&node) && suspension.awaited.is_empty())
    }

    /// Ends a suspension that an agent has refused.
    fn undo(&mut self, id: JobId, why: String, effects: &mut Vec<Effect>) {
        effects.push(Effect::SuspensionFailed { job: id, why: format!("it can't be suspended: {why}") });
        self.refuse(id, why);
        self.order_agents(id, SuspensionStage::Undoing, effects);
    }

    /// Gives a job's devices to others, after all agents have moved its memory.
    fn is_suspended(&mut self, id: JobId, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let nodes: BTreeSet<NodeId> = job.grants.iter().map(|grant| grant.device.node).collect();
        for node in nodes {
            self.change_grants(id, node, |_, hold| if hold == Hold::Held { Hold::Suspended } else { hold });
        }
        self.without_devices.insert(id);
        self.set_stage(id, SuspensionStage::Suspended);
        effects.push(Effect::Suspended { job: id });
        if self.preempted.contains(&id) {
            self.await_devices(id);
            self.schedule_resumption(id);
        }
    }

    /// Schedules the next attempt to resume a job that resumes by itself.
    fn schedule_resumption(&mut self, id: JobId) {
        let suspension = self.jobs.get(&id).and_then(|job| job.suspension.as_ref());
        if let Some(from) = suspension.map(|suspension| suspension.resumes_from).filter(|from| *from > self.now) {
            self.timers.insert((from, Timer::Suspension(id)));
        }
    }

    /// Ends a suspension: the job runs again, with the time that it had left.
    fn go_on(&mut self, id: JobId, effects: &mut Vec<Effect>) {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(suspension) = job.suspension.take() else { return };
        job.went_on = Some(now);
        job.stood_still_ms = job.stood_still_ms.saturating_add(now.since(suspension.since));
        self.preempted.remove(&id);
        self.move_end(id, now.plus(suspension.left_ms), effects);
        effects.push(Effect::Resumed { job: id });
    }

    /// Whether all devices of a suspended job are free for it.
    fn may_hold_again(&self, job: &Job) -> bool {
        let left = job.suspension.as_ref().map_or(0, |suspension| suspension.left_ms);
        let mut host: BTreeMap<u32, HostResources> = BTreeMap::new();
        for grant in job.grants.iter().filter(|grant| grant.hold == Hold::Suspended) {
            self.pool.step();
            let (node, device) = (self.pool.node(grant.spot.node), self.pool.device(grant.spot));
            let is_out = self.quarantined.contains_key(&grant.device) || self.used.contains(&grant.device);
            let deadline = device.drained.into_iter().chain(node.drained).min().unwrap_or(Millis::NEVER);
            let is_others = device.windows.iter().filter(|window| window.is_present(self.now)).any(|window| {
                let reservation = self.reservations.get(&window.id);
                !reservation.is_some_and(|(reservation, _)| self.is_for_job(reservation, job))
            });
            let leased = LeasedDevice { device: grant.device, amount: grant.amount, exclusive: grant.exclusive };
            if !node.up
                || device.absent
                || is_out
                || is_others
                || deadline != Millis::NEVER && self.now.plus(left) > deadline
                || !self.has_space(grant.spot, &leased)
            {
                return false;
            }
            let of_node = host.entry(grant.spot.node).or_default();
            of_node.cores += grant.cores;
            of_node.memory += grant.host_memory;
        }
        host.iter().all(|(&at, needed)| {
            let node = self.pool.node(at);
            node.cores_free() >= needed.cores && node.host_memory_free() >= needed.memory
        })
    }

    /// Gives a suspended job its devices back.
    fn hold_again(&mut self, id: JobId) {
        self.resuming.remove(&id);
        self.without_devices.remove(&id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (account, long, ends) = (job.account, job.long, job.planned_end);
        let mut nodes = BTreeMap::new();
        for grant in job.grants.iter_mut().filter(|grant| grant.hold == Hold::Suspended) {
            grant.hold = Hold::Held;
            let (amount, exclusive) = (grant.amount, grant.exclusive);
            let host_resources = HostResources { cores: grant.cores, memory: grant.host_memory };
            self.pool.hold(grant.spot, Holder { job: id, amount, exclusive, long, ends, host_resources });
            if charges(&self.quarantined, grant.device) {
                self.accounts.hold(self.now, account, grant.holding(long), true);
            }
            nodes.insert(grant.spot.node, grant.device.node);
        }
        for (&at, &node) in &nodes {
            if let Some(holds) = &mut self.changed_holds {
                holds.insert((id, node));
            }
            self.pool.refresh(self.now, at);
            self.pool.touch_claims(at);
        }
        self.mark_awaited(id);
        self.touch(account);
    }

    /// Whether some device of a suspended job is free for it, as far as other jobs go.
    pub(super) fn has_free_device(&self, job: &Job) -> bool {
        job.grants.iter().filter(|grant| grant.hold == Hold::Suspended).any(|grant| {
            self.pool.step();
            let leased = LeasedDevice { device: grant.device, amount: grant.amount, exclusive: grant.exclusive };
            self.has_space(grant.spot, &leased)
        })
    }

    /// Marks the devices of a job as awaited by it, or no longer.
    pub(super) fn mark_awaited(&mut self, id: JobId) {
        let devices: Vec<DeviceId> =
            self.jobs.get(&id).into_iter().flat_map(|job| &job.grants).map(|grant| grant.device).collect();
        devices.into_iter().for_each(|device| self.check_health(device));
    }
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}
