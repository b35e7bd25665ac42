//! The limits of sessions that a node's kernel enforces.

use std::collections::BTreeSet;

/// A limit of a session that a kernel can enforce, whatever the session's regions do to their executor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KernelLimit {
    /// Host memory of the session's processes.
    Memory,
    /// Number of the session's processes and threads.
    Processes,
    /// Processors of the session's processes.
    Cores,
    /// Device files of GPUs that the session's processes may open.
    DeviceFiles,
}

impl KernelLimit {
    /// All limits, in their order in tables.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Processes, Self::Cores, Self::DeviceFiles];

    /// Returns the limit's name in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Cores => "cores",
            Self::DeviceFiles => "device_files",
        }
    }
}

/// The limits of sessions that a node's kernel enforces.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelLimits {
    /// The enforced limits.
    pub enforced: BTreeSet<KernelLimit>,
    /// The reason for limits that are not enforced; empty if all are.
    pub why_not: String,
}
