//! Registration, heartbeats and loss of agents.

use super::effect::{AgentOrder, ClientPush, Effect, Refusal};
use super::input::{LinkId, Registration};
use super::node::{Node, NodeState};
use super::session::Origin;
use super::state::{Cluster, DOUBT};
use super::time::Millis;
use accord_types::incarnation::boot_of;
use accord_types::texts::NAME_MAX;
use accord_types::{NodeId, SessionGrant, SessionId, SessionKey};
use std::collections::BTreeSet;

/// Longest part of an agent's reason for an executor's end that is passed on, in characters.
const REASON_MAX: usize = 512;
/// Number of missed heartbeats after which an agent's machine may be down.
const HEARTBEATS_MISSED: u64 = 3;
/// Delay of a tick from which on this process counts as suspended; silence of agents during it is excused.
const TICK_LATE_MS: u64 = 1_000;

/// Time after a coordinator's start in which programs of earlier sessions may still reconnect.
const BACK_WITHIN_MS: u64 = 60_000;

/// Refuses an invalid name of a node.
pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
        return Err(Refusal::Malformed("the node's name is empty, too long or not printable"));
    }
    Ok(())
}

impl Cluster {
    pub(super) fn register(&mut self, now: Millis, link: LinkId, registration: Registration, out: &mut Vec<Effect>) {
        if let Err(refusal) = self.check_registration(now, link, &registration) {
            out.push(Effect::RefuseAgent(link, refusal));
            return;
        }
        let (grants, says_draining) = (registration.sessions.clone(), registration.draining);
        let (jobs, granted) = (registration.jobs.clone(), registration.granted.clone());
        let id = match self.nodes.named(&registration.node_name) {
            Some(id) => {
                self.replace_agent(id, link, now, registration, out);
                id
            }
            None => {
                let id = self.number_node(registration.previous);
                self.nodes.insert(Node::new(id, link, now, registration));
                id
            }
        };
        self.links.insert(link, id);
        self.device_loads.forget(id);
        out.push(Effect::ToAgent(link, AgentOrder::Registered(id)));
        let draining = self.nodes.get(&id).is_some_and(|node| node.draining);
        if draining != says_draining {
            out.push(Effect::ToAgent(link, AgentOrder::Drain(draining)));
        }
        self.follow_devices(id);
        if let Some(node) = self.nodes.get(&id) {
            self.allocations.node_joined(node, &jobs);
        }
        self.try_refused();
        // Jobs that have ended, or whose devices there are another job's.
        let over = jobs.iter().map(|job| job.token.key).filter(|key| !self.allocations.holds(*key, id));
        out.extend(over.map(|key| Effect::ToAgent(link, AgentOrder::ReleaseJob(key))));
        self.sessions_returned(jobs.iter().flat_map(|job| &job.sessions));
        let listed: BTreeSet<SessionId> = grants.iter().map(|grant| grant.session).collect();
        for grant in &grants {
            self.adopt(now, id, grant, out);
        }
        self.reconcile(now, id, link, &listed, out);
        let known: BTreeSet<SessionId> = granted.iter().copied().collect();
        // The agent may have been disconnected when these sessions ended.
        let over =
            granted.into_iter().filter(|session| self.sessions.get(session).is_none() && self.has_ended(*session));
        out.extend(
            over.filter(|session| !listed.contains(session)).map(|session| {
                Effect::ToAgent(link, AgentOrder::SessionClosed(session, self.session_ends.of(session)))
            }),
        );
        let unclosed = self.unclosed.take(id).into_iter().filter(|(session, _)| known.contains(session));
        out.extend(unclosed.map(|(session, key)| Effect::ToAgent(link, AgentOrder::ClaimClosed(session, key, None))));
        // Before the jobs' sessions, whose limits and prolog follow from the job.
        self.notify_jobs(now, id, link, out);
        self.resume_running(&jobs, id, link, out);
        let sessions = self.sessions.on(id).filter_map(|session| self.sessions.get(&session));
        let grants = sessions.filter(|session| !session.lost.contains(&id)).map(|session| session.grant(now, id));
        out.extend(grants.map(|grant| Effect::ToAgent(link, AgentOrder::SessionOpened(grant))));
        self.meet_users(now, id, out);
        self.answer_held_uses(now, Some(id), out);
        self.paths.connected(id);
        self.changed(out);
        self.let_in(now, out);
    }

