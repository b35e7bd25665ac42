//! One section of host memory that is present on a device.

use crate::queues::QueueSet;
use accord_types::{DevicePtr, GlobalSpec, HostRange};
use std::sync::Arc;

/// Identifies an entry of a [`super::Table`] for as long as that entry lives; a later entry in the same slot has another id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntryId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// The reference counter that an action uses, of two (OpenACC 3.3, 2.6.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counter {
    /// Data regions, compute constructs, `declare`.
    Structured,
    /// `enter data`, `exit data`, API routines.
    Dynamic,
}

/// The place of the data on the device.
#[derive(Clone, Debug)]
pub(crate) enum DataLocation {
    /// At this address.
    At(DevicePtr),
    /// Where the device's loader put this variable; queried at first use.
    Global(Arc<GlobalSpec>),
}

/// The action that ends the entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lifetime {
    /// Its counters, when both are zero.
    Counted,
    /// The unloading of its object. Regions and `exit data` neither count nor copy it.
    Global,
    /// The unloading of its object. Its contents are the same for the program and the device, except that each has its own addresses there, so that
    /// nothing is copied.
    Constant,
    /// `acc_unmap_data`. Its dynamic counter does not drop below one before that.
    Mapped,
}

/// The kind of the device memory behind an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backing {
    /// The allocator's block that starts here; struct members share one.
    Block(DevicePtr),
    /// Not ours to free: a global, memory of `acc_map_data`, a host address used as device address.
    Foreign,
    /// A `link` variable's: a block, and a pointer variable at the second address that names it.
    Linked(DevicePtr, DevicePtr),
}

/// A pointer inside an entry whose device copy holds a device address (OpenACC 3.3, 2.6.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attachment {
    /// Offset in the entry.
    pub(crate) offset: usize,
    /// The attachment counter. 0: detached by the end of a compute construct, but not written back until the difference
    /// can be observed, so that the next construct need not write it again.
    pub(crate) count: u32,
    /// The value of the device's pointer.
    pub(crate) value: u64,
}

impl Attachment {
    /// Size of a pointer variable in bytes.
    pub(crate) const BYTES: usize = 8;
}

/// The two reference counters of an entry (OpenACC 3.3, 2.6.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct References {
    /// Number of regions that hold the entry.
    pub(crate) structured: u32,
    /// Number of `enter data` and API calls that hold the entry.
    pub(crate) dynamic: u32,
}

/// An entry of the present table.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// First host byte.
    pub(crate) start: usize,
    /// One past the last host byte.
    pub(crate) end: usize,
    /// The place of the data.
    pub(crate) place: DataLocation,
    /// The kind of that memory.
    pub(crate) backing: Backing,
    /// The action that ends the entry.
    pub(crate) lifetime: Lifetime,
    /// Its reference counters.
    pub(crate) references: References,
    /// Its attached pointers, in order of their offsets.
    pub(crate) attachments: Vec<Attachment>,
    /// Whether it is a pointer variable that is only present for its target (`construct/pointer_member.rs`).
    pub(crate) pointer_member: bool,
    /// Queues that have used it.
    pub(crate) used_by: QueueSet,
    /// Bytes that updates and other repeated copies have moved, as far as page-locking would have helped.
    pub(crate) moved: u64,
    /// Whether the device was asked to lock its pages.
    pub(crate) locked: bool,
    /// The construct that is still copying the first bytes there: others wait for it.
    pub(crate) arriving: Option<u64>,
}

impl Entry {
    /// An entry without holders.
    pub(crate) fn new(host: HostRange, place: DataLocation, backing: Backing, lifetime: Lifetime) -> Self {
        Self {
            start: host.start,
            end: host.start.saturating_add(host.len),
            place,
            backing,
            lifetime,
            references: References::default(),
            attachments: Vec::new(),
            moved: 0,
            locked: false,
            arriving: None,
            used_by: QueueSet::default(),
            pointer_member: false,
        }
    }

    /// Returns the range in the program.
    pub(crate) fn range(&self) -> HostRange {
        HostRange { start: self.start, len: self.len() }
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The device address, once known.
    pub(crate) fn device(&self) -> Option<DevicePtr> {
        match self.place {
            DataLocation::At(device) => Some(device),
            DataLocation::Global(_) => None,
        }
    }

    /// Returns the device address of a host address in it. Its place is known.
    pub(crate) fn translate(&self, host: usize) -> DevicePtr {
        let device = self.device().unwrap_or_default();
        DevicePtr(device.0.wrapping_add(host as u64).wrapping_sub(self.start as u64))
    }

    /// The present increment action (OpenACC 3.3, 2.7.2).
    pub(crate) fn hold(&mut self, counter: Counter) {
        match (self.lifetime, counter) {
            (Lifetime::Global | Lifetime::Constant, _) => {}
            (_, Counter::Structured) => self.references.structured = self.references.structured.saturating_add(1),
            (_, Counter::Dynamic) => self.references.dynamic = self.references.dynamic.saturating_add(1),
        }
    }

    /// Whether the entry belongs to a loaded object, and is present for as long as that.
    pub(crate) fn is_static(&self) -> bool {
        matches!(self.lifetime, Lifetime::Global | Lifetime::Constant)
    }

    /// Whether updates and forced copies leave the entry unchanged.
    pub(crate) fn is_constant(&self) -> bool {
        self.lifetime == Lifetime::Constant
    }

    /// Performs the present decrement action; `finalize` sets the dynamic counter to its least value.
    /// Returns true if that ended the entry's lifetime. A counter that is zero stays so, and ends nothing.
    pub(crate) fn release(&mut self, counter: Counter, finalize: bool) -> bool {
        if self.is_static() {
            return false;
        }
        let dynamic_min = u32::from(self.lifetime == Lifetime::Mapped);
        let (count, least) = match counter {
            Counter::Structured => (&mut self.references.structured, 0),
            Counter::Dynamic => (&mut self.references.dynamic, dynamic_min),
        };
        if *count <= least {
            return false;
        }
        *count = if finalize { least } else { *count - 1 };
        self.references == References::default()
    }

    /// Counts a copy of `bytes` bytes from or to the program's memory. Returns true once in the entry's life: when locking its pages is
    /// likely to pay, see docs/design/cuda.md ("Page-locked arrays").
    pub(crate) fn moves(&mut self, bytes: usize) -> bool {
        /// Shorter copies gain nothing.
        const COPY_MIN: usize = 64 << 10;
        /// Shorter arrays are copied by the driver as fast.
        const ARRAY_MIN: usize = 1 << 20;
        /// The number of copies of the whole array after which it is locked: staging has then cost about as much as
        /// locking and unlocking do.
        const TIMES: u64 = 16;
        if bytes < COPY_MIN || self.locked || self.len() < ARRAY_MIN {
            return false;
        }
        self.moved += bytes as u64;
        self.locked = self.moved / TIMES >= self.len() as u64;
        self.locked
    }

    /// Returns the position of the attachment at `offset`, or where to insert it.
    pub(crate) fn attachment(&self, offset: usize) -> Result<usize, usize> {
        self.attachments.binary_search_by_key(&offset, |a| a.offset)
    }
}
