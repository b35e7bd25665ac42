//! The machine of a node.

use crate::hardware::Hardware;
use crate::kernel_limits::KernelLimits;
use crate::node_labels::NodeLabels;

/// The machine of a node, as its agent finds it at its start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    /// The processors, memory and devices.
    pub hardware: Hardware,
    /// The labels that the agent was started with.
    pub labels: NodeLabels,
    /// The limits of sessions that the kernel enforces.
    pub kernel_limits: KernelLimits,
}
