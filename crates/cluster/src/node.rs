//! A machine with an agent.

use super::input::{LinkId, Registration};
use super::time::Millis;
use accord_types::{DeviceInfo, Machine, NodeId};
use std::sync::Arc;

/// Time within which a rank's agent must reconnect; then the agent and its world count as lost. The connection to a
/// silent machine ends after 2 s, and programs must learn of the loss within 3 s.
const BACK_MAX_MS: u64 = 800;

/// Whether a node's devices can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeState {
    /// The agent is alive. `link` is `None` between two connections.
    Up { link: Option<LinkId> },
    /// The agent was silent for too long.
    Lost,
    /// The agent has left.
    Gone,
}

/// Returns the device of a node's devices with this ordinal.
pub(super) fn device_of(devices: &[DeviceInfo], ordinal: u32) -> Option<&DeviceInfo> {
    let at = devices.binary_search_by_key(&ordinal, |device| device.id.ordinal).ok()?;
    devices.get(at)
}

/// Times of the connections of a node's agent, which are not kept over a restart of the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContactTimes {
    /// Time of the last message.
    pub last: Millis,
    /// Time at which the connection last ended.
    pub unlinked: Option<Millis>,
    /// Time of this incarnation's first registration.
    pub(super) began: Millis,
    /// Time of the last registration.
    pub(super) linked: Millis,
    /// Time at which the node was last lost or left.
    pub(super) left: Millis,
}

impl ContactTimes {
    /// Returns the times of an agent that registers now.
    pub(super) fn at(now: Millis) -> Self {
        Self { last: now, unlinked: None, began: now, linked: now, left: Millis(0) }
    }
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The node's number, which never changes.
    pub id: NodeId,
    /// The node's name, which never changes.
    pub name: String,
    /// State of its agent.
    pub state: NodeState,
    /// The incarnation of its agent.
    pub incarnation: u64,
    /// `host:port` of its agent.
    pub address: String,
    /// Its devices by ordinal.
    pub devices: Arc<Vec<DeviceInfo>>,
    /// The machine.
    pub machine: Machine,
    /// Times of its agent's connections.
    pub contact: ContactTimes,
    /// Whether an administrator has taken it out of new sessions.
    pub draining: bool,
    /// Whether its agent stops soon: new sessions leave it out until another agent has registered.
    pub leaving: bool,
    /// The MPI world that its agent is a rank of; empty: none.
    pub world: String,
    /// The loss of a rank that the agent was informed of on this connection.
    pub(super) reported: Option<(Millis, NodeId)>,
}

impl Node {
    pub(super) fn new(id: NodeId, link: LinkId, now: Millis, registration: Registration) -> Self {
        let mut node = Self {
            id,
            name: registration.node_name.clone(),
            state: NodeState::Gone,
            incarnation: 0,
            address: String::new(),
            devices: Arc::default(),
            machine: Machine::default(),
            contact: ContactTimes::at(now),
            draining: registration.draining,
            leaving: false,
            world: String::new(),
            reported: None,
        };
        node.renew(link, now, registration);
        node
    }

    /// Returns the time at which the node counts as lost, if it is a rank without a connection.
    pub(super) fn leaves_world(&self) -> Option<Millis> {
        let is_away = !self.world.is_empty() && self.link().is_none();
        self.contact.unlinked.filter(|_| is_away).map(|at| at.plus(BACK_MAX_MS))
    }

    /// Updates the node from a registration.
    pub(super) fn renew(&mut self, link: LinkId, now: Millis, registration: Registration) {
        self.state = NodeState::Up { link: Some(link) };
        if self.incarnation != registration.incarnation {
            self.contact.began = now;
            self.leaving = false;
        }
        self.contact.linked = now;
        self.reported = None;
        self.incarnation = registration.incarnation;
        self.address = registration.address;
        self.machine = registration.machine;
        self.contact.last = now;
        self.world = registration.world;
        let mut devices = registration.devices;
        for device in &mut devices {
            device.id.node = self.id;
            device.node_name.clone_from(&self.name);
        }
        self.devices = Arc::new(devices);
    }

    /// Returns the device with this ordinal. Ordinals are assigned by the agent and may have gaps.
    pub fn device(&self, ordinal: u32) -> Option<&DeviceInfo> {
        device_of(&self.devices, ordinal)
    }

    /// Whether the agent is alive.
    pub fn is_up(&self) -> bool {
        matches!(self.state, NodeState::Up { .. })
    }

    /// Whether new sessions leave it out, by its administrator's word or its agent's.
    pub fn is_drained(&self) -> bool {
        self.draining || self.leaving
    }

    /// Whether new sessions may use it. Without a connection its agent has most likely ended; if not it is back at once.
    pub fn takes_sessions(&self) -> bool {
        self.link().is_some() && !self.is_drained()
    }

    /// Returns the agent's connection, if it is alive and connected.
    pub fn link(&self) -> Option<LinkId> {
        match self.state {
            NodeState::Up { link } => link,
            NodeState::Lost | NodeState::Gone => None,
        }
    }
}
