//! Why a process can't suspend its work on devices, or resume it.

use std::fmt;

const MIB: u64 = 1 << 20;

/// The reason for a refusal. The work goes on as before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuspendRefusal {
    /// Too little host memory is left for the devices' memory.
    HostMemory {
        /// Bytes that the devices' memory takes.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// Too little device memory is free to resume the work.
    DeviceMemory {
        /// Bytes that the devices' memory takes.
        needed: u64,
    },
    /// The program has a stream or the context of CUDA, so that its own work can't be held back.
    HandedOut,
    /// Other processes of the machine have mapped the devices' memory, or this process has mapped theirs.
    SharedMemory,
    /// The driver has allocated the devices' memory where it chose, so that it would not come back to its addresses.
    DriverMemory,
    /// A region or a copy did not end in time.
    Busy,
    /// The driver or the system has returned this error.
    Failed(i32),
}

impl SuspendRefusal {
    /// Returns the reason as numbers for a message.
    #[must_use]
    pub fn to_wire(self) -> (u32, u64, u64) {
        match self {
            Self::HostMemory { needed, left } => (1, needed, left),
            Self::DeviceMemory { needed } => (2, needed, 0),
            Self::HandedOut => (3, 0, 0),
            Self::SharedMemory => (4, 0, 0),
            Self::DriverMemory => (5, 0, 0),
            Self::Busy => (6, 0, 0),
            Self::Failed(code) => (7, u64::from(code.cast_unsigned()), 0),
        }
    }

    /// Reads a reason.
    #[must_use]
    pub fn from_wire(reason: u32, first: u64, second: u64) -> Option<Self> {
        Some(match (reason, second) {
            (1, left) => Self::HostMemory { needed: first, left },
            (2, 0) => Self::DeviceMemory { needed: first },
            (3, 0) if first == 0 => Self::HandedOut,
            (4, 0) if first == 0 => Self::SharedMemory,
            (5, 0) if first == 0 => Self::DriverMemory,
            (6, 0) if first == 0 => Self::Busy,
            (7, 0) => Self::Failed(u32::try_from(first).ok()?.cast_signed()),
            _ => return None,
        })
    }
}

impl fmt::Display for SuspendRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostMemory { needed, left } => write!(
                f,
                "its devices' memory takes {} MiB of host memory, and {} MiB are left for suspended jobs; resume or end others, or have the agent allow more (--suspend-memory)",
                needed.div_ceil(MIB),
                left / MIB
            ),
            Self::DeviceMemory { needed } => write!(
                f,
                "its devices have less than the {} MiB free that its memory takes; end what else uses them, and resume it again",
                needed.div_ceil(MIB)
            ),
            Self::HandedOut => f.write_str(
                "its program has asked for its CUDA stream or context, so that its own work can't be held back; wait for its end",
            ),
            Self::SharedMemory => f.write_str(
                "processes share memory of its devices (CUDA IPC); start its programs with ACCORD_IPC=off",
            ),
            Self::DriverMemory => f.write_str(
                "the driver has allocated its memory, which would not come back to its addresses; start its programs with ACCORD_GPU_MEMORY=map",
            ),
            Self::Busy => f.write_str("a region or a copy has not ended within 10 s; try again later"),
            Self::Failed(code) => write!(f, "the driver returned error {code}; see the messages of its program"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_read_as_they_are_written() {
        let reasons = [
            SuspendRefusal::HostMemory { needed: u64::MAX, left: 3 },
            SuspendRefusal::DeviceMemory { needed: 1 << 40 },
            SuspendRefusal::HandedOut,
            SuspendRefusal::SharedMemory,
            SuspendRefusal::DriverMemory,
            SuspendRefusal::Busy,
            SuspendRefusal::Failed(-1),
        ];
        for reason in reasons {
            let (kind, first, second) = reason.to_wire();
            assert_eq!(SuspendRefusal::from_wire(kind, first, second), Some(reason));
        }
        for (kind, first, second) in [(0, 0, 0), (8, 0, 0), (3, 1, 0), (6, 0, 1), (2, 5, 5), (7, u64::MAX, 0)] {
            assert_eq!(SuspendRefusal::from_wire(kind, first, second), None, "{kind}");
        }
    }
}
