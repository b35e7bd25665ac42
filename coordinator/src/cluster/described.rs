//! Nodes as the scheduler sees them.

use super::node::Node;
use accord_scheduler::class::DeviceClass;
use accord_scheduler::model::model_of;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_types::DeviceType;
use accord_types::incarnation::boot_of;

/// Describes a node by what its agent reports.
pub(super) fn description(node: &Node) -> NodeDescription {
    let devices = node.devices.iter().map(|info| {
        let (kind, model) = (info.kind.device_type(), model_of(&info.name));
        // The first process that uses it takes the driver's part, too.
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
        // Another start of the agent on the same boot goes on with what jobs hold: programs may drive the devices themselves.
        incarnation: boot_of(node.incarnation),
        devices: devices.collect(),
        cores: u64::from(node.hardware.processors) * 1_000,
        // What an agent offers as CPU devices is there, also where hwloc knows less.
        host_memory: in_all.max(of_cpus),
        labels: node.labels.by_name().clone(),
    }
}

/// Returns the memory that CPU devices of a class have: of the bytes that an agent offers only the first five bits count. It offers a part of what is
/// free when it starts, and with a class for each number of bytes there would soon be as many classes as nodes.
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