    fn check_registration(&mut self, now: Millis, link: LinkId, registration: &Registration) -> Result<(), Refusal> {
        if self.is_taken(link) {
            return Err(Refusal::Malformed("registered twice on one connection"));
        }
        let name = &registration.node_name;
        check_name(name)?;
        if self.file_epoch > 0 && registration.coordinator_epoch > self.file_epoch {
            tracing::error!("{}", Refusal::Superseded { node_name: name.clone() });
            return Err(Refusal::Superseded { node_name: name.clone() });
        }
        if registration.address.is_empty() {
            return Err(Refusal::Malformed("no address"));
        }
        let max = self.limits.devices_per_node_max;
        if registration.devices.len() > max {
            return Err(Refusal::Full { what: "devices per node", max });
        }
        // Nodes that have left keep their numbers, but do not count against the limit.
        let own = self.node_named(name).filter(|node| node.is_up()).map_or(0, |node| node.devices.len());
        let max = self.limits.devices_max;
        if self.nodes.devices() - own + registration.devices.len() > max {
            return Err(Refusal::Full { what: "devices", max });
        }
        if !registration.devices.is_sorted_by(|a, b| a.id.ordinal < b.id.ordinal) {
            return Err(Refusal::Malformed("the devices' ordinals do not increase"));
        }
        if let Some(node) = self.node_named(name) {
            let (new, known) = (registration.incarnation, node.incarnation);
            // Only one boot of a machine can be alive. The live agent keeps the name, so that two machines with one
            // name do not displace each other for ever.
            let heard_ms = now.since(node.contact.last);
            let lives = node.link().is_some() && heard_ms < HEARTBEATS_MISSED * self.limits.heartbeat_ms;
            return match boot_of(new) == boot_of(known) {
                true if new < known => Err(Refusal::Stale { node_name: name.clone() }),
                false if lives => Err(Refusal::Taken { node_name: name.clone() }),
                _ => Ok(()),
            };
        }
        if self.nodes.len() < self.limits.nodes_max || self.forget_a_node() {
            return Ok(());
        }
        Err(Refusal::Full { what: "nodes", max: self.limits.nodes_max })
    }

    /// Accepts a new connection for a known node, from the same agent or from one that was started later.
    fn replace_agent(
        &mut self,
        id: NodeId,
        link: LinkId,
        now: Millis,
        registration: Registration,
        out: &mut Vec<Effect>,
    ) {
        let Some(node) = self.nodes.get(&id) else { return };
        if let Some(old) = node.link() {
            out.push(Effect::DropLink(old));
            self.links.remove(&old);
        }
        let same = node.incarnation == registration.incarnation && node.devices.len() == registration.devices.len();
        let is_another_boot = boot_of(node.incarnation) != boot_of(registration.incarnation);
        let was_up = node.is_up();
        if same && node.leaves_world().is_some() {
            tracing::warn!("the agent of node {} ({id}) is back: MPI world {} goes on", node.name, node.world);
        }
        if same && !was_up {
            self.revive(id);
        } else if !same && was_up {
            self.lose(now, id, NodeState::Gone, ClientPush::NodeLost, out);
        }
        if is_another_boot {
            // Jobs lose the devices of the previous boot before the new agent is informed of jobs.
            self.allocations.machine_restarted(id);
            self.schedule(now, out);
        }
        if !same {
            self.free_lost_uses(id);
        }
        self.nodes.update(id, |node| node.renew(link, now, registration));
    }

