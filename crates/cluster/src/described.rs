//! Converts nodes to the scheduler's description.

use super::node::Node;
use accord_scheduler::class::DeviceClass;
use accord_scheduler::model::model_of;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_types::DeviceType;
use accord_types::incarnation::boot_of;

/// Returns the description of a node, from its agent's report.
pub(super) fn description(node: &Node) -> NodeDescription {
    let host_memory = host_memory(node);
    let devices = node.devices.iter().map(|info| {
        let (kind, model) = (info.kind.device_type(), model_of(&info.name));
        // The first process on a device also uses the driver's share of memory.
        let (memory, context) = (info.memory.saturating_sub(info.context), info.context);
        let memory = if kind == DeviceType::Cpu { about(memory.min(host_memory)) } else { memory };
        let class = DeviceClass { kind, model, memory, context, compute: info.compute };
        DeviceDescription { ordinal: info.id.ordinal, class }
    });
    NodeDescription {
        id: node.id,
        name: node.name.clone(),
        // Another start of the agent in the same boot keeps the jobs' devices, because programs may drive the devices
        // themselves.
        incarnation: boot_of(node.incarnation),
        devices: devices.collect(),
        cores: u64::from(node.machine.hardware.processors) * 1_000,
        host_memory,
        labels: node.machine.labels.by_name().clone(),
    }
}

/// Returns the memory of a node, which its CPU devices share. Each of them may be offered with as much as an
/// administrator likes, so the sum counts only if hwloc reports no memory.
fn host_memory(node: &Node) -> u64 {
    let in_all = node.machine.hardware.numa.iter().fold(0, |sum: u64, numa| sum.saturating_add(numa.memory));
    if in_all > 0 {
        return in_all;
    }
    let of_cpus = node.devices.iter().filter(|info| info.kind.device_type() == DeviceType::Cpu);
    of_cpus.fold(0, |sum: u64, info| sum.saturating_add(info.memory))
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
    use super::*;
    use crate::input::{LinkId, Registration};
    use crate::time::Millis;
    use accord_types::{DeviceId, DeviceInfo, DeviceKind, NodeId, NumaNode};

    const GIB: u64 = 1 << 30;

    fn cpu(ordinal: u32, memory: u64) -> DeviceInfo {
        DeviceInfo {
            id: DeviceId { node: NodeId(0), ordinal },
            node_name: String::new(),
            kind: DeviceKind::CPU,
            name: "cpu".to_owned(),
            vendor: String::new(),
            driver: String::new(),
            uuid: String::new(),
            memory,
            units: 1,
            compute: (0, 0),
            context: 0,
            attributes: Vec::new(),
            numa: None,
            cpus: Vec::new(),
        }
    }

    #[test]
    fn cpu_devices_share_the_memory_that_their_node_has() {
        let memory = |offered: [u64; 2], installed: &[u64]| {
            let devices = offered.into_iter().zip(0..).map(|(memory, ordinal)| cpu(ordinal, memory * GIB));
            let mut registration = Registration::new("h1", "h1:1", 10, devices.collect());
            let numa = installed.iter().map(|memory| NumaNode { index: 0, cpus: Vec::new(), memory: memory * GIB });
            registration.machine.hardware.numa = numa.collect();
            let described = description(&Node::new(NodeId(0), LinkId(1), Millis(0), registration));
            let of_each = described.devices.iter().map(|device| device.class.memory / GIB).collect::<Vec<_>>();
            (of_each, described.host_memory / GIB)
        };
        assert_eq!(memory([48, 48], &[32, 32]), (vec![48, 48], 64), "both together have less than their sum");
        assert_eq!(memory([16, 128], &[32, 32]), (vec![16, 64], 64), "a device has no more than its node");
        assert_eq!(memory([16, 16], &[]), (vec![16, 16], 32), "hwloc reports no memory");
    }

    #[test]
    fn nodes_that_are_alike_have_cpu_devices_of_one_class() {
        const MIB: u64 = 1 << 20;
        assert_eq!([about(61_000 * MIB), about(60_500 * MIB)], [58 << 30; 2]);
        assert_eq!([0, 15, 64 * MIB, 1 << 40].map(about), [0, 15, 64 * MIB, 1 << 40], "even numbers stay");
        assert_eq!(about(u64::MAX), 31 << 59);
    }
}
