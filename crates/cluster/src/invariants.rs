//! Invariants of the cluster, checked after each step.

use super::node::{Node, NodeState};
use super::session::Session;
use super::state::Cluster;
use accord_types::{DeviceId, NodeId, SessionId};
use std::collections::BTreeMap;

impl Cluster {
    /// Checks the whole state, for tests and the simulation.
    ///
    /// # Errors
    /// Returns the violated invariant and the state that violates it.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_bounds()?;
        self.check_paths()?;
        self.sessions.check()?;
        self.nodes.check()?;
        self.allocations.check()?;
        self.faults.check()?;
        for node in self.nodes.values() {
            self.check_node(node)?;
        }
        for (link, id) in &self.links {
            if self.nodes.get(id).and_then(Node::link) != Some(*link) || self.joining.contains(*link) {
                return Err(format!("{link:?} leads to {id}, which has another connection"));
            }
        }
        for session in self.sessions.values() {
            self.check_session(session)?;
        }
        self.check_sessions_of_jobs()?;
        self.check_uses()?;
        for (client, id) in &self.clients {
            if self.sessions.get(id).and_then(|session| session.client) != Some(*client) {
                return Err(format!("{client:?} leads to {id}, which has another connection"));
            }
        }
        let ends: Vec<_> =
            self.sessions.values().filter_map(|session| session.ends.map(|end| (end, session.id))).collect();
        if ends.len() != self.ends.len() || !ends.iter().all(|end| self.ends.contains(end)) {
            return Err(format!("{:?} are to end, and kept is {:?}", ends, self.ends));
        }
        for (node, sessions) in &self.executing {
            for id in sessions {
                if !self.sessions.get(id).is_some_and(|session| session.executors.contains(node)) {
                    return Err(format!("{node} runs {id}, which knows nothing of it"));
                }
            }
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<(), String> {
        let limits = &self.limits;
        for (what, count, max) in [
            ("nodes", self.nodes.len(), limits.nodes_max),
            ("agents that join", self.joining.len(), limits.nodes_max),
            ("sessions", self.sessions.len(), limits.sessions_max),
            ("ended sessions", self.ended.len(), limits.ended_max),
            ("reasons of ended sessions", self.session_ends.len(), limits.ended_max),
        ] {
            if count > max {
                return Err(format!("{count} {what} of at most {max}"));
            }
        }
        Ok(())
    }

    fn check_node(&self, node: &Node) -> Result<(), String> {
        let id = node.id;
        if let NodeState::Up { link: Some(link) } = node.state
            && self.links.get(&link) != Some(&id)
        {
            return Err(format!("{id} has a connection that does not lead to it"));
        }
        if let Some(device) = node.devices.iter().find(|device| device.id.node != id) {
            return Err(format!("a device of {id} is numbered {}", device.id));
        }
        if !node.devices.is_sorted_by(|a, b| a.id.ordinal < b.id.ordinal) {
            return Err(format!("the devices of {id} are not in the order of their ordinals"));
        }
        if !node.is_up() && self.executing.contains_key(&id) {
            return Err(format!("{id} is not up and runs executors"));
        }
        Ok(())
    }

    fn check_session(&self, session: &Session) -> Result<(), String> {
        let id = session.id;
        if let Some(client) = session.client
            && self.clients.get(&client) != Some(&id)
        {
            return Err(format!("{id} has a connection that does not lead to it"));
        }
        if session.client.is_none() && session.executors.is_empty() {
            return Err(format!("{id} has neither a program nor an executor"));
        }
        let mut devices = session.lease.devices.clone();
        devices.sort_unstable();
        devices.dedup();
        if devices.len() != session.lease.devices.len() {
            return Err(format!("{id} has two numbers for one device"));
        }
        let is_away = |node: &NodeId| session.lost.contains(node) || session.left.contains(node);
        for device in &session.lease.devices {
            if !session.nodes.contains_key(&device.node) {
                return Err(format!("{id} has {device} but not its node"));
            }
            if !is_away(&device.node) && self.device(*device).is_none() {
                return Err(format!("{id} has {device}, which does not exist"));
            }
        }
        for node in session.nodes.keys() {
            let up = self.nodes.get(node).is_some_and(Node::is_up);
            if !up && !is_away(node) {
                return Err(format!("{id} was not told that {node} is lost"));
            }
        }
        for node in &session.executors {
            if !session.nodes.contains_key(node) || session.lost.contains(node) {
                return Err(format!("{id} runs on {node}, where it has no right to be"));
            }
            if !self.executing.get(node).is_some_and(|sessions| sessions.contains(&id)) {
                return Err(format!("{node} knows nothing of the executor of {id}"));
            }
        }
        Ok(())
    }

    /// Checks that a job's sessions have only devices of the job.
    fn check_sessions_of_jobs(&self) -> Result<(), String> {
        for (id, session) in
            self.sessions.values().filter_map(|session| Some((self.allocations.job_of(session.id)?, session)))
        {
            let is_job = |device: &DeviceId| {
                self.allocations.job(id).is_some_and(|job| job.devices().iter().any(|of| of.device == *device))
            };
            if !session.lease.devices.iter().all(is_job) {
                return Err(format!("{} has devices that are not of job {id}", session.id));
            }
        }
        Ok(())
    }

    /// The devices in use are those of open sessions, and of sessions of before this coordinator's start that may come back.
    fn check_uses(&self) -> Result<(), String> {
        let mut used = BTreeMap::<DeviceId, usize>::new();
        let by_sessions = self.sessions.values().flat_map(|session| &session.used);
        for device in by_sessions.chain(self.earlier_used.values().flatten()) {
            *used.entry(*device).or_default() += 1;
        }
        if used != self.allocations.used {
            return Err(format!("{used:?} follows from the sessions, and kept is {:?}", self.allocations.used));
        }
        let is_used = |device: &DeviceId, id: &SessionId| {
            self.sessions.get(id).is_some_and(|session| session.used.contains(device))
        };
        match self.unmet_uses.iter().find(|(device, id)| !is_used(device, id)) {
            Some((device, id)) => Err(format!("{id} does not use {device}, of which an agent is to be told")),
            None => Ok(()),
        }
    }

    pub(super) fn device(&self, id: DeviceId) -> Option<&accord_types::DeviceInfo> {
        self.nodes.get(&id.node)?.device(id.ordinal)
    }
}
