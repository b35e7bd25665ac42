//! The invariants of the simulated cluster.

use super::agent::{Agent, Executor};
use super::program::Program;
use super::world::{SERVED, World};
use accord_cluster::{Millis, Node, NodeState, Session};
use accord_fabric::handshake::Purpose;

/// The core's own constant of this name.
const DOUBT: u64 = 6;

impl World {
    /// Whether most agents are silent, judged as the coordinator's next tick does.
    pub(super) fn most_are_silent(&self) -> bool {
        let Some(cluster) = &self.cluster else { return false };
        let now = Millis(self.queue.now() - self.started);
        let lost_after = cluster.limits().lost_after_ms;
        let up = cluster.nodes().filter(|node| node.is_up());
        let (silent, up): (Vec<&Node>, Vec<&Node>) = up.partition(|node| now.since(node.contact.last) >= lost_after);
        silent.len() >= 2 && silent.len() > up.len()
    }

    /// Checks that after a tick no silent agent counts as alive for long. If most were silent before, the coordinator
    /// itself may have stood still, and the check passes.
    pub(super) fn check_silence(&self, most: bool) -> Result<(), String> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let now = Millis(self.queue.now() - self.started);
        let lost_after = cluster.limits().lost_after_ms;
        let limit = if most { lost_after * DOUBT } else { lost_after };
        let mut up = cluster.nodes().filter(|node| node.is_up());
        match up.find(|node| now.since(node.contact.last) > limit) {
            Some(node) => Err(format!("{} was silent for {} ms and is up", node.name, now.since(node.contact.last))),
            None => Ok(()),
        }
    }

    /// Checks that an agent that sends heartbeats is not lost, however long the coordinator was stopped.
    pub(super) fn check_lost(&self) -> Result<(), String> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let beats = |agent: &&Agent| {
            let in_time = self.queue.now() > agent.silent_until + 1_000;
            let open = agent.link.is_some_and(|link| self.is_registered(link));
            agent.is_alive() && !agent.cut && in_time && open && agent.node().is_some()
        };
        match self.agents.iter().filter(beats).find(|agent| {
            let node = cluster.node_named(&agent.name);
            node.is_some_and(|node| node.state == NodeState::Lost && node.incarnation == agent.incarnation)
        }) {
            Some(agent) => Err(format!("{} says that it lives and is lost", agent.name)),
            None => Ok(()),
        }
    }

    /// Has every program with a session request an executor from one agent of its lease. Returns the pairs of program
    /// and agent.
    pub(super) fn use_all(&mut self) -> Vec<(usize, usize)> {
        let mut asked = Vec::new();
        for program in 0..self.programs.len() {
            let Some(cluster) = &self.cluster else { continue };
            let id = self.programs[program].session.filter(|_| self.programs[program].alive);
            // Skips sessions whose time is almost over.
            let id = id.filter(|id| self.end_of(*id) > self.queue.now() + SERVED);
            let Some(session) = id.and_then(|id| cluster.session(id)) else { continue };
            // A program without a request may use every node with devices.
            let is_shared = self.programs[program].request.devices.is_none();
            let serves = |agent: &&Agent| {
                let is_its = |node| session.nodes.contains_key(&node) || is_shared && agent.devices > 0;
                agent.node().is_some_and(|node| is_its(node) && !session.lost.contains(&node))
            };
            let serving: Vec<usize> = (0..self.agents.len()).filter(|agent| serves(&&self.agents[*agent])).collect();
            if let Some(&agent) = serving.first() {
                let agent = if self.random.chance(50) { agent } else { serving[self.random.index(serving.len())] };
                let (id, is_known) = (session.id, agent_is_notified(session, &self.agents[agent]));
                match is_known {
                    true => self.command_lane(agent, program, id, true),
                    false if self.programs[program].client.is_some() => self.ask_use(program, agent),
                    false => continue,
                }
                asked.push((program, agent));
            }
        }
        asked
    }

    /// Checks that every program that requested an executor has it.
    pub(super) fn check_served(&self, asked: &[(usize, usize)]) -> Result<(), String> {
        for (program, agent) in asked {
            let state = &self.agents[*agent];
            let serves = |executor: &Executor| executor.program == *program && !executor.ends;
            // The node may be reserved for a job alone.
            let refusal = self.programs[*program].refused.get(agent);
            if !state.executors.values().any(serves) && !refusal.is_some_and(|why| why.contains("to itself")) {
                return Err(format!(
                    "{:?} has asked {} for an executor and has none",
                    self.programs[*program], state.name
                ));
            }
        }
        Ok(())
    }

    /// Checks that all views agree after the trouble.
    pub(super) fn check_settled(&self) -> Result<(), String> {
        let cluster = self.cluster.as_ref().ok_or("the coordinator is not back")?;
        cluster.check_invariants()?;
        self.check_jobs()?;
        self.check_times()?;
        for agent in &self.agents {
            let name = &agent.name;
            let node = cluster.node_named(name);
            if !agent.is_alive() {
                if node.is_some_and(Node::is_up) {
                    return Err(format!("{name} is dead and counts as up"));
                }
                continue;
            }
            let node = node.ok_or_else(|| format!("{name} lives and is not known"))?;
            if node.link().is_none() || node.link() != agent.link || node.incarnation != agent.incarnation {
                return Err(format!("{name} lives with {:?}, known is {:?}", agent.link, node.state));
            }
            if agent.node() != Some(node.id) {
                return Err(format!("{name} takes itself for {:?} and is {}", agent.node(), node.id));
            }
            agent.check_settled()?;
            for id in agent.running() {
                if !cluster.session(id).is_some_and(|session| session.executors.contains(&node.id)) {
                    return Err(format!("{name} runs an executor of {id}, which the coordinator has forgotten"));
                }
                if !self.programs.iter().any(|program| program.alive && program.session == Some(id)) {
                    return Err(format!("{name} runs an executor of {id}, whose program is dead"));
                }
            }
        }
        for (id, (_, life)) in &self.opened {
            let is_over = *life == self.life && cluster.session(*id).is_none();
            let serves = |agent: &&Agent| agent.rules.as_ref().is_some_and(|rules| rules.serves(*id));
            if let Some(agent) = self.agents.iter().filter(|_| is_over).find(serves) {
                return Err(format!("{} serves {id}, which has ended", agent.name));
            }
        }
        for session in cluster.sessions() {
            let id = session.id;
            for node in &session.executors {
                let runs = |agent: &&Agent| agent.node() == Some(*node) && agent.running().any(|own| own == id);
                if !self.agents.iter().any(|agent| runs(&agent)) {
                    return Err(format!("{id} is said to have an executor on {node}"));
                }
            }
            let program = self.programs.iter().find(|program| program.alive && program.session == Some(id));
            let program = program.ok_or_else(|| format!("{id} is open and its program is dead"))?;
            if session.client.is_some() && (program.client != session.client || !session.lost.is_subset(&program.lost))
            {
                return Err(format!("{id}: the program knows {program:?}, the coordinator {session:?}"));
            }
        }
        let attached = |program: &Program| {
            program.session.is_none_or(|id| cluster.session(id).is_some_and(|session| session.client == program.client))
        };
        if let Some(program) =
            self.programs.iter().find(|program| program.alive && program.client.is_some() && !attached(program))
        {
            return Err(format!("{program:?} has a connection to a session that is not open"));
        }
        let is_astray = |program: &&Program| {
            program.alive && program.session.is_some() && program.client.is_none() && !program.notified_of_end
        };
        let is_cut_short = |program: &&Program| {
            // A connected coordinator informs a program whose executor it has ended, but a later coordinator can't.
            // Example, seed 9207 from before there were jobs: an administrator closes a session after its agent, but
            // not yet its program, has connected to a new coordinator. The executor ends, and that coordinator dies 68
            // ms later. No agent names the session to the third coordinator, so the program keeps a session without
            // devices and learns of their loss from its executor.
            let ended = |agent: &Agent| {
                let ended = program.session.and_then(|session| agent.cut_short.get(&session));
                ended.is_some_and(|(life, reported)| *reported || *life == self.life)
            };
            program.alive && !program.notified_of_end && self.agents.iter().any(ended)
        };
        if let Some(program) = self.programs.iter().find(is_cut_short) {
            return Err(format!("an executor of {program:?} was ended, but not its session"));
        }
        match self.programs.iter().find(is_astray) {
            Some(program) => Err(format!("{program:?} did not come back to its session")),
            None => Ok(()),
        }
    }
}

