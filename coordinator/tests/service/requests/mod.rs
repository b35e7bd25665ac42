//! Requests of test programs and agents to a coordinator.
// Each test binary uses a part of it.
#![allow(dead_code)]

#[path = "../../../../crates/cluster/tests/core/requests.rs"]
mod of_programs;

use accord_proto::{VERSION, v1};
pub(crate) use of_programs::request;

/// Returns the registration of an agent with two devices.
pub(crate) fn register(name: &str) -> v1::Register {
    let device = |ordinal| v1::Device {
        id: Some(v1::DeviceRef { node: 0, ordinal }),
        kind: v1::DeviceKind::Cpu.into(),
        name: "cpu".into(),
        memory: 1 << 20,
        units: 1,
        ..Default::default()
    };
    v1::Register {
        version: VERSION,
        node_name: name.into(),
        incarnation: 1,
        address: "0.0.0.0:77".into(),
        devices: [0, 1].map(device).to_vec(),
        ..Default::default()
    }
}
