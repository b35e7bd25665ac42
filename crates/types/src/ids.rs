//! Identifiers of nodes, devices, sessions, queues and transfers.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($int:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// One machine of the cluster, numbered by the coordinator in order of first registration.
    NodeId(u32),
    "node"
);
id!(
    /// The number by which a program names a device of one type: dense from 0
    /// and fixed for the life of a session (OpenACC 3.3, 3.2.4).
    DeviceNum(u32),
    "dev"
);
id!(
    /// One program's (or one rank's) use of the cluster.
    SessionId(u64),
    "s"
);
id!(
    /// One copy in flight between a program and an executor, or between two executors.
    /// Minted by the program, unique within its session.
    TransferId(u64),
    "t"
);

/// A device anywhere in the cluster. Programs see a [`DeviceNum`] instead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceId {
    /// The machine that has the device.
    pub node: NodeId,
    /// Position among that machine's devices, from 0.
    pub ordinal: u32,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.ordinal)
    }
}

/// An activity queue of one device. A program's queues are 0 to 2^31-1; the others are Accord's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId(pub u32);

impl QueueId {
    /// The queue of synchronous operations.
    pub const SYNC: Self = Self(0xffff_fffe);
    /// The queue of incoming copies from other devices, which must not hold up the target's own queues.
    pub const INCOMING: Self = Self(0xffff_fff0);
    /// The default stream of CUDA Fortran; streams that wait for it, and it for them, follow. Programs' own queues have small numbers.
    pub const DEFAULT_STREAM: Self = Self(0x0100_0000);
    /// Streams of CUDA Fortran that aren't ordered with the default stream (`cudaStreamNonBlocking`) follow.
    pub const NON_BLOCKING_STREAMS: Self = Self(0x0200_0000);
    /// Rows of traces for the ranges that the program names follow: 64 for each of its threads, by depth.
    pub const RANGES: Self = Self(0x0300_0000);
    /// Number of rows for ranges.
    const RANGE_ROWS: u32 = 1 << 20;

    /// Returns the trace's row for ranges with this number.
    #[must_use]
    pub fn range(row: u32) -> Self {
        Self(Self::RANGES.0 + row % Self::RANGE_ROWS)
    }

    /// Returns the number of a trace's row for ranges; `None` for queues.
    #[must_use]
    pub fn range_row(self) -> Option<u32> {
        self.0.checked_sub(Self::RANGES.0).filter(|row| *row < Self::RANGE_ROWS)
    }
}

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SYNC => f.write_str("acc_async_sync"),
            Self::INCOMING => f.write_str("incoming"),
            Self(n) => write!(f, "{n}"),
        }
    }
}

/// A device's own ordered lane of work (a CUDA stream).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u32);

/// A position in a queue or stream: the number of operations enqueued so far, from 1. Position 0 precedes every
/// operation and is always reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Seq(pub u64);
