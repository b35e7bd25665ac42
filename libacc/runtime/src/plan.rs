//! The decisions of a construct under its device's lock. [`crate::issue`] carries them out without the lock.

use crate::construct::Spaced;
use crate::ports::{Chain, Part, ReadWhen};
use crate::present::EntryId;
use crate::prof::ProfilingEvent;
use crate::queues::{Due, QueueList, QueueSet, Queues};
use accord_types::{DevicePtr, HostRange, QueueId};
use std::sync::Arc;

/// Most bytes that travel inside a command.
pub(crate) const STORE_MAX: usize = 4096;
/// One command to a device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Writes bytes that the construct made: pointers, descriptors.
    Bytes {
        dst: DevicePtr,
        /// Offset in [`Plan::bytes`].
        at: usize,
        len: usize,
    },
    /// Copies from the program's memory.
    In { dst: DevicePtr, src: HostRange, when: ReadWhen },
    /// Copies to the program's memory.
    Out { src: DevicePtr, dst: HostRange },
    /// Copies elements of a range to the program's memory, and nothing that lies between.
    OutSpaced { src: DevicePtr, dst: HostRange, spaced: Spaced },
    /// Copies what has changed of a block to the program's memory.
    OutChanged {
        src: DevicePtr,
        /// Offset in [`Plan::bytes`] of its initial contents.
        at: usize,
        len: usize,
        /// Start and end in [`Plan::parts`].
        parts: (usize, usize),
        /// Index in [`Plan::chains`].
        chain: Option<usize>,
    },
    /// Copies within the device.
    Copy { dst: DevicePtr, src: DevicePtr, len: u64 },
}

impl Step {
    /// Returns the device addresses that it copies from and to.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = DevicePtr> + use<> {
        let (one, other) = match *self {
            Self::Bytes { dst, .. } | Self::In { dst, .. } => (dst, None),
            Self::Out { src, .. } | Self::OutSpaced { src, .. } | Self::OutChanged { src, .. } => (src, None),
            Self::Copy { dst, src, .. } => (dst, Some(src)),
        };
        std::iter::once(one).chain(other)
    }

    /// Whether it copies to the program's memory.
    #[inline]
    fn copies_out(&self) -> bool {
        matches!(self, Self::Out { .. } | Self::OutSpaced { .. } | Self::OutChanged { .. })
    }
}

/// A part of [`crate::prof::Notice`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProfilingRecord {
    pub(crate) what: ProfilingEvent,
    pub(crate) host: usize,
    pub(crate) address: DevicePtr,
    pub(crate) bytes: u64,
}

/// A block of the program, or the part of it that is not present, and its copy for one launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockCopy {
    pub(crate) block: HostRange,
    pub(crate) device: DevicePtr,
}

/// The work of other queues that a construct's commands are ordered after.
#[derive(Default)]
pub(crate) struct Order {
    /// The operations of the synchronous queue that its queue has to wait for, see
    /// [`crate::queues::Queues::due`].
    pub(crate) due: Option<Due>,
    /// [`crate::queues::Queues::busy_streams`], for the synchronous queue.
    pub(crate) streams: QueueList,
    /// Queues to wait for first: they may still use memory that this construct got.
    pub(crate) waits: Vec<QueueId>,
}

impl Order {
    fn clear(&mut self) {
        self.due = None;
        self.streams.clear();
        self.waits.clear();
    }
}

/// The memory that has no users once a construct's commands are done.
#[derive(Default)]
pub(crate) struct Releases {
    /// Blocks of the device.
    pub(crate) blocks: Vec<DevicePtr>,
    /// Whether some of them may still be in use by queues other than this construct's.
    pub(crate) are_shared: bool,
    /// Queues that have used data that the commands copy out for the last time.
    pub(crate) used_by: QueueSet,
    /// Arrays whose pages may be locked and need not be any longer, and whether the commands copy to them.
    pub(crate) pages: Vec<(HostRange, bool)>,
}

impl Releases {
    fn clear(&mut self) {
        self.blocks.clear();
        self.are_shared = false;
        self.used_by = QueueSet::default();
        self.pages.clear();
    }
}

/// The records of a construct for an observer.
#[derive(Default)]
pub(crate) struct ProfilingRecords {
    /// Whether an observer watches. The lists are filled only then.
    pub(crate) is_watched: bool,
    /// Data that becomes present, and device memory that is allocated.
    pub(crate) begins: Vec<ProfilingRecord>,
    /// Data that stops being present, and device memory that is freed.
    pub(crate) ends: Vec<ProfilingRecord>,
}

impl ProfilingRecords {
    fn clear(&mut self) {
        self.begins.clear();
        self.ends.clear();
    }
}