    /// Restores a node that was silent and has kept its sessions. Jobs have lost its devices for good; they are
    /// released.
    fn revive(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        let there = |ordinals: &Vec<u32>| ordinals.iter().all(|&ordinal| node.device(ordinal).is_some());
        for session in self.sessions.on(id).collect::<Vec<_>>() {
            let Some(session) = self.sessions.get_mut(&session) else { continue };
            if self.allocations.job_of(session.id).is_none() && session.nodes.get(&id).is_some_and(there) {
                session.lost.remove(&id);
            }
        }
    }

    /// Returns the node's number from an earlier coordinator if it is free, else a new one.
    fn number_node(&self, previous: Option<NodeId>) -> NodeId {
        // An agent can't exhaust the numbers by asking for a huge one.
        let sane = |id: &NodeId| usize::try_from(id.0).is_ok_and(|n| n < self.limits.nodes_max);
        previous.filter(sane).filter(|id| !self.nodes.contains_key(id)).unwrap_or_else(|| self.nodes.next_id())
    }

    /// Makes room by dropping a node that is not up, and that no session names or uses without its agent: another node may get the number.
    fn forget_a_node(&mut self) -> bool {
        let is_named = |id: &NodeId| self.sessions.has_node(*id) || self.unmet_on(*id).next().is_some();
        let Some(id) = self.nodes.down().find(|id| !is_named(id)) else { return false };
        self.nodes.remove(id);
        self.unclosed.take(id);
        true
    }

    pub(super) fn heartbeat(&mut self, now: Millis, link: LinkId, sessions: &[SessionId], out: &mut Vec<Effect>) {
        let Some(id) = self.note_alive(now, link, out) else { return };
        // The grant of an earlier coordinator's session may arrive after the first heartbeat that lists its executor.
        let is_announced = |session: &SessionId| match self.sessions.get(session) {
            Some(known) => known.origin == Origin::Own || known.nodes.contains_key(&id),
            None => self.has_ended(*session),
        };
        let listed: BTreeSet<SessionId> = sessions.iter().copied().filter(is_announced).collect();
        let known = self.executing.get(&id);
        if known.map_or(listed.is_empty(), |known| *known == listed) {
            return;
        }
        self.reconcile(now, id, link, &listed, out);
    }

    pub(super) fn executor_started(&mut self, now: Millis, link: LinkId, grant: &SessionGrant, out: &mut Vec<Effect>) {
        let Some(id) = self.note_alive(now, link, out) else { return };
        self.adopt(now, id, grant, out);
        let mut listed = self.executing.get(&id).cloned().unwrap_or_default();
        listed.insert(grant.session);
        self.reconcile(now, id, link, &listed, out);
        out.push(Effect::Changed);
    }

    pub(super) fn executor_ended(
        &mut self,
        now: Millis,
        link: LinkId,
        session: SessionId,
        why: &str,
        out: &mut Vec<Effect>,
    ) {
        let Some(id) = self.note_alive(now, link, out) else { return };
        let known = self.sessions.get(&session).filter(|known| known.executors.contains(&id));
        if let Some(client) = known.and_then(|known| known.client).filter(|_| !why.is_empty()) {
            let why = why.chars().take(REASON_MAX).collect();
            out.push(Effect::ToClient(client, ClientPush::ExecutorEnded(id, why)));
        }
        self.forget_executor(now, id, session, out);
        out.push(Effect::Changed);
    }

    pub(super) fn job_released(&mut self, now: Millis, link: LinkId, job: SessionKey, out: &mut Vec<Effect>) {
        if let Some(id) = self.note_alive(now, link, out) {
            self.allocations.released(id, job);
        }
    }

    /// Returns the node of a link, after noting that its agent is alive.
    pub(super) fn note_alive(&mut self, now: Millis, link: LinkId, out: &mut Vec<Effect>) -> Option<NodeId> {
        let Some(&id) = self.links.get(&link) else {
            out.push(Effect::RefuseAgent(link, Refusal::NotRegistered));
            return None;
        };
        self.nodes.note_alive(id, now);
        Some(id)
    }

