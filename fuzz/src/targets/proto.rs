//! Messages of the control plane.

use super::{first, jobs};
use crate::{Memory, Target};
use accord_proto::convert::{device_kind, device_kind_number, order_policy};
use accord_proto::v1::{self, agent_message, coordinator_message};
use accord_types::{
    DeviceId, DeviceInfo, DeviceKind, Hardware, NearDevice, NearKind, NodeFigures, NodeId, NumaNode, PathTimes, Rank,
    SessionGrant, SessionId, SessionKey,
};
use prost::Message;

/// Messages as bytes, and their conversion to Accord's types.
pub(super) const MESSAGES: Target = Target {
    name: "messages",
    run: messages,
    seeds,
    words: &["accord-token"],
    input_max: 4 << 10,
    memory: Memory { fixed: 16 << 10, per_byte: 256 },
    inputs: 60_000,
};

/// Kinds from here on are messages about jobs.
const JOBS: u8 = 128;

fn messages(mut bytes: &[u8]) {
    let kind = first(&mut bytes);
    if kind >= JOBS {
        return jobs::messages(kind - JOBS, bytes);
    }
    match kind % 10 {
        0 => round::<v1::AgentMessage>(bytes),
        1 => round::<v1::CoordinatorMessage>(bytes),
        2 => round::<v1::ClusterView>(bytes),
        3 => round::<v1::ExecutorStart>(bytes),
        4 => round::<v1::Gpus>(bytes),
        5 => {
            if let Ok(device) = v1::Device::decode(bytes)
                && let Ok(info) = DeviceInfo::try_from(device)
            {
                assert_eq!(DeviceInfo::try_from(v1::Device::from(info.clone())), Ok(info));
            }
        }
        6 => {
            if let Ok(hardware) = v1::Hardware::decode(bytes) {
                let hardware = Hardware::from(hardware);
                assert_eq!(Hardware::from(v1::Hardware::from(hardware.clone())), hardware);
            }
        }
        8 => {
            if let Ok(figures) = v1::NodeFigures::decode(bytes) {
                let figures = NodeFigures::from(figures);
                assert_eq!(NodeFigures::from(v1::NodeFigures::from(figures.clone())), figures);
            }
        }
        9 => {
            if let Ok(viewer) = v1::Viewer::decode(bytes) {
                if let Ok(Some(kind)) = device_kind(viewer.kind) {
                    assert_eq!(device_kind_number(kind), viewer.kind);
                }
                if let Ok(order) = order_policy(viewer.order) {
                    assert_eq!(order_policy(v1::OrderPolicy::from(order).into()), Ok(order));
                }
                if let Some(rank) = viewer.rank {
                    assert_eq!(v1::Rank::from(Rank::from(rank)), rank);
                }
            }
        }
        _ => {
            if let Ok(grant) = v1::SessionGrant::decode(bytes)
                && let Ok(grant) = SessionGrant::try_from(grant)
            {
                assert_eq!(SessionGrant::try_from(v1::SessionGrant::from(grant.clone())), Ok(grant));
            }
        }
    }
}

fn round<M: Message + Default + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(message) = M::decode(bytes) {
        let again = message.encode_to_vec();
        // NaN does not equal itself, so bytes are compared.
        assert_eq!(M::decode(&again[..]).unwrap().encode_to_vec(), again);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let info = DeviceInfo {
        id: DeviceId { node: NodeId(3), ordinal: 1 },
        node_name: "h3".into(),
        kind: DeviceKind::CPU,
        name: "CPU".into(),
        vendor: "AMD".into(),
        driver: "1".into(),
        uuid: "GPU-0".into(),
        memory: 1 << 30,
        units: 4,
        compute: (0, 0),
        context: 1 << 29,
        attributes: Vec::new(),
        numa: Some(0),
        cpus: vec![0, 1, 2, 3],
    };
    let hardware = Hardware {
        cores: 4,
        processors: 8,
        numa: vec![NumaNode { index: 0, cpus: vec![0, 1], memory: 1 << 34 }],
        devices: vec![NearDevice {
            kind: NearKind::Network,
            name: "eth0".into(),
            pci: "0000:00".into(),
            numa: Some(0),
        }],
    };
    let grant = SessionGrant {
        session: SessionId(7),
        key: SessionKey(std::array::from_fn(|at| (at * at * 7 + 1) as u8)),
        user: "alice".into(),
        ends_in_ms: Some(1),
        program: "app".into(),
        node_name: "h1".into(),
        pid: 1,
        rank: None,
        ordinals: vec![0, 1],
        memory_quota: 1,
        stream_quota: 32,
        plain_tcp: true,
        opened_unix_ms: 5,
        job: None,
    };
    let device = v1::Device::from(info);
    let used = v1::DeviceUse {
        session: 7,
        ordinal: 1,
        busy_ms: Some(9),
        bytes_in: 1 << 40,
        bytes_out: 2,
        held: 3,
        fault: 1 << 16 | 214,
    };
    let view = v1::ClusterView {
        nodes: vec![v1::Node { devices: vec![device.clone()], ..v1::Node::default() }],
        ..v1::ClusterView::default()
    };
    let (hardware, grant) = (v1::Hardware::from(hardware), v1::SessionGrant::from(grant));
    let times = PathTimes::new(900, 9_000, 1 << 30);
    let figures = v1::NodeFigures::from(NodeFigures { host_copy: Some(times), ..NodeFigures::default() });
    let rank = v1::Rank { rank: 1, size: 4, local_rank: 1, local_size: 2, job: 9 };
    let viewer = v1::Viewer { node_name: "h1".into(), order: 1, kind: 1, rank: Some(rank) };
    let register = v1::Register {
        node_name: "h3".into(),
        address: "0.0.0.0:7700".into(),
        devices: vec![device.clone()],
        hardware: Some(hardware.clone()),
        sessions: vec![grant.clone()],
        ..v1::Register::default()
    };
    let start = v1::ExecutorStart { devices: vec![device.clone()], key: vec![7; 32], ..v1::ExecutorStart::default() };
    let path = v1::MeasurePath { measurement: 5, to: 2, address: "h2:7700".into(), key: vec![7; 32] };
    let agent = |body| v1::AgentMessage { body: Some(body) }.encode_to_vec();
    let coordinator = |body| v1::CoordinatorMessage { body: Some(body) }.encode_to_vec();
    let seed = |kind: u8, bytes: Vec<u8>| [&[kind], &bytes[..]].concat();
    let mut seeds = vec![
        seed(2, view.encode_to_vec()),
        seed(5, device.encode_to_vec()),
        seed(6, hardware.encode_to_vec()),
        seed(7, grant.encode_to_vec()),
        seed(0, agent(agent_message::Body::Register(register))),
        seed(0, agent(agent_message::Body::Heartbeat(v1::Heartbeat { sessions: vec![7, 9] }))),
        seed(0, agent(agent_message::Body::UseReport(v1::UseReport { uses: vec![used] }))),
        seed(0, agent(agent_message::Body::UseEnded(v1::UseEnded { sessions: vec![7] }))),
        seed(1, coordinator(coordinator_message::Body::MeasurePath(path))),
        seed(3, start.encode_to_vec()),
        seed(4, v1::Gpus { devices: vec![device], note: "slow".into(), failed: false }.encode_to_vec()),
        seed(8, figures.encode_to_vec()),
        seed(9, viewer.encode_to_vec()),
    ];
    seeds.extend(jobs::seeds().into_iter().map(|(kind, bytes)| seed(JOBS + kind, bytes)));
    seeds
}