/// Copies of the program's blocks for one launch.
#[derive(Default)]
pub(crate) struct LaunchCopies {
    /// Blocks that the launch gets a copy of.
    pub(crate) blocks: Vec<BlockCopy>,
    /// Places of pointers in them that hold device addresses in the copy.
    pub(crate) pointers: Vec<usize>,
}

impl LaunchCopies {
    fn clear(&mut self) {
        self.blocks.clear();
        self.pointers.clear();
    }
}

/// The commands of one construct, in order.
#[derive(Default)]
pub(crate) struct Plan {
    /// Marks the entries that arrive with this construct.
    pub(crate) ticket: u64,
    /// The work that the commands are ordered after.
    pub(crate) order: Order,
    /// New blocks that get the pattern of [`crate::bounds`] around them.
    pub(crate) patterns: Vec<DevicePtr>,
    /// Commands before the launch, or all.
    pub(crate) before: Vec<Step>,
    /// Commands after the launch.
    pub(crate) after: Vec<Step>,
    /// Contents of [`Step::Bytes`], and of blocks that are copied back.
    pub(crate) bytes: Vec<u8>,
    /// Places of those.
    pub(crate) parts: Vec<Part>,
    /// Chains of small variables.
    pub(crate) chains: Vec<Arc<Chain>>,
    /// The memory that the construct's end releases.
    pub(crate) releases: Releases,
    /// The records for an observer.
    pub(crate) profiling: ProfilingRecords,
    /// Entries whose first bytes are in these commands.
    pub(crate) arrivals: Vec<EntryId>,
    /// The blocks that the launch gets a copy of.
    pub(crate) launch_copies: LaunchCopies,
}

impl Plan {
    /// Empties the plan, keeping its storage.
    pub(crate) fn clear(&mut self) {
        self.order.clear();
        self.patterns.clear();
        self.before.clear();
        self.after.clear();
        self.bytes.clear();
        self.parts.clear();
        self.chains.clear();
        self.releases.clear();
        self.profiling.clear();
        self.arrivals.clear();
        self.launch_copies.clear();
    }

    /// Empties the plan for a construct that is watched or not. Callers that decide without
    /// [`crate::construct::ConstructEnter`] call [`crate::device::Device::begin`].
    pub(crate) fn begin(&mut self, watched: bool) {
        self.clear();
        self.profiling.is_watched = watched;
    }

    /// Notes the work of other queues that comes before commands of `queue`.
    pub(crate) fn follow(&mut self, queue: QueueId, queues: &mut Queues) {
        self.order.due = queues.due(queue);
        if queue == QueueId::SYNC {
            self.order.streams.extend(queues.busy_streams());
        }
    }

    /// Whether the device gets no commands.
    pub(crate) fn is_silent(&self) -> bool {
        self.order.waits.is_empty() && self.patterns.is_empty() && self.before.is_empty() && self.after.is_empty()
    }

    /// Adds the store of a pointer.
    pub(crate) fn pointer(&mut self, dst: DevicePtr, value: u64) {
        self.bytes(dst, &value.to_ne_bytes());
    }

    /// Adds a store of these bytes.
    pub(crate) fn bytes(&mut self, dst: DevicePtr, bytes: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.before.push(Step::Bytes { dst, at, len: bytes.len() });
    }

    /// After the launch, copies back what has changed of the block at `src`: the bytes from `at` on, the last ones of
    /// [`Plan::bytes`], for the last `count` parts, or the next value of a chain.
    pub(crate) fn brings_back(&mut self, src: DevicePtr, at: usize, count: usize, chain: Option<Arc<Chain>>) {
        let parts = (self.parts.len() - count, self.parts.len());
        let chain = chain.map(|chain| {
            self.chains.push(chain);
            self.chains.len() - 1
        });
        self.after.push(Step::OutChanged { src, at, len: self.bytes.len() - at, parts, chain });
    }

    /// Whether a copy to the program's memory is among the commands.
    pub(crate) fn copies_out(&self) -> bool {
        self.before.iter().chain(&self.after).any(Step::copies_out)
    }
}

/// The largest frame of the caller.
pub(crate) const FRAME_MAX: usize = 1 << 20;

/// Returns when a copy of `src` has to have read it, in an asynchronous construct whose arrays of entries lie at
/// `near`. Memory close to them is in the caller's frame, and may be a compiler temporary that its next construct
/// reuses. Memory that queued copies will still write can only be read in order.
pub(crate) fn read_when(src: HostRange, near: usize, arriving: bool) -> ReadWhen {
    /// GCC passes large `firstprivate` aggregates by their own address, like `copyin`; the program may change them
    /// at once. Up to this size copying them immediately costs less than most launches.
    const VALUE_MAX: usize = 128 << 10;
    let temporary = src.start.abs_diff(near) < FRAME_MAX || src.len <= VALUE_MAX;
    if !arriving && temporary { ReadWhen::BeforeReturn } else { ReadWhen::InOrder }
}
