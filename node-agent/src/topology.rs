//! This machine's hardware. The hwloc crate provides cores. This crate's own calls to the same library find NUMA nodes and
//! I/O devices, which the hwloc crate can't read.
//!
//! `HWLOC_XMLFILE` makes hwloc read a machine from a file. Such a machine is displayed, but threads are bound to its
//! processors only if this machine has them, too.

#[expect(unsafe_code, reason = "calls of a C library")]
mod ffi;
#[expect(unsafe_code, reason = "calls of a C library")]
mod library;

use accord_device::machine;
use accord_types::Hardware;
use hwloc2::{ObjectType, TopologyObject};

/// Cores, NUMA nodes and the devices near them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    /// The description for other nodes.
    pub hardware: Hardware,
}

/// Reads this machine's hardware. Without hwloc it has no I/O devices.
pub fn topology() -> Topology {
    let hardware = from_hwloc().unwrap_or_else(|why| {
        tracing::warn!("adapters and where they are attached are unknown: {why}");
        machine::hardware()
    });
    Topology { hardware }
}

fn from_hwloc() -> Result<Hardware, String> {
    if !library::is_there() {
        return Err(format!("there is no {}: install libhwloc15 or hwloc-libs", library::NAME));
    }
    let failed = || "hwloc can't read this machine".to_owned();
    let mut hardware = ffi::numa_and_devices().ok_or_else(failed)?;
    let tree = hwloc2::Topology::new().ok_or_else(failed)?;
    let count = |objects: Vec<&TopologyObject>| u32::try_from(objects.len()).unwrap_or(u32::MAX);
    hardware.processors = tree.objects_with_type(&ObjectType::PU).map_or(0, count);
    // Some virtual machines do not report which processors share a core.
    hardware.cores = tree.objects_with_type(&ObjectType::Core).map_or(hardware.processors, count);
    Ok(hardware)
}

impl Topology {
    /// Returns the NUMA node that contains all of `cpus`, if one does.
    pub fn numa_of(&self, cpus: &[u32]) -> Option<u32> {
        machine::numa_of(&self.hardware, cpus)
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
    fn the_kernel_shows_the_same_machine_as_hwloc() {
        let hwloc = from_hwloc().expect("the tests' machine has hwloc");
        let kernel = machine::hardware();
        // A control group may keep some processors away from hwloc.
        assert!((1..=kernel.cores).contains(&hwloc.cores) && hwloc.processors <= kernel.processors, "{kernel:?}");
        assert!(
            hwloc.numa.iter().all(|node| kernel.numa.iter().any(|kernel| kernel.index == node.index)),
            "{kernel:?}"
        );
    }

    #[test]
    fn processors_of_two_nodes_are_on_none() {
        let numa = |index, cpus| accord_types::NumaNode { index, cpus, memory: 1 };
        let hardware = Hardware { numa: vec![numa(0, vec![0, 1]), numa(4, vec![2, 3])], ..Default::default() };
        let topology = Topology { hardware };
        assert_eq!(topology.numa_of(&[2, 3]), Some(4));
        assert_eq!(topology.numa_of(&[1, 2]), None);
        assert_eq!(topology.numa_of(&[]), None);
    }
}
