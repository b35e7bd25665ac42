//! One machine with an agent.

use super::input::{KernelLimits, LinkId, Registration};
use super::time::Millis;
use accord_types::node_labels::NodeLabels;
use accord_types::{DeviceInfo, Hardware, NodeId};

/// An agent that is a rank and does not connect again within this is gone, and the world with it. The connection to a machine that is silent ends
/// after 2 s; programs are to know within 3 s.
const BACK_MAX_MS: u64 = 800;

/// Whether a node's devices can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeState {
    /// Its agent lives. `link` is absent between a broken connection and the next one.
    Up { link: Option<LinkId> },
    /// Its agent was not heard for too long.
    Lost,
    /// Its agent said goodbye.
    Gone,
}

/// One node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its number, for good.
    pub id: NodeId,
    /// Its name, for good.
    pub name: String,
    /// State of its agent.
    pub state: NodeState,
    /// The start of its agent.
    pub incarnation: u64,
    /// `host:port` of its agent.
    pub address: String,
    /// Its devices by ordinal.
    pub devices: Vec<DeviceInfo>,
    /// Its machine.
    pub hardware: Hardware,
    /// Its labels, as its agent was started with them.
    pub labels: NodeLabels,
    /// The limits of sessions that its kernel enforces.
    pub kernel_limits: KernelLimits,
    /// Time of the last message of its agent.
    pub heard: Millis,
    /// Whether an administrator has taken it out of new sessions.
    pub draining: bool,
    /// Whether its agent stops soon: new sessions leave it out until another agent has registered.
    pub leaving: bool,
    /// The MPI world that its agent is a rank of; empty: none.
    pub world: String,
    /// Time when its agent's connection broke last.
    pub unlinked: Option<Millis>,
    /// Time when this start of its agent came first.
    pub(super) began: Millis,
    /// Time when it came last.
    pub(super) linked: Millis,
    /// Time when it was lost or left last.
    pub(super) left: Millis,
    /// The loss in its world that it was told of on this connection.
    pub(super) told: Option<(Millis, NodeId)>,
}

impl Node {
    pub(super) fn new(id: NodeId, link: LinkId, now: Millis, registration: Registration) -> Self {
        let mut node = Self {
            id,
            name: registration.node_name.clone(),
            state: NodeState::Gone,
            incarnation: 0,
            address: String::new(),
            devices: Vec::new(),
            hardware: Hardware::default(),
            labels: NodeLabels::default(),
            kernel_limits: KernelLimits::default(),
            heard: now,
            draining: registration.draining,
            leaving: false,
            world: String::new(),
            unlinked: None,
            began: now,
            linked: now,
            left: Millis(0),
            told: None,
        };
        node.renew(link, now, registration);
        node
    }

    /// Returns when it counts as gone, if it is a rank whose connection has ended.
    pub(super) fn leaves_world(&self) -> Option<Millis> {
        let is_away = !self.world.is_empty() && self.link().is_none();
        self.unlinked.filter(|_| is_away).map(|at| at.plus(BACK_MAX_MS))
    }

    /// Takes over what a registration says.
    pub(super) fn renew(&mut self, link: LinkId, now: Millis, registration: Registration) {
        self.state = NodeState::Up { link: Some(link) };
        if self.incarnation != registration.incarnation {
            self.began = now;
            self.leaving = false;
        }
        self.linked = now;
        self.told = None;
        self.incarnation = registration.incarnation;
        self.address = registration.address;
        self.hardware = registration.hardware;
        self.labels = registration.labels;
        self.kernel_limits = registration.kernel_limits;
        self.heard = now;
        self.world = registration.world;
        self.devices = registration.devices;
        for device in &mut self.devices {
            device.id.node = self.id;
            device.node_name.clone_from(&self.name);
        }
    }

    /// Its device with this ordinal. Ordinals are the agent's own and may have gaps.
    pub fn device(&self, ordinal: u32) -> Option<&DeviceInfo> {
        let at = self.devices.binary_search_by_key(&ordinal, |device| device.id.ordinal).ok()?;
        self.devices.get(at)
    }

    /// Whether its agent lives.
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

    /// Its agent's connection, if it lives and is connected.
    pub fn link(&self) -> Option<LinkId> {
        match self.state {
            NodeState::Up { link } => link,
            NodeState::Lost | NodeState::Gone => None,
        }
    }
}
