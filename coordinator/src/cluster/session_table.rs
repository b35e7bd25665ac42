//! The open sessions, and how many there are of each user and on each node.

use super::session::Session;
use accord_types::{NodeId, SessionGrant, SessionId};
use std::collections::BTreeMap;
use std::ops::Deref;

/// See the module. Reads as the map that it is.
#[derive(Debug, Default)]
pub(super) struct SessionTable {
    sessions: BTreeMap<SessionId, Session>,
    by_user: BTreeMap<String, usize>,
    by_node: BTreeMap<NodeId, usize>,
}

impl SessionTable {
    /// Puts a session in that is not there.
    pub(super) fn insert(&mut self, session: Session) {
        *self.by_user.entry(session.owner.user.clone()).or_default() += 1;
        for node in session.nodes.keys() {
            *self.by_node.entry(*node).or_default() += 1;
        }
        self.sessions.insert(session.id, session);
    }

    /// Takes a session out.
    pub(super) fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        take(&mut self.by_user, &session.owner.user);
        for node in session.nodes.keys() {
            take(&mut self.by_node, node);
        }
        Some(session)
    }

    /// Adds what an agent, whose devices have these ordinals, knows of an adopted session.
    pub(super) fn join(&mut self, node: NodeId, ordinals: &[u32], grant: &SessionGrant) {
        let Some(session) = self.sessions.get_mut(&grant.session) else { return };
        let before = session.nodes.len();
        session.join(node, ordinals, grant);
        if session.nodes.len() > before {
            *self.by_node.entry(node).or_default() += 1;
        }
    }

    /// A session whose owner and nodes stay as they are.
    pub(super) fn get_mut(&mut self, id: &SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(id)
    }

    /// All sessions, whose owners and nodes stay as they are.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.sessions.values_mut()
    }

    /// Sessions of a user.
    pub(super) fn of_user(&self, user: &str) -> usize {
        self.by_user.get(user).copied().unwrap_or_default()
    }

    /// Nodes that sessions have devices of.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.by_node.keys().copied()
    }

    /// Whether a session has devices of a node.
    pub(super) fn has_node(&self, node: NodeId) -> bool {
        self.by_node.contains_key(&node)
    }

    /// See [`super::Cluster::check_invariants`].
    pub(super) fn check(&self) -> Result<(), String> {
        let mut counted = Self::default();
        for session in self.sessions.values() {
            counted.insert(session.clone());
        }
        if counted.by_user != self.by_user || counted.by_node != self.by_node {
            return Err(format!("{:?} and {:?} are counted of {:?}", self.by_user, self.by_node, self.sessions));
        }
        Ok(())
    }
}

/// One less of `of`.
fn take<K: Ord>(counts: &mut BTreeMap<K, usize>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

impl Deref for SessionTable {
    type Target = BTreeMap<SessionId, Session>;

    fn deref(&self) -> &Self::Target {
        &self.sessions
    }
}
