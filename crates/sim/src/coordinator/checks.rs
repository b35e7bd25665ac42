//! What must hold.

use super::agent::Agent;
use super::program::Program;
use super::world::World;
use accord_coordinator::cluster::{Millis, Node, NodeState};

/// As the core's.
const DOUBT: u64 = 6;

impl World {
    /// Nobody who is silent counts as alive for long, unless most are silent: then it may be the coordinator itself, for a while.
    pub(super) fn check_silence(&mut self) -> Result<(), String> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let now = Millis(self.queue.now() - self.started);
        let lost_after = cluster.limits().lost_after_ms;
        let up: Vec<&Node> = cluster.nodes().filter(|node| node.is_up()).collect();
        let silent = up.iter().filter(|node| now.since(node.heard) >= lost_after).count();
        let most = silent >= 2 && 2 * silent > up.len();
        // Those that were given up now may have been the majority.
        let before = std::mem::replace(&mut self.most_silent, most);
        let limit = if most || before { lost_after * DOUBT } else { lost_after };
        match up.iter().find(|node| now.since(node.heard) > limit) {
            Some(node) => Err(format!("{} was silent for {} ms and is up", node.name, now.since(node.heard))),
            None => Ok(()),
        }
    }

    /// Whoever says all the time that it lives is not lost, however long the coordinator has slept.
    pub(super) fn check_lost(&self) -> Result<(), String> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let beats = |agent: &&Agent| {
            let in_time = self.queue.now() > agent.silent_until + 1_000;
            let open = agent.link.is_some_and(|link| self.is_registered(link));
            agent.alive && !agent.cut && in_time && open && agent.node.is_some()
        };
        match self.agents.iter().filter(beats).find(|agent| {
            let node = cluster.node_named(&agent.name);
            node.is_some_and(|node| node.state == NodeState::Lost && node.incarnation == agent.incarnation)
        }) {
            Some(agent) => Err(format!("{} says that it lives and is lost", agent.name)),
            None => Ok(()),
        }
    }

    /// Once the trouble is over, everybody knows the same.
    pub(super) fn check_settled(&self) -> Result<(), String> {
        let cluster = self.cluster.as_ref().ok_or("the coordinator is not back")?;
        cluster.check_invariants()?;
        for agent in &self.agents {
            let name = &agent.name;
            let node = cluster.node_named(name);
            if !agent.alive {
                if node.is_some_and(Node::is_up) {
                    return Err(format!("{name} is dead and counts as up"));
                }
                continue;
            }
            let node = node.ok_or_else(|| format!("{name} lives and is not known"))?;
            if node.link().is_none() || node.link() != agent.link || node.incarnation != agent.incarnation {
                return Err(format!("{name} lives with {:?}, known is {:?}", agent.link, node.state));
            }
            if agent.node != Some(node.id) {
                return Err(format!("{name} takes itself for {:?} and is {}", agent.node, node.id));
            }
            for id in &agent.executors {
                if !cluster.session(*id).is_some_and(|session| session.executors.contains(&node.id)) {
                    return Err(format!("{name} runs an executor of {id}, which the coordinator has forgotten"));
                }
                if !self.programs.iter().any(|program| program.alive && program.session == Some(*id)) {
                    return Err(format!("{name} runs an executor of {id}, whose program is dead"));
                }
            }
        }
        for session in cluster.sessions() {
            let id = session.id;
            for node in &session.executors {
                let runs = |agent: &&Agent| agent.alive && agent.node == Some(*node) && agent.executors.contains(&id);
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
            program.alive && program.session.is_some() && program.client.is_none() && !program.told_of_end
        };
        let is_cut_short = |program: &&Program| {
            let ended = |agent: &Agent| program.session.is_some_and(|session| agent.ended.contains(&session));
            program.alive && !program.told_of_end && self.agents.iter().any(ended)
        };
        if let Some(program) = self.programs.iter().find(is_cut_short) {
            return Err(format!("an executor of {program:?} was ended, and nobody has ended the session"));
        }
        match self.programs.iter().find(is_astray) {
            Some(program) => Err(format!("{program:?} did not come back to its session")),
            None => Ok(()),
        }
    }
}
