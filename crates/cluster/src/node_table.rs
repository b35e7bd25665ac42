//! The nodes, with indexes so that an input visits only the nodes that it concerns.

use super::node::Node;
use super::steps::counted;
use super::time::Millis;
use accord_types::{DeviceKind, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes ordered by a time.
type ByTime = BTreeSet<(Millis, NodeId)>;

/// The nodes of the cluster, with indexes.
#[derive(Debug, Default)]
pub(super) struct NodeTable {
    nodes: BTreeMap<NodeId, Node>,
    by_name: BTreeMap<String, NodeId>,
    orders: Orders,
    /// MPI worlds whose ranks may have to be informed of a lost rank, with the time from which on.
    unsettled: BTreeSet<(Millis, String)>,
    /// Nodes that were inserted, removed or updated since [`Self::take_changed`].
    changed: BTreeSet<NodeId>,
}

/// Indexes of the nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Orders {
    /// Nodes with a connection.
    connected: BTreeSet<NodeId>,
    /// Nodes that are up and not silent, by the time of their last message.
    last_contact: ByTime,
    /// Nodes that are up but sent nothing since `silent_since`, by the time of their last message.
    silent: ByTime,
    silent_since: Option<Millis>,
    /// Nodes that are up without a connection, by the time at which it ended.
    away: ByTime,
    /// Nodes that are up and whose connection ended after `broken_after`, by that time.
    broken: ByTime,
    broken_after: Option<Millis>,
    /// Ranks without a connection, by the time at which they count as lost.
    leaving: ByTime,
    /// Nodes that are not up, by the time of their last message.
    down: ByTime,
    worlds: BTreeMap<String, World>,
    counts: UpCounts,
}

/// Numbers of nodes that are up, and of their devices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct UpCounts {
    nodes: usize,
    /// Number of drained nodes.
    draining: usize,
    /// Number of devices.
    devices: usize,
    /// Number of devices by kind.
    by_kind: BTreeMap<DeviceKind, usize>,
    /// Number of devices of nodes that take new sessions, by kind.
    offered: BTreeMap<DeviceKind, usize>,
}

/// Nodes whose agents are ranks of one MPI world.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct World {
    nodes: BTreeSet<NodeId>,
    /// Nodes that are not up, by the time at which they were lost or left.
    gone: ByTime,
}

