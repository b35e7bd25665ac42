//! The data that a construct holds, and the buffers in which a thread gathers it.

use super::block::Block;
use super::descriptor::Spaced;
use super::names::Names;
use crate::plan::Plan;
use crate::ports::{Changes, Part};
use crate::present::{Entry, EntryId};
use crate::write_back::Value;
use accord_types::{DevicePtr, HostRange};

/// The data that a construct holds while it lasts.
#[derive(Default)]
pub(crate) struct Region {
    /// Index of its device.
    pub(crate) device: usize,
    /// The device's epoch then.
    pub(crate) epoch: u32,
    /// Address of the program's call, if that is recorded; else 0.
    pub(crate) call: usize,
    /// The function that it launches.
    pub(crate) function: usize,
    pub(crate) mapped: Vec<Mapped>,
    pub(crate) attachments: Attachments,
    /// Entries for several components of one array, which it has made present as one.
    pub(crate) joined: Vec<EntryId>,
    /// Blocks for one launch.
    pub(crate) temporaries: Vec<DevicePtr>,
    pub(crate) members: Members,
    /// Small variables that are copied both ways.
    pub(crate) write_backs: Vec<Use>,
    /// Variables that are copied in one block.
    pub(crate) together: ScalarBlock,
    /// Pointers to memory that is not present.
    pub(crate) unmapped_pointers: Vec<UnmappedPointer>,
}

/// The pointers that a construct attached: entries and offsets.
#[derive(Default)]
pub(crate) struct Attachments {
    /// All of them.
    pub(crate) held: Vec<(EntryId, usize)>,
    /// Attachments that `attach` clauses of a compute construct name.
    pub(crate) by_clause: Vec<(EntryId, usize)>,
    /// Pointers that the construct was the first to store.
    pub(crate) stored: Vec<(EntryId, usize)>,
}

impl Attachments {
    fn clear(&mut self) {
        self.held.clear();
        self.by_clause.clear();
        self.stored.clear();
    }
}

/// The members of structures and objects that a construct handles apart from these.
#[derive(Default)]
pub(crate) struct Members {
    /// Entries that an object of the construct has replaced.
    pub(crate) replaced: Vec<Entry>,
    /// Members for which it has counted a structure.
    pub(crate) counted: Vec<HostRange>,
    /// Blocks of members of absent objects.
    pub(super) objects: Vec<Object>,
}

impl Members {
    fn clear(&mut self) {
        self.replaced.clear();
        self.counted.clear();
        self.objects.clear();
    }
}

/// An entry that a construct holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped {
    pub(crate) id: EntryId,
    /// The range to copy out at the end.
    pub(crate) out: Option<HostRange>,
    /// The spacing, if only elements in it are copied.
    pub(crate) spaced: Option<Spaced>,
    /// Whether to copy even if others hold the entry too.
    pub(crate) always: bool,
}

/// Buffers that a thread reuses from construct to construct.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) plan: Plan,
    pub(crate) region: Region,
    pub(crate) block: Block,
    pub(crate) names: Names,
    /// Regions that have ended.
    pub(crate) spare: Vec<Region>,
}

impl Region {
    pub(super) fn clear(&mut self) {
        self.mapped.clear();
        self.attachments.clear();
        self.joined.clear();
        self.temporaries.clear();
        self.members.clear();
        self.write_backs.clear();
        self.together.clear();
        self.unmapped_pointers.clear();
    }
}

/// Pointers farther into an object are not taken for its members.
pub(super) const OBJECT_MAX: usize = 4096;

/// Absent members of one object in one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    /// Address of the object in the program.
    pub(super) base: usize,
    /// The range of the members that the block is for.
    pub(super) members: HostRange,
    pub(super) block: DevicePtr,
    /// Entries hold the block already.
    pub(super) is_held: bool,
}

impl Object {
    /// Returns the difference between host addresses and device addresses.
    pub(super) fn distance(&self) -> u64 {
        self.block.0.wrapping_sub(self.members.start as u64)
    }
}

/// A pointer of a launch to memory that is not present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnmappedPointer {
    /// Its entry in the construct.
    pub(crate) entry: usize,
    /// The address that it holds.
    pub(crate) pointer: usize,
    /// The form in which the region gets the pointer.
    pub(crate) form: Form,
    /// The block that is copied for it, once there is one.
    pub(crate) block: Option<HostRange>,
}

/// The place where a region finds a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// In its slot.
    Slot,
    /// In a scalar that its slot leads to; the variable is at this range in the program.
    Scalar(HostRange),
    /// In a variable that is present.
    Present(EntryId, usize),
    /// As a scalar of its own, which may not be a pointer.
    Other,
}

/// A construct's use of one; it is recorded only once the construct is certain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// Its number in the construct.
    pub(super) entry: usize,
    pub(super) range: HostRange,
    pub(super) device: DevicePtr,
    pub(super) value: Value,
    pub(super) changes: Changes,
    /// Whether the place is new.
    pub(super) fresh: bool,
}

impl Use {
    /// Returns the place, if it is to be freed with a construct that did not happen.
    pub(super) fn fresh_block(&self) -> Option<DevicePtr> {
        self.fresh.then_some(self.device)
    }
}

/// The variables of one construct that are copied in one block.
#[derive(Default)]
pub(crate) struct ScalarBlock {
    /// The block on the device, once there is one.
    pub(super) device: Option<DevicePtr>,
    /// The program's values when the construct began, in the first `len` bytes. Between them are bytes of an earlier
    /// construct.
    pub(super) values: Vec<u8>,
    pub(super) len: usize,
    /// Their places.
    pub(super) parts: Vec<Part>,
}

impl ScalarBlock {
    pub(super) fn clear(&mut self) {
        self.device = None;
        self.len = 0;
        self.parts.clear();
    }

    /// Returns the offset of the next one.
    #[inline]
    pub(super) fn next(&self, align: usize) -> usize {
        (self.len + align - 1) & !(align - 1)
    }
}
