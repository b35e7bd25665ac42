//! Suspensions and resumptions.

use super::*;
use SuspensionCause::{Administrator, Owner, Preemption};
use SuspensionStage::{Resuming, Suspended, Suspending, Undoing, Waiting};
use accord_scheduler::{ANSWER_MS, OWNER_AGAIN_MS, RESUME_AGAIN_MS, RETRY_MS};

impl Naive {
    pub(super) fn stage(&self, id: JobId) -> Option<SuspensionStage> {
        self.jobs.get(&id)?.suspension.as_ref().map(|suspension| suspension.stage)
    }

    pub(super) fn cause(&self, id: JobId) -> Option<SuspensionCause> {
        self.jobs.get(&id)?.suspension.as_ref().map(|suspension| suspension.cause)
    }

    fn suspension(&mut self, id: JobId) -> &mut NSuspension {
        self.jobs.get_mut(&id).unwrap().suspension.as_mut().unwrap()
    }

    pub(super) fn suspend_for(&mut self, id: JobId, by: &str, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.phase == NPhase::Running) else { return };
        let is_owner = job.user == by;
        let is_too_soon = job.went_on.is_some_and(|at| self.now < at.plus(OWNER_AGAIN_MS));
        match (self.stage(id), self.cause(id)) {
            (None, _) if is_owner && is_too_soon => {}
            (None, _) => self.suspend(id, if is_owner { Owner } else { Administrator }, effects),
            (Some(Suspending | Suspended | Waiting), Some(Owner | Preemption { .. })) if !is_owner => {
                let suspension = self.suspension(id);
                suspension.cause = Administrator;
                if suspension.stage == Waiting {
                    suspension.stage = Suspended;
                }
            }
            _ => {}
        }
    }

    pub(super) fn suspend(&mut self, id: JobId, cause: SuspensionCause, effects: &mut Vec<Effect>) {
        let now = self.now;
        let job = self.jobs.get_mut(&id).unwrap();
        job.suspension = Some(NSuspension {
            stage: Suspending,
            awaited: BTreeSet::new(),
            answer_by: Millis::NEVER,
            left: job.ends.since(now),
            since: now,
            cause,
            resumes_from: Millis(0),
        });
        (job.ends, job.warned, job.ending, job.planned_end) = (Millis::NEVER, None, None, Millis::NEVER);
        effects.push(Effect::LeaseEnds { job: id, ends: Millis::NEVER });
        self.order_agents(id, Suspending, effects);
    }

    fn order_agents(&mut self, id: JobId, stage: SuspensionStage, effects: &mut Vec<Effect>) {
        let held = self.jobs[&id].grants.iter().filter(|grant| grant.hold == NHold::Held);
        let nodes: BTreeSet<NodeId> = held.map(|grant| grant.device.node).collect();
        let answer_by = self.now.plus(ANSWER_MS);
        let suspension = self.suspension(id);
        (suspension.stage, suspension.awaited, suspension.answer_by) = (stage, nodes.clone(), answer_by);
        effects.extend(nodes.into_iter().map(|node| match stage {
            Suspending => Effect::Suspend { job: id, node },
            _ => Effect::Resume { job: id, node },
        }));
    }

    /// Whether an answer was the last one.
    fn is_last_answer(&mut self, id: JobId, node: NodeId) -> bool {
        let awaited = &mut self.suspension(id).awaited;
        awaited.remove(&node) && awaited.is_empty()
    }

    fn on_node(&self, node: NodeId, why: &str) -> String {
        let name = self.nodes.iter().find(|known| known.id == node).map(|node| &node.name);
        name.map_or_else(|| why.to_owned(), |name| format!("node {name}: {why}"))
    }

    pub(super) fn suspended(
        &mut self,
        id: JobId,
        node: NodeId,
        outcome: Result<(), String>,
        effects: &mut Vec<Effect>,
    ) {
        if self.stage(id) != Some(Suspending) {
            return;
        }
        match outcome {
            Ok(()) if self.is_last_answer(id, node) => {
                let nodes: BTreeSet<NodeId> = self.jobs[&id].grants.iter().map(|grant| grant.device.node).collect();
                for node in nodes {
                    self.change(id, node, |_, hold| if hold == NHold::Held { NHold::Suspended } else { hold });
                }
                let by_itself = matches!(self.cause(id), Some(Preemption { .. }));
                self.suspension(id).stage = if by_itself { Waiting } else { Suspended };
                effects.push(Effect::Suspended { job: id });
            }
            Ok(()) => {}
            Err(why) => self.undo(id, &self.on_node(node, &why), effects),
        }
    }

    fn undo(&mut self, id: JobId, why: &str, effects: &mut Vec<Effect>) {
        effects.push(Effect::SuspensionFailed { job: id, why: format!("it can't be suspended: {why}") });
        self.order_agents(id, Undoing, effects);
    }

    pub(super) fn resume(&mut self, id: JobId, by: &str) {
        let Some(job) = self.jobs.get(&id) else { return };
        let is_owner = job.user == by;
        match (self.stage(id), self.cause(id)) {
            (Some(Suspended), Some(Owner)) if is_owner => {}
            (Some(Suspended), _) if !is_owner => {}
            (Some(Waiting), Some(Owner | Preemption { .. })) if !is_owner => {}
            _ => return,
        }
        let suspension = self.suspension(id);
        suspension.stage = Waiting;
        if !is_owner {
            suspension.cause = Administrator;
        }
    }

    pub(super) fn resumed(&mut self, id: JobId, node: NodeId, outcome: Result<(), String>, effects: &mut Vec<Effect>) {
        match (self.stage(id), outcome) {
            (Some(Resuming | Undoing), Ok(())) if self.is_last_answer(id, node) => self.go_on(id, effects),
            (Some(Resuming), Err(why)) => {
                let why = self.on_node(node, &why);
                effects.push(Effect::SuspensionFailed { job: id, why: format!("it can't be resumed: {why}") });
                self.suspension(id).resumes_from = self.now.plus(RESUME_AGAIN_MS);
                self.order_agents(id, Suspending, effects);
            }
            (Some(Undoing), Err(_)) => self.suspension(id).answer_by = self.now.plus(RETRY_MS),
            _ => {}
        }
    }

    fn go_on(&mut self, id: JobId, effects: &mut Vec<Effect>) {
        let now = self.now;
        let job = self.jobs.get_mut(&id).unwrap();
        let suspension = job.suspension.take().unwrap();
        job.went_on = Some(now);
        job.stood_still += now.since(suspension.since);
        self.move_end(id, now.plus(suspension.left), effects);
        effects.push(Effect::Resumed { job: id });
    }

    pub(super) fn lost_while_suspending(&mut self, id: JobId, node: NodeId, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let mut there = job.grants.iter().filter(|grant| grant.device.node == node);
        if job.phase != NPhase::Running || there.any(|grant| grant.hold == NHold::Held) {
            return;
        }
        match self.stage(id) {
            Some(Suspending) => self.undo(id, &self.on_node(node, "it is lost"), effects),
            Some(Resuming | Undoing) if self.is_last_answer(id, node) => self.go_on(id, effects),
            _ => {}
        }
    }

    pub(super) fn suspension_is_due(&mut self, id: JobId, effects: &mut Vec<Effect>) {
        let NSuspension { stage, awaited, .. } = self.suspension(id).clone();
        match (stage, awaited.first()) {
            (Suspending, Some(node)) => {
                self.undo(id, &self.on_node(*node, "its agent does not answer"), effects);
            }
            (Undoing, Some(_)) => self.order_agents(id, Undoing, effects),
            _ => self.suspension(id).answer_by = Millis::NEVER,
        }
    }

    /// Whether a suspended job keeps other jobs off a device.
    pub(super) fn is_awaited(&self, at: At) -> bool {
        self.jobs.values().any(|job| {
            let suspension = job.suspension.as_ref();
            suspension.is_some_and(|of| of.stage == Waiting && of.cause != Owner)
                && job.grants.iter().any(|grant| grant.at == at && grant.hold == NHold::Suspended)
        })
    }

    /// Resumes the jobs whose devices are free. Returns whether there are some.
    pub(super) fn resume_waiting(&mut self, effects: &mut Vec<Effect>) -> bool {
        let mut changed = false;
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            if self.stage(id) != Some(Waiting) || self.is_held_back(id) || !self.may_hold_again(&self.jobs[&id]) {
                continue;
            }
            let account = self.jobs[&id].account;
            self.path(account).into_iter().for_each(|account| self.settle(account));
            let grants = self.jobs.get_mut(&id).unwrap().grants.iter_mut();
            grants.filter(|grant| grant.hold == NHold::Suspended).for_each(|grant| grant.hold = NHold::Held);
            self.touch(account);
            effects.push(Effect::DevicesHeldAgain { job: id });
            self.order_agents(id, Resuming, effects);
            changed = true;
        }
        changed
    }

    pub(super) fn has_space(&self, grant: &NGrant) -> bool {
        let device = &self.nodes[grant.at.0].devices[grant.at.1];
        let holders: Vec<&NGrant> = self.holders_of(grant.at).map(|(_, grant)| grant).collect();
        let milli = grant.amount.milli + holders.iter().map(|holder| holder.amount.milli).sum::<u32>();
        let others: u64 = holders.iter().map(|holder| holder.amount.memory + device.context).sum();
        let is_shared = !grant.exclusive && holders.iter().all(|holder| !holder.exclusive);
        (holders.is_empty() || is_shared) && milli <= WHOLE && grant.amount.memory + others <= device.memory
    }

    fn may_hold_again(&self, job: &NJob) -> bool {
        let left = job.suspension.as_ref().unwrap().left;
        let mut needed: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for grant in job.grants.iter().filter(|grant| grant.hold == NHold::Suspended) {
            let (node, device) = (&self.nodes[grant.at.0], &self.nodes[grant.at.0].devices[grant.at.1]);
            let open = self.reservations.values().filter(|of| of.starts <= self.now && self.now < of.ends);
            let mut there = open.filter(|of| Self::is_reserved(of, grant.device));
            let deadline = self.deadline(grant.device);
            if !node.up
                || device.absent
                || self.quarantined.contains_key(&grant.device)
                || there.any(|of| !self.is_for(of, &job.user, job.account))
                || deadline != Millis::NEVER && self.now.plus(left) > deadline
                || !self.has_space(grant)
            {
                return false;
            }
            let (cores, memory) = self.beside_of(grant);
            let of = needed.entry(grant.at.0).or_default();
            *of = (of.0 + cores, of.1 + memory);
        }
        needed.into_iter().all(|(node, needed)| {
            let left = self.left_of(node);
            needed.0 <= left.0 && needed.1 <= left.1
        })
    }
}