impl NodeTable {
    /// Returns a node.
    pub(super) fn get(&self, id: &NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    pub(super) fn contains_key(&self, id: &NodeId) -> bool {
        self.nodes.contains_key(id)
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns all nodes.
    pub(super) fn values(&self) -> impl Iterator<Item = &Node> {
        counted(self.nodes.values())
    }

    /// Returns all nodes from a number on.
    pub(super) fn from(&self, id: NodeId) -> impl Iterator<Item = &Node> {
        counted(self.nodes.range(id..).map(|(_, node)| node))
    }

    /// Returns a number above those of all nodes.
    pub(super) fn next_id(&self) -> NodeId {
        self.nodes.last_key_value().map_or(NodeId(0), |(id, _)| NodeId(id.0 + 1))
    }

    /// Returns the number of the node with a name.
    pub(super) fn named(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// Inserts a node with a new number and name.
    pub(super) fn insert(&mut self, node: Node) {
        self.by_name.insert(node.name.clone(), node.id);
        self.orders.list(&node);
        self.unsettle(&node.world);
        self.changed.insert(node.id);
        self.nodes.insert(node.id, node);
    }

    /// Removes a node.
    pub(super) fn remove(&mut self, id: NodeId) {
        let Some(node) = self.nodes.remove(&id) else { return };
        self.by_name.remove(&node.name);
        self.orders.unlist(&node);
        self.unsettle(&node.world);
        self.changed.insert(id);
    }

    /// Returns the nodes that were inserted, removed or updated since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<NodeId> {
        std::mem::take(&mut self.changed)
    }

    /// Changes a node, except for its number and name.
    pub(super) fn update(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        self.changed.insert(id);
        self.update_times(id, change);
    }

    /// Changes a node's times, which are not kept over a restart.
    fn update_times(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        self.orders.unlist(node);
        let before = node.world.clone();
        change(node);
        self.orders.list(node);
        let after = node.world.clone();
        self.unsettle(&before);
        self.unsettle(&after);
    }

    /// Notes that a node's agent is alive.
    pub(super) fn note_alive(&mut self, id: NodeId, now: Millis) {
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.is_up()) else { return };
        self.orders.unlist_contact(node);
        node.contact.last = now;
        self.orders.list_contact(node);
    }

    /// Adds the coordinator's own suspension to the last messages of all nodes that are up.
    pub(super) fn excuse(&mut self, late: u64, now: Millis) {
        let up: Vec<NodeId> = self.values().filter(|node| node.is_up()).map(|node| node.id).collect();
        for id in up {
            self.update_times(id, |node| {
                node.contact.last = node.contact.last.plus(late).min(now);
                node.contact.linked = node.contact.linked.plus(late).min(now);
            });
        }
    }

    /// Returns nodes with a connection, by number.
    pub(super) fn connected(&self) -> &BTreeSet<NodeId> {
        &self.orders.connected
    }

    /// Returns the number of nodes that are up.
    pub(super) fn up(&self) -> usize {
        self.orders.counts.nodes
    }

    /// Returns the number of nodes that are up and drained.
    pub(super) fn draining(&self) -> usize {
        self.orders.counts.draining
    }

    /// Returns the number of devices of nodes that are up.
    pub(super) fn devices(&self) -> usize {
        self.orders.counts.devices
    }

    /// Returns the number of devices of a kind on nodes that are up.
    pub(super) fn devices_of(&self, kind: DeviceKind) -> usize {
        self.orders.counts.by_kind.get(&kind).copied().unwrap_or_default()
    }

    /// Returns the number of devices of a kind, or of all kinds, on nodes that take new sessions.
    pub(super) fn offered(&self, kind: Option<DeviceKind>) -> usize {
        let of_kind = |kind| self.orders.counts.offered.get(&kind).copied().unwrap_or_default();
        kind.map_or_else(|| self.orders.counts.offered.values().sum(), of_kind)
    }

    /// Returns how many nodes that are up have been silent for `silence` or longer.
    pub(super) fn silent_for(&mut self, silence: u64, now: Millis) -> usize {
        let orders = &mut self.orders;
        orders.silent_since = now.0.checked_sub(silence).map(Millis).max(orders.silent_since);
        while let Some(&(at, id)) = orders.last_contact.first().filter(|(at, _)| Some(*at) <= orders.silent_since) {
            orders.last_contact.remove(&(at, id));
            orders.silent.insert((at, id));
        }
        orders.silent.len()
    }

    /// Returns nodes that are up and that [`Self::silent_for`] has not counted, by the time of their last message.
    pub(super) fn last_contact(&self) -> impl Iterator<Item = (Millis, NodeId)> {
        counted(self.orders.last_contact.iter().copied())
    }

    /// Returns nodes that are up and that [`Self::silent_for`] has counted, by the time of their last message.
    pub(super) fn silent(&self) -> impl Iterator<Item = (Millis, NodeId)> {
        counted(self.orders.silent.iter().copied())
    }

    /// Returns when the last connection ended, among nodes that are without one.
    pub(super) fn last_away(&self) -> Option<Millis> {
        self.orders.away.last().map(|(at, _)| *at)
    }

    /// Returns how many nodes that are up have lost their connection less than `ms` ago.
    pub(super) fn broken_within(&mut self, ms: u64, now: Millis) -> usize {
        let orders = &mut self.orders;
        orders.broken_after = now.0.checked_sub(ms).map(Millis).max(orders.broken_after);
        while let Some(&(at, id)) = orders.broken.first().filter(|(at, _)| Some(*at) <= orders.broken_after) {
            orders.broken.remove(&(at, id));
        }
        orders.broken.len()
    }

    /// Returns ranks without a connection, by the time at which they count as lost.
    pub(super) fn leaving(&self) -> impl Iterator<Item = (Millis, NodeId)> {
        counted(self.orders.leaving.iter().copied())
    }

    /// Returns nodes that are not up, beginning with the one whose last message is oldest.
    pub(super) fn down(&self) -> impl Iterator<Item = NodeId> {
        counted(self.orders.down.iter().map(|(_, id)| *id))
    }

    /// Returns nodes whose agents are ranks of an MPI world.
    pub(super) fn of_world(&self, world: &str) -> impl Iterator<Item = &Node> {
        let nodes = self.orders.worlds.get(world).into_iter().flat_map(|world| &world.nodes);
        counted(nodes.filter_map(|id| self.nodes.get(id)))
    }

    /// Returns the rank of a world that was last lost or left, with the time.
    pub(super) fn last_gone(&self, world: &str) -> Option<(Millis, NodeId)> {
        self.orders.worlds.get(world)?.gone.last().copied()
    }

    /// Removes and returns a world whose ranks may have to be informed of a lost rank now.
    pub(super) fn next_unsettled(&mut self, now: Millis) -> Option<String> {
        let (due, _) = self.unsettled.first()?;
        if *due > now { None } else { self.unsettled.pop_first().map(|(_, world)| world) }
    }

    /// Notes that a rank was informed of a lost rank.
    pub(super) fn reported(&mut self, id: NodeId, lost: (Millis, NodeId)) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.reported = Some(lost);
        }
    }

    /// Schedules the next check of a world.
    pub(super) fn check_later(&mut self, world: String, at: Millis) {
        self.unsettled.insert((at, world));
    }

    /// Schedules the check of a world that has changed, if it has lost ranks.
    fn unsettle(&mut self, world: &str) {
        if self.orders.worlds.get(world).is_some_and(|world| !world.gone.is_empty()) {
            self.unsettled.insert((Millis(0), world.to_owned()));
        }
    }

    /// Checks the table, see [`super::Cluster::check_invariants`].
    pub(super) fn check(&self) -> Result<(), String> {
        let Orders { silent_since, broken_after, .. } = self.orders;
        let mut orders = Orders { silent_since, broken_after, ..Orders::default() };
        for node in self.nodes.values() {
            orders.list(node);
            if self.by_name.get(&node.name) != Some(&node.id) {
                return Err(format!("{} is not found under its name {}", node.id, node.name));
            }
        }
        if orders != self.orders || self.by_name.len() != self.nodes.len() {
            return Err(format!("{orders:?} follows from the nodes, and kept is {:?}", self.orders));
        }
        Ok(())
    }
}

