//! This machine's hardware. The hwloc crate provides cores and caches. This crate's own calls to the same library find
//! NUMA nodes and I/O devices, which the hwloc crate can't read.
//!
//! `HWLOC_XMLFILE` makes hwloc read a machine from a file. Such a machine is displayed, but threads are bound to its
//! processors only if this machine has them, too.

#[expect(unsafe_code, reason = "calls of a C library")]
mod ffi;

use accord_types::Hardware;
use hwloc2::{ObjectType, TopologyObject};

/// Cores, NUMA nodes, caches and the devices near them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    /// The description for other nodes.
    pub hardware: Hardware,
    /// Caches, largest first.
    pub caches: Vec<Cache>,
}

/// One cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cache {
    /// 1 is the nearest to the core.
    pub level: u32,
    /// Size in bytes.
    pub bytes: u64,
}

/// Reads this machine's hardware. Unknown parts are left empty.
pub fn topology() -> Topology {
    let mut hardware = ffi::numa_and_devices().unwrap_or_else(|| {
        tracing::warn!("hwloc can't read this machine's NUMA nodes and devices");
        Hardware::default()
    });
    let Some(tree) = hwloc2::Topology::new() else {
        tracing::warn!("hwloc can't read this machine's cores");
        return Topology { hardware, caches: Vec::new() };
    };
    let count = |objects: Vec<&TopologyObject>| u32::try_from(objects.len()).unwrap_or(u32::MAX);
    hardware.processors = tree.objects_with_type(&ObjectType::PU).map_or(0, count);
    // Some virtual machines do not report which processors share a core.
    hardware.cores = tree.objects_with_type(&ObjectType::Core).map_or(hardware.processors, count);
    let levels = [(3, ObjectType::L3Cache), (2, ObjectType::L2Cache), (1, ObjectType::L1Cache)];
    let caches = levels.iter().flat_map(|(level, kind)| {
        let objects = tree.objects_with_type(kind).unwrap_or_default();
        let sizes = objects.into_iter().filter_map(|object| object.cache_attributes());
        sizes.map(|cache| Cache { level: *level, bytes: cache.size() }).collect::<Vec<_>>()
    });
    Topology { hardware, caches: caches.collect() }
}

impl Topology {
    /// Returns the NUMA node that contains all of `cpus`, if one does.
    pub fn numa_of(&self, cpus: &[u32]) -> Option<u32> {
        if cpus.is_empty() {
            return None;
        }
        let has_all = |node: &&accord_types::NumaNode| cpus.iter().all(|cpu| node.cpus.contains(cpu));
        self.hardware.numa.iter().find(has_all).map(|node| node.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_processors_and_memory() {
        let topology = topology();
        assert!(topology.hardware.processors >= 1);
        assert!(topology.hardware.cores >= 1 && topology.hardware.cores <= topology.hardware.processors);
        assert!(topology.hardware.numa.iter().any(|node| !node.cpus.is_empty() && node.memory > 0));
    }

    #[test]
    fn processors_of_two_nodes_are_on_none() {
        let numa = |index, cpus| accord_types::NumaNode { index, cpus, memory: 1 };
        let hardware = Hardware { numa: vec![numa(0, vec![0, 1]), numa(4, vec![2, 3])], ..Default::default() };
        let topology = Topology { hardware, caches: Vec::new() };
        assert_eq!(topology.numa_of(&[2, 3]), Some(4));
        assert_eq!(topology.numa_of(&[1, 2]), None);
        assert_eq!(topology.numa_of(&[]), None);
    }
}
