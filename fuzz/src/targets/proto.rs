//! Messages of the control plane.

use super::first;
use crate::{Memory, Target};
use accord_proto::v1;
use accord_types::{
    DeviceId, DeviceInfo, DeviceKind, Hardware, NearDevice, NearKind, NodeId, NumaNode, SessionGrant, SessionId,
    SessionKey,
};
use prost::Message;

/// Messages as bytes, and what Accord makes of them.
pub(super) const MESSAGES: Target = Target {
    name: "messages",
    run: messages,
    seeds,
    words: &["accord-token"],
    input_max: 4 << 10,
    memory: Memory { fixed: 16 << 10, per_byte: 256 },
    inputs: 60_000,
};

fn messages(mut bytes: &[u8]) {
    match first(&mut bytes) % 8 {
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
        // Numbers that are none don't equal themselves: bytes do.
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
    };
    let device = v1::Device::from(info);
    let view = v1::ClusterView {
        nodes: vec![v1::Node { devices: vec![device.clone()], ..v1::Node::default() }],
        ..v1::ClusterView::default()
    };
    let seed = |kind: u8, bytes: Vec<u8>| [&[kind], &bytes[..]].concat();
    vec![
        seed(2, view.encode_to_vec()),
        seed(5, device.encode_to_vec()),
        seed(6, v1::Hardware::from(hardware).encode_to_vec()),
        seed(7, v1::SessionGrant::from(grant).encode_to_vec()),
        seed(0, Vec::new()),
        seed(1, Vec::new()),
    ]
}