    /// Reconciles the executors that an agent reports with the sessions known here. The agent ends executors of ended
    /// sessions, and executors that it lacks are removed here.
    fn reconcile(
        &mut self,
        now: Millis,
        id: NodeId,
        link: LinkId,
        listed: &BTreeSet<SessionId>,
        out: &mut Vec<Effect>,
    ) {
        for &session in listed {
            let known = self.sessions.get_mut(&session);
            match known {
                Some(known) if known.nodes.contains_key(&id) && !known.lost.contains(&id) => {
                    known.executors.insert(id);
                    self.executing.entry(id).or_default().insert(session);
                }
                _ => {
                    let why = self.session_ends.of(session);
                    out.push(Effect::ToAgent(link, AgentOrder::SessionClosed(session, why)));
                }
            }
        }
        let gone: Vec<SessionId> =
            self.executing.get(&id).map(|known| known.difference(listed).copied().collect()).unwrap_or_default();
        for session in gone {
            self.forget_executor(now, id, session, out);
        }
    }

    /// Removes an executor. An adopted session without executors has ended.
    fn forget_executor(&mut self, now: Millis, id: NodeId, session: SessionId, out: &mut Vec<Effect>) {
        if let Some(known) = self.executing.get_mut(&id) {
            known.remove(&session);
            if known.is_empty() {
                self.executing.remove(&id);
            }
        }
        if let Some(known) = self.sessions.get_mut(&session) {
            known.executors.remove(&id);
            if known.client.is_none() && known.executors.is_empty() {
                match now.since(self.began) < BACK_WITHIN_MS {
                    true => self.forget(session, out),
                    false => self.end(session, None, out),
                }
            }
        }
    }

    pub(super) fn link_lost(&mut self, now: Millis, link: LinkId, out: &mut Vec<Effect>) {
        self.rank_lost(link, out);
        let Some(id) = self.links.remove(&link) else { return };
        self.nodes.update(id, |node| {
            node.state = NodeState::Up { link: None };
            node.contact.unlinked = Some(now);
        });
        self.paths.disconnected(id);
        self.blame(id, out);
        out.push(Effect::Changed);
    }

    pub(super) fn goodbye(&mut self, now: Millis, link: LinkId, out: &mut Vec<Effect>) {
        self.joining.remove(link);
        if let Some(&id) = self.links.get(&link) {
            self.lose(now, id, NodeState::Gone, ClientPush::NodeLeft, out);
            // In this order: what becomes free must not be given to a job, which would lose it at once.
            self.allocations.node_lost(id);
            self.free_lost_uses(id);
            self.changed(out);
        }
    }

    /// An agent stops soon: its node takes part in no new session, which the answer says.
    pub(super) fn leaving(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        let Some(&id) = self.links.get(&link) else { return };
        tracing::info!("the agent of node {id} stops soon: the node takes part in no new session");
        self.nodes.update(id, |node| node.leaving = true);
        self.allocations.node_leaves(id);
        out.push(Effect::ToAgent(link, AgentOrder::Drain(true)));
        self.changed(out);
    }

    pub(super) fn declare_lost(&mut self, now: Millis, out: &mut Vec<Effect>) {
        self.sleep_is_no_silence(now);
        let limit = self.silence_limit(now);
        let silent = self.nodes.silent().take_while(|(at, _)| now.since(*at) >= limit);
        let left = self.nodes.leaving().take_while(|(at, _)| now >= *at);
        let lost: BTreeSet<NodeId> = silent.chain(left).map(|(_, id)| id).collect();
        for id in &lost {
            self.lose(now, *id, NodeState::Lost, ClientPush::NodeLost, out);
            self.allocations.node_lost(*id);
        }
        if !lost.is_empty() {
            self.changed(out);
        }
    }

    /// Excuses the agents' silence while this process was suspended, because their messages are still unread.
    fn sleep_is_no_silence(&mut self, now: Millis) {
        let late = now.since(self.ticked);
        self.ticked = now;
        if late >= TICK_LATE_MS {
            self.nodes.excuse(late, now);
        }
    }

