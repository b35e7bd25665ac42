//! Nodes as the scheduler sees them.

use super::node::Node;
use accord_scheduler::Request;
use accord_scheduler::class::DeviceClass;
use accord_scheduler::model::model_of;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_types::incarnation::boot_of;
use accord_types::{Error, ErrorCode};
use std::collections::BTreeMap;

/// Describes a node by what its agent reports. Agents report neither labels nor compute capability.
pub(super) fn description(node: &Node) -> NodeDescription {
    let devices = node.devices.iter().map(|info| {
        let (kind, model) = (info.kind.device_type(), model_of(&info.name));
        let class = DeviceClass { kind, model, memory: info.memory, compute: (0, 0) };
        DeviceDescription { ordinal: info.id.ordinal, class }
    });
    NodeDescription {
        id: node.id,
        name: node.name.clone(),
        // Another start of the agent on the same boot goes on with what jobs hold: programs may drive the devices themselves.
        incarnation: boot_of(node.incarnation),
        devices: devices.collect(),
        cores: u64::from(node.hardware.processors) * 1_000,
        host_memory: node.hardware.numa.iter().map(|numa| numa.memory).sum(),
        labels: BTreeMap::new(),
    }
}

/// Checks that a request asks for nothing that [`description`] leaves out: it would wait without end.
///
/// # Errors
/// Returns `acc_error_device_unavailable` with the word.
pub(crate) fn check_reported(request: &Request) -> Result<(), Error> {
    let mut parts = request.alternatives.iter().flat_map(|alternative| &alternative.parts);
    let word = if !request.labels.is_empty() {
        "label"
    } else if parts.any(|part| part.class.compute_at_least != (0, 0)) {
        "cc"
    } else {
        return Ok(());
    };
    let cause = format!("{request} is asked for, and agents don't report what {word} asks for");
    let remedy = format!("leave {word} out; on=NODE names nodes, cpu/MODEL and nvidia/MODEL models");
    Err(Error::new(ErrorCode::DeviceUnavailable, cause).remedy(remedy))
}
