//! Nodes as the scheduler sees them.

use super::node::Node;
use accord_scheduler::class::DeviceClass;
use accord_scheduler::model::model_of;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_types::incarnation::boot_of;

/// Describes a node by what its agent reports.
pub(super) fn description(node: &Node) -> NodeDescription {
    let devices = node.devices.iter().map(|info| {
        let (kind, model) = (info.kind.device_type(), model_of(&info.name));
        let class = DeviceClass { kind, model, memory: info.memory, compute: info.compute };
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
        labels: node.labels.by_name().clone(),
    }
}
