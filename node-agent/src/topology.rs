//! This machine's make-up.

use accord_types::Hardware;

/// Cores, NUMA nodes and the devices near them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    /// What is there.
    pub hardware: Hardware,
}

impl Topology {
    /// The NUMA node that has all of `cpus`, if one does.
    pub fn numa_of(&self, cpus: &[u32]) -> Option<u32> {
        if cpus.is_empty() {
            return None;
        }
        let has_all = |node: &&accord_types::NumaNode| cpus.iter().all(|cpu| node.cpus.contains(cpu));
        self.hardware.numa.iter().find(has_all).map(|node| node.index)
    }
}

/// Looks at this machine.
pub fn topology() -> Topology {
    Topology::default()
}
