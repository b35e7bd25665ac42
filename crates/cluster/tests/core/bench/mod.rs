//! The core with a simulated clock, and the messages of agents and programs.

use accord_cluster::{AgentOrder, Cluster, Effect, Input, Limits, Millis, Registration};
use accord_types::{DeviceId, DeviceInfo, DeviceKind, NodeId, SessionGrant, SessionId, SessionKey};
use std::collections::BTreeMap;

pub(crate) const KEY: SessionKey = SessionKey([7; SessionKey::LEN]);
pub(crate) const ALICE: &str = "alice";

pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    pub(crate) now: u64,
    /// The number of the last test order of each device, by ordinal.
    pub(crate) test_orders: BTreeMap<u32, u64>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::of(Cluster::new(Limits::default(), 1_000))
    }

    /// Creates a bench for this cluster, at time 0.
    pub(crate) fn of(cluster: Cluster) -> Self {
        Self { cluster, now: 0, test_orders: BTreeMap::new() }
    }

    pub(crate) fn give(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.cluster.handle(Millis(self.now), input, &mut effects);
        self.cluster.check_invariants().unwrap();
        for effect in &effects {
            if let Effect::ToAgent(_, AgentOrder::TestDevice(ordinal, number)) = effect {
                self.test_orders.insert(*ordinal, *number);
            }
        }
        effects
    }
}

pub(crate) fn device(ordinal: u32) -> DeviceInfo {
    DeviceInfo {
        id: DeviceId { node: NodeId(99), ordinal },
        node_name: "not yet known".into(),
        kind: DeviceKind::CPU,
        name: "d".into(),
        vendor: "v".into(),
        driver: "1".into(),
        uuid: String::new(),
        memory: 1,
        units: 1,
        compute: (0, 0),
        context: 0,
        attributes: Vec::new(),
        numa: None,
        cpus: Vec::new(),
    }
}

/// Returns the registration of an agent with two devices.
pub(crate) fn registration(name: &str) -> Registration {
    Registration::new(name, format!("{name}:1"), 10, [0, 1].map(device).to_vec())
}

/// Returns the grant by which such an agent reports a session of an earlier coordinator.
pub(crate) fn grant(session: SessionId, key: SessionKey, user: &str) -> SessionGrant {
    SessionGrant {
        session,
        key,
        user: user.into(),
        ends_in_ms: None,
        program: "app".into(),
        node_name: "h1".into(),
        pid: 1,
        rank: None,
        ordinals: vec![0, 1],
        memory_quota: 5,
        stream_quota: 3,
        plain_tcp: false,
        opened_unix_ms: 5,
        job: None,
    }
}