impl Orders {
    fn list(&mut self, node: &Node) {
        let (id, is_up) = (node.id, node.is_up());
        if node.link().is_some() {
            self.connected.insert(id);
        }
        if let Some(at) = node.contact.unlinked.filter(|_| is_up) {
            if node.link().is_none() {
                self.away.insert((at, id));
            }
            if Some(at) > self.broken_after {
                self.broken.insert((at, id));
            }
        }
        if is_up {
            self.list_contact(node);
            self.leaving.extend(node.leaves_world().map(|at| (at, id)));
            self.counts.add(node);
        } else {
            self.down.insert((node.contact.last, id));
        }
        if !node.world.is_empty() {
            let world = self.worlds.entry(node.world.clone()).or_default();
            world.nodes.insert(id);
            if !is_up {
                world.gone.insert((node.contact.left, id));
            }
        }
    }

    fn unlist(&mut self, node: &Node) {
        let (id, is_up) = (node.id, node.is_up());
        self.connected.remove(&id);
        if let Some(at) = node.contact.unlinked {
            self.away.remove(&(at, id));
            self.broken.remove(&(at, id));
        }
        if is_up {
            self.unlist_contact(node);
            if let Some(at) = node.leaves_world() {
                self.leaving.remove(&(at, id));
            }
            self.counts.subtract(node);
        } else {
            self.down.remove(&(node.contact.last, id));
        }
        if let Some(world) = self.worlds.get_mut(&node.world) {
            world.nodes.remove(&id);
            world.gone.remove(&(node.contact.left, id));
            if world.nodes.is_empty() {
                self.worlds.remove(&node.world);
            }
        }
    }

    fn list_contact(&mut self, node: &Node) {
        let is_silent = Some(node.contact.last) <= self.silent_since;
        let nodes = if is_silent { &mut self.silent } else { &mut self.last_contact };
        nodes.insert((node.contact.last, node.id));
    }

    fn unlist_contact(&mut self, node: &Node) {
        if !self.last_contact.remove(&(node.contact.last, node.id)) {
            self.silent.remove(&(node.contact.last, node.id));
        }
    }
}

impl UpCounts {
    /// Counts a node that is up.
    fn add(&mut self, node: &Node) {
        self.nodes += 1;
        self.draining += usize::from(node.is_drained());
        self.devices += node.devices.len();
        for device in node.devices.iter() {
            *self.by_kind.entry(device.kind).or_default() += 1;
            if node.takes_sessions() {
                *self.offered.entry(device.kind).or_default() += 1;
            }
        }
    }

    /// Reverts [`UpCounts::add`].
    fn subtract(&mut self, node: &Node) {
        self.nodes -= 1;
        self.draining -= usize::from(node.is_drained());
        self.devices -= node.devices.len();
        for device in node.devices.iter() {
            one_less(&mut self.by_kind, device.kind);
            if node.takes_sessions() {
                one_less(&mut self.offered, device.kind);
            }
        }
    }
}

/// Decrements the count of a kind.
fn one_less(counts: &mut BTreeMap<DeviceKind, usize>, kind: DeviceKind) {
    let Some(count) = counts.get_mut(&kind) else { return };
    *count -= 1;
    if *count == 0 {
        counts.remove(&kind);
    }
}
