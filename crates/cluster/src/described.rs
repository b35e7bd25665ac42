//! Converts nodes to the scheduler's description.

use super::node::Node;
use accord_scheduler::class::DeviceClass;
use accord_scheduler::model::model_of;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_types::DeviceType;
use accord_types::incarnation::boot_of;

/// Returns the description of a node, from its agent's report.
pub(super) fn description(node: &Node) -> NodeDescription {
    let devices = node.devices.iter().map(|info| {
        let (kind, model) = (info.kind.device_type(), model_of(&info.name));
        // The first process on a device also uses the driver's share of memory.
        let (memory, context) = (info.memory.saturating_sub(info.context), info.context);
        let memory = if kind == DeviceType::Cpu { about(memory) } else { memory };
        let class = DeviceClass { kind, model, memory, context, compute: info.compute };
        DeviceDescription { ordinal: info.id.ordinal, class }
    });
    let of_cpus = node.devices.iter().filter(|info| info.kind.device_type() == DeviceType::Cpu);
    let of_cpus = of_cpus.fold(0, |sum: u64, info| sum.saturating_add(info.memory));
    let in_all = node.hardware.numa.iter().fold(0, |sum: u64, numa| sum.saturating_add(numa.memory));
    NodeDescription {
        id: node.id,
        name: node.name.clone(),
        // Another start of the agent in the same boot keeps the jobs' devices, because programs may drive the devices
        // themselves.
        incarnation: boot_of(node.incarnation),
        devices: devices.collect(),
        cores: u64::from(node.hardware.processors) * 1_000,
        // The memory that an agent offers as CPU devices exists, even if hwloc reports less.
        host_memory: in_all.max(of_cpus),
        labels: node.labels.by_name().clone(),
    }
}

/// Returns the memory of a class of CPU devices: the offered bytes rounded to their upper five bits. An agent offers a
/// part of the memory that is free at its start, so exact numbers would make almost every node a class of its own.
fn about(bytes: u64) -> u64 {
    const BITS: u32 = 5;
    let rest = (u64::BITS - bytes.leading_zeros()).saturating_sub(BITS);
    bytes >> rest << rest
}

#[cfg(test)]
mod tests {
    use super::about;

    #[test]
    fn nodes_that_are_alike_have_cpu_devices_of_one_class() {
        const MIB: u64 = 1 << 20;
        assert_eq!([about(61_000 * MIB), about(60_500 * MIB)], [58 << 30; 2]);
        assert_eq!([0, 15, 64 * MIB, 1 << 40].map(about), [0, 15, 64 * MIB, 1 << 40], "even numbers stay");
        assert_eq!(about(u64::MAX), 31 << 59);
    }
}
