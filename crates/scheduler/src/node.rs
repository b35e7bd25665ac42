//! A node, as its agent describes it.

use crate::class::DeviceClass;
use accord_types::NodeId;
use std::collections::BTreeMap;

/// A device of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceDescription {
    /// The ordinal on its node.
    pub ordinal: u32,
    /// Its class.
    pub class: DeviceClass,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeDescription {
    /// Its number.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Identifies the start of its agent. A new incarnation holds no devices of earlier leases.
    pub incarnation: u64,
    /// Its devices in the order of ordinals.
    pub devices: Vec<DeviceDescription>,
    /// Thousandths of CPU cores for jobs.
    pub cores: u64,
    /// Bytes of host memory for jobs.
    pub host_memory: u64,
    /// Labels by name: `rack`, `switch`, and those of the site.
    pub labels: BTreeMap<String, String>,
}
