//! The open sessions, with indexes by user, node and MPI program.

use super::session::{Ranks, Session};
use super::steps::counted;
use accord_types::{DeviceId, NodeId, SessionGrant, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// The open sessions, with indexes.
#[derive(Debug, Default)]
pub(super) struct SessionTable {
    sessions: BTreeMap<SessionId, Session>,
    orders: Orders,
}

/// Indexes of the sessions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Orders {
    /// Number of sessions of each user.
    by_user: BTreeMap<String, usize>,
    /// Sessions with devices of a node.
    by_node: BTreeMap<NodeId, BTreeSet<SessionId>>,
    /// Number of ranks with a session of each MPI program.
    by_ranks: BTreeMap<Ranks, usize>,
    /// Ranks of an MPI program by the device that they used first.
    crowds: BTreeMap<(Ranks, DeviceId), BTreeSet<SessionId>>,
    /// Number of sessions that used a device first.
    using: BTreeMap<DeviceId, usize>,
}

impl SessionTable {
    /// Returns a session.
    pub(super) fn get(&self, id: &SessionId) -> Option<&Session> {
        self.sessions.get(id)
    }

    /// Returns a session for changes other than of its owner, nodes, rank and first device.
    pub(super) fn get_mut(&mut self, id: &SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(id)
    }

    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns all sessions.
    pub(super) fn values(&self) -> impl Iterator<Item = &Session> {
        counted(self.sessions.values())
    }

    /// Returns all sessions from a number on.
    pub(super) fn from(&self, id: SessionId) -> impl Iterator<Item = &Session> {
        counted(self.sessions.range(id..).map(|(_, session)| session))
    }

    /// Inserts a new session.
    pub(super) fn insert(&mut self, session: Session) {
        self.orders.list(&session);
        self.sessions.insert(session.id, session);
    }

    /// Removes a session.
    pub(super) fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        self.orders.unlist(&session);
        Some(session)
    }

    /// Adds the devices that an agent reports for an adopted session; `ordinals` are the agent's devices.
    pub(super) fn join(&mut self, node: NodeId, ordinals: &[u32], grant: &SessionGrant) {
        let Some(session) = self.sessions.get_mut(&grant.session) else { return };
        session.join(node, ordinals, grant);
        if session.nodes.contains_key(&node) {
            self.orders.by_node.entry(node).or_default().insert(session.id);
        }
    }

    /// Adds devices of a node that a session may use.
    pub(super) fn introduce(&mut self, id: SessionId, node: NodeId, ordinals: BTreeSet<u32>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let known = session.nodes.entry(node).or_default();
        *known = ordinals.into_iter().chain(known.iter().copied()).collect::<BTreeSet<_>>().into_iter().collect();
        self.orders.by_node.entry(node).or_default().insert(id);
    }

    /// Sets the device that a session's program used first.
    pub(super) fn set_first_use(&mut self, id: SessionId, device: DeviceId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        self.orders.unlist_use(session);
        session.uses = Some(device);
        self.orders.list_use(session);
    }

    /// Returns the number of a user's sessions.
    pub(super) fn of_user(&self, user: &str) -> usize {
        self.orders.by_user.get(user).copied().unwrap_or_default()
    }

    /// Returns the sessions with devices of a node.
    pub(super) fn on(&self, node: NodeId) -> impl Iterator<Item = SessionId> {
        counted(self.orders.by_node.get(&node).into_iter().flatten().copied())
    }

    /// Whether a session has devices of a node.
    pub(super) fn has_node(&self, node: NodeId) -> bool {
        self.orders.by_node.contains_key(&node)
    }

    /// Whether a rank of an MPI program has a session.
    pub(super) fn has_ranks(&self, ranks: &Ranks) -> bool {
        self.orders.by_ranks.contains_key(ranks)
    }

    /// Returns the ranks of an MPI program that used a device first.
    pub(super) fn crowd(&self, ranks: &Ranks, device: DeviceId) -> RanksOnDevice<'_> {
        RanksOnDevice { sessions: &self.sessions, members: self.orders.crowds.get(&(ranks.clone(), device)) }
    }

    /// Returns the number of devices that some session used first.
    pub(super) fn in_first_use(&self) -> usize {
        self.orders.using.len()
    }

    /// Whether no session used the device first.
    pub(super) fn is_idle(&self, device: DeviceId) -> bool {
        !self.orders.using.contains_key(&device)
    }

    /// Checks the table, see [`super::Cluster::check_invariants`].
    pub(super) fn check(&self) -> Result<(), String> {
        let mut orders = Orders::default();
        for session in self.sessions.values() {
            orders.list(session);
        }
        if orders != self.orders {
            return Err(format!("{orders:?} follows from the sessions, and kept is {:?}", self.orders));
        }
        Ok(())
    }
}

/// The ranks of an MPI program on one device.
pub(super) struct RanksOnDevice<'a> {
    sessions: &'a BTreeMap<SessionId, Session>,
    members: Option<&'a BTreeSet<SessionId>>,
}

impl<'a> RanksOnDevice<'a> {
    pub(super) fn len(&self) -> usize {
        self.members.map_or(0, BTreeSet::len)
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = &'a Session> {
        counted(self.members.into_iter().flatten().filter_map(|id| self.sessions.get(id)))
    }
}

impl Orders {
    fn list(&mut self, session: &Session) {
        *self.by_user.entry(session.owner.user.clone()).or_default() += 1;
        for node in counted(session.nodes.keys()) {
            self.by_node.entry(*node).or_default().insert(session.id);
        }
        if let Some(ranks) = session.ranks() {
            *self.by_ranks.entry(ranks).or_default() += 1;
        }
        self.list_use(session);
    }

    fn unlist(&mut self, session: &Session) {
        one_less(&mut self.by_user, &session.owner.user);
        for node in counted(session.nodes.keys()) {
            take(&mut self.by_node, node, session.id);
        }
        if let Some(ranks) = session.ranks() {
            one_less(&mut self.by_ranks, &ranks);
        }
        self.unlist_use(session);
    }

    fn list_use(&mut self, session: &Session) {
        let Some(device) = session.uses else { return };
        *self.using.entry(device).or_default() += 1;
        if let Some(ranks) = session.ranks() {
            self.crowds.entry((ranks, device)).or_default().insert(session.id);
        }
    }

    fn unlist_use(&mut self, session: &Session) {
        let Some(device) = session.uses else { return };
        one_less(&mut self.using, &device);
        if let Some(ranks) = session.ranks() {
            take(&mut self.crowds, &(ranks, device), session.id);
        }
    }
}

/// Decrements a count.
fn one_less<K: Ord>(counts: &mut BTreeMap<K, usize>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

/// Removes a session from the set of a key.
fn take<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<SessionId>>, key: &K, id: SessionId) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(&id);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
