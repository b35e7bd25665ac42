//! What a node has, as its agent describes it.

use crate::class::DeviceClass;
use accord_types::NodeId;
use std::collections::BTreeMap;

/// One device of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceDescription {
    /// Its position among the node's devices.
    pub ordinal: u32,
    /// Its class.
    pub class: DeviceClass,
}

/// One node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeDescription {
    /// Its number.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Differs from start to start of its agent. Another start holds no devices of earlier leases.
    pub incarnation: u64,
    /// Its devices, by ordinal.
    pub devices: Vec<DeviceDescription>,
    /// Thousandths of CPU cores for jobs.
    pub cores: u64,
    /// Bytes of host memory for jobs.
    pub host_memory: u64,
    /// Labels by name: `rack`, `switch` and the site's own.
    pub labels: BTreeMap<String, String>,
}