    /// Returns how long a node may be silent. The limit grows if most nodes are silent, because then the coordinator
    /// itself may be unreachable.
    fn silence_limit(&mut self, now: Millis) -> u64 {
        let lost_after = self.limits.lost_after_ms;
        let (all, silent) = (self.nodes.up(), self.nodes.silent_for(lost_after, now));
        let doubts = silent >= 2 && 2 * silent > all;
        if doubts && !self.doubts {
            tracing::warn!("{silent} of {all} nodes are silent at once: the coordinator may be unreachable; it waits");
        }
        self.doubts = doubts;
        if doubts { lost_after.saturating_mul(DOUBT) } else { lost_after }
    }

    /// Marks a node as lost or gone. Programs with devices there are informed by `push`; all else goes on.
    fn lose(
        &mut self,
        now: Millis,
        id: NodeId,
        state: NodeState,
        push: fn(NodeId, String) -> ClientPush,
        out: &mut Vec<Effect>,
    ) {
        let Some(node) = self.nodes.get(&id) else { return };
        if let Some(link) = node.link() {
            self.links.remove(&link);
            out.push(Effect::DropLink(link));
        }
        let name = node.name.clone();
        let world = node.world.clone();
        match state {
            NodeState::Lost if !world.is_empty() => {
                tracing::warn!("the agent of node {name} ({id}) has died, and with it MPI world {world}");
            }
            NodeState::Lost => tracing::warn!("node {name} ({id}) is lost"),
            _ => tracing::info!("node {name} ({id}) has left: its agent was stopped, or another one took its place"),
        }
        self.nodes.update(id, |node| {
            node.state = state;
            node.contact.left = now;
        });
        self.executing.remove(&id);
        self.paths.forget(id);

        let mut peers = BTreeSet::new();
        let mut orphans = Vec::new();
        for session in self.sessions.on(id).collect::<Vec<_>>() {
            let Some(session) = self.sessions.get_mut(&session).filter(|session| !session.lost.contains(&id)) else {
                continue;
            };
            // A program on the node may drive its devices without the agent.
            if let Some(client) = session.client.filter(|_| state == NodeState::Gone && session.node_name == name) {
                session.executors.remove(&id);
                session.left.insert(id);
                out.push(Effect::ToClient(client, push(id, name.clone())));
                continue;
            }
            session.lost.insert(id);
            session.executors.remove(&id);
            peers.extend(session.executors.iter().copied());
            match session.client {
                Some(client) => out.push(Effect::ToClient(client, push(id, name.clone()))),
                None if session.executors.is_empty() => orphans.push(session.id),
                None => {}
            }
        }
        if state == NodeState::Lost {
            // The other ranks must end, because their launcher may not notice the missing one.
            peers.extend(self.other_ranks(id));
        }
        for peer in peers {
            if let Some(link) = self.nodes.get(&peer).and_then(Node::link) {
                out.push(Effect::ToAgent(link, AgentOrder::NodeLost(id, name.clone())));
            }
        }
        for session in orphans {
            match state {
                // The session may continue on the lost node, and is adopted again if the node returns.
                NodeState::Lost => self.forget(session, out),
                _ => self.end(session, None, out),
            }
        }
    }

    pub(super) fn drain(&mut self, node_name: &str, drain: bool, out: &mut Vec<Effect>) {
        let Some(node) = self.nodes.named(node_name).and_then(|id| self.nodes.get(&id)) else { return };
        let (id, link, leaving, changes) = (node.id, node.link(), node.leaving, node.draining != drain);
        if changes {
            self.nodes.update(id, |node| node.draining = drain);
            match drain {
                true => tracing::warn!("node {node_name:?} is drained: it takes part in no new session"),
                false => tracing::warn!("node {node_name:?} takes part in new sessions again"),
            }
            out.extend(link.map(|link| Effect::ToAgent(link, AgentOrder::Drain(drain))));
            self.allocations.node_drained(id, drain);
        }
        if leaving && !drain {
            // An administrator's word does not keep the agent.
            self.allocations.drain_for_agent(id);
        }
        if changes {
            self.changed(out);
        }
    }
}
