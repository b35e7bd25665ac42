//! A model of a node agent: what it keeps, and how it answers the coordinator.

use super::{KEY, USER};
use accord_coordinator::cluster::{AgentOrder, LinkId, Registration};
use accord_types::incarnation::incarnation;
use accord_types::{DeviceId, DeviceInfo, DeviceKind, Hardware, NodeId, SessionGrant, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// One agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) name: String,
    pub(super) devices: u32,
    /// Its process runs.
    pub(super) alive: bool,
    /// Its network is cut: nothing gets through until it is healed.
    pub(super) cut: bool,
    /// Until then nothing that it says gets anywhere, and nobody notices.
    pub(super) silent_until: u64,
    /// Which start of its process, in the boots of its machine.
    pub(super) incarnation: u64,
    /// Its connection, as far as it knows.
    pub(super) link: Option<LinkId>,
    pub(super) node: Option<NodeId>,
    pub(super) grants: BTreeMap<SessionId, SessionGrant>,
    pub(super) executors: BTreeSet<SessionId>,
    pub(super) closed: BTreeSet<SessionId>,
    /// Of these it had an executor when it was told to end them.
    pub(super) ended: BTreeSet<SessionId>,
}

impl Agent {
    pub(super) fn new(index: usize, devices: u32) -> Self {
        Self {
            name: format!("h{index}"),
            devices,
            alive: false,
            cut: false,
            silent_until: 0,
            incarnation: 0,
            link: None,
            node: None,
            grants: BTreeMap::new(),
            executors: BTreeSet::new(),
            closed: BTreeSet::new(),
            ended: BTreeSet::new(),
        }
    }

    /// A new process knows nothing of the one before.
    pub(super) fn start(&mut self, boot: Option<u64>) {
        self.alive = true;
        self.incarnation = match boot {
            // A new boot's names are in no order.
            Some(boot) => incarnation(&boot.to_string(), 1),
            None => self.incarnation + 1,
        };
        self.link = None;
        self.node = None;
        self.grants.clear();
        self.executors.clear();
        self.closed.clear();
    }

    /// Its executors die with it.
    pub(super) fn die(&mut self) {
        self.alive = false;
        self.link = None;
        self.executors.clear();
    }

    pub(super) fn registration(&self) -> Registration {
        let device = |ordinal| DeviceInfo {
            id: DeviceId { node: NodeId(0), ordinal },
            node_name: String::new(),
            kind: DeviceKind::CPU,
            name: String::new(),
            vendor: String::new(),
            driver: String::new(),
            uuid: String::new(),
            memory: 1,
            units: 1,
            numa: None,
            cpus: Vec::new(),
        };
        Registration {
            node_name: self.name.clone(),
            incarnation: self.incarnation,
            address: "a:1".into(),
            devices: (0..self.devices).map(device).collect(),
            hardware: Hardware::default(),
            previous: self.node,
            sessions: self.executors.iter().map(|session| self.grant(*session)).collect(),
            job: String::new(),
        }
    }

    pub(super) fn obey(&mut self, order: AgentOrder) {
        match order {
            // What an earlier coordinator granted stays.
            AgentOrder::Registered(node) => self.node = Some(node),
            AgentOrder::SessionOpened(grant) => {
                self.grants.entry(grant.session).or_insert(grant);
            }
            AgentOrder::SessionClosed(session) => {
                self.closed.insert(session);
                self.grants.remove(&session);
                if self.executors.remove(&session) {
                    self.ended.insert(session);
                }
            }
            AgentOrder::NodeLost(..) | AgentOrder::Drain(_) => {}
        }
    }

    /// A program connects. Whether there is a new executor now.
    pub(super) fn connect(&mut self, session: SessionId) -> bool {
        self.alive && self.node.is_some() && !self.closed.contains(&session) && self.executors.insert(session)
    }

    pub(super) fn grant(&self, session: SessionId) -> SessionGrant {
        self.grants.get(&session).cloned().unwrap_or_else(|| SessionGrant {
            session,
            key: KEY,
            user: USER.into(),
            ends_in_ms: None,
            program: String::new(),
            node_name: String::new(),
            pid: 0,
            rank: None,
            ordinals: Vec::new(),
            memory_quota: 0,
            stream_quota: 0,
            plain_tcp: false,
            opened_unix_ms: 0,
        })
    }
}
