//! What fake programs and agents send to a coordinator.

use accord_proto::v1;
use accord_types::{OrderPolicy, SessionRequest};

/// Returns a request for these devices by a program of a node.
pub(crate) fn session_request(node_name: impl Into<String>, devices: impl Into<String>) -> SessionRequest {
    SessionRequest {
        node_name: node_name.into(),
        pid: std::process::id(),
        program: "bench".to_owned(),
        rank: None,
        kind: None,
        order: OrderPolicy::Local,
        devices: Some(devices.into()),
        job: None,
    }
}

/// Returns a CPU device that an agent registers, with its bytes of memory and its cores.
pub(crate) fn cpu_device(node_name: &str, ordinal: u32, memory: u64, units: u32) -> v1::Device {
    v1::Device {
        id: Some(v1::DeviceRef { node: 0, ordinal }),
        node_name: node_name.to_owned(),
        kind: v1::DeviceKind::Cpu.into(),
        name: "cpu".to_owned(),
        vendor: "bench".to_owned(),
        driver: "1".to_owned(),
        memory,
        units,
        ..v1::Device::default()
    }
}