fn agent_is_notified(session: &Session, agent: &Agent) -> bool {
    agent.node().is_some_and(|node| session.nodes.contains_key(&node))
}

impl Agent {
    /// Checks what holds at any time: the rules know every executor, and accept only granted sessions.
    pub(super) fn check(&self, now: u64) -> Result<(), String> {
        let Self { name, rules: Some(rules), starting, executors, lanes, .. } = self else { return Ok(()) };
        let (known, are) = (rules.executors(), starting.len() + executors.len());
        // A lane that waits for the end of an executor also holds a slot.
        if known < are || known > are + lanes.len() {
            return Err(format!("{name} knows of {known} executors, and there are {are}"));
        }
        let now = self.now(now);
        for (id, executor) in executors {
            let session = executor.session;
            let serves = rules.executor_of(now, session).ok();
            if serves != (!executor.ends).then_some(*id) {
                return Err(format!("{name} hands lanes of {session} to {serves:?}, and has {executor:?}"));
            }
        }
        if let Some(session) = starting.values().find(|starts| rules.executor_of(now, starts.session).is_ok()) {
            return Err(format!("{name} hands lanes to {session:?}, which is not there yet"));
        }
        match self.closed.iter().find(|session| rules.key_of(now, Purpose::Command, **session, now).is_ok()) {
            Some(session) => Err(format!("{name} asks lanes of {session} for a key, which has ended")),
            None => Ok(()),
        }
    }

    /// Checks that nothing is in progress and nothing is left of ended sessions.
    fn check_settled(&self) -> Result<(), String> {
        let Self { name, rules: Some(rules), executors, starting, lanes, .. } = self else { return Ok(()) };
        if !rules.is_in() {
            return Err(format!("{name} lives and is not in"));
        }
        if !lanes.is_empty() || !starting.is_empty() {
            return Err(format!("{name} has {lanes:?} and {starting:?} under way"));
        }
        if let Some(executor) = executors.values().find(|executor| executor.ends) {
            return Err(format!("{name} was to end {executor:?}"));
        }
        if let Some(executor) = executors.values().find(|executor| self.closed.contains(&executor.session)) {
            return Err(format!("{name} runs {executor:?}, which is closed"));
        }
        if rules.executors() != executors.len() {
            return Err(format!("{name} knows of {} executors and has {}", rules.executors(), executors.len()));
        }
        Ok(())
    }
}
