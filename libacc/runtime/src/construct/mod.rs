//! The directives, as GCC's code asks for them.

mod block;
mod by_value;
mod cell;
mod component;
mod data;
mod declare;
mod descriptor;
mod echo;
mod enter;
mod exit_data;
mod frame;
mod kind;
mod leave;
mod map;
mod names;
mod parallel;
mod pointer;
mod private;
mod reading;
mod tags;

pub use tags::async_of;
mod together;
mod unmapped;
mod update;
mod wait;

pub(crate) use descriptor::Spaced;
pub(crate) use echo::Echo;
pub(crate) use enter::Entering;
pub(crate) use kind::{Absent, Data};
pub(crate) use leave::Leaving;
pub(crate) use map::{Mode, Stop, not_present, partly_present, translate};
#[cfg(test)]
pub(crate) use unmapped::Form;
pub(crate) use unmapped::{Loan, Stray};
pub(crate) use update::Direction;

use crate::plan::Plan;
use crate::present::{Entry, EntryId};
use accord_types::{DevicePtr, HostRange};

/// The three arrays of a `GOACC_*` call.
pub struct Entries<'a> {
    /// Addresses (or values, by kind). Written for `use_device` only.
    pub hosts: &'a mut [usize],
    /// Sizes, biases or counts, by kind.
    pub sizes: &'a [usize],
    /// Map kinds: kind in the low byte, log2 of the alignment in the high byte.
    pub kinds: &'a [u16],
    /// What is known of some beyond that.
    special: component::Special<'a>,
}

impl<'a> Entries<'a> {
    /// The arrays as GCC passes them.
    pub fn new(hosts: &'a mut [usize], sizes: &'a [usize], kinds: &'a [u16]) -> Self {
        Self { hosts, sizes, kinds, special: component::Special::default() }
    }

    /// Whether they are those of a `host_data` construct.
    fn use_devices(&self) -> bool {
        self.kinds.iter().any(|kind| matches!(kind::Kind::decode(*kind), Ok(kind::Kind::UseDevice { .. })))
    }

    /// Bytes of entry `i`, which is a section. GCC computes a Fortran section's length from its bounds: `a(4:0)`, which has no
    /// elements, comes with a negative one.
    pub(crate) fn len_of(&self, i: usize) -> usize {
        self.sizes[i].cast_signed().max(0).cast_unsigned()
    }
}

/// Where a compute construct ran, or has to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// On the device: launched, and for a synchronous construct finished.
    Device,
    /// The caller runs the host version itself, between
    /// [`crate::LocalThread::begin_host_region`] and [`crate::LocalThread::end_host_region`].
    Host,
}

/// What a construct holds while it lasts.
#[derive(Default)]
pub(crate) struct Region {
    /// Index of its device.
    pub(crate) device: usize,
    /// The device's epoch then.
    pub(crate) epoch: u32,
    pub(crate) mapped: Vec<Mapped>,
    /// Pointers that it attached: entry and offset.
    pub(crate) attached: Vec<(EntryId, usize)>,
    /// Those of them that `attach` clauses of a compute construct name.
    pub(crate) by_clause: Vec<(EntryId, usize)>,
    /// Pointers that it was the first to store.
    pub(crate) stored: Vec<(EntryId, usize)>,
    /// Those of several components of one array, which it has made present as one.
    pub(crate) joined: Vec<EntryId>,
    /// Blocks for one launch.
    pub(crate) temporaries: Vec<DevicePtr>,
    /// Entries that an object of the construct has taken the place of.
    pub(crate) cells: Vec<Entry>,
    /// Small variables that are copied both ways.
    pub(crate) echoes: Vec<echo::Use>,
    /// Those that travel together.
    pub(crate) together: together::Together,
    /// Pointers to memory that is not present.
    pub(crate) strays: Vec<Stray>,
}

/// An entry that a construct holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped {
    pub(crate) id: EntryId,
    /// What to copy out at the end.
    pub(crate) out: Option<HostRange>,
    /// If only elements in it are to be copied.
    pub(crate) spaced: Option<Spaced>,
    /// Even if others hold the entry too.
    pub(crate) always: bool,
}

/// Buffers that a thread uses for one construct after the other.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) plan: Plan,
    pub(crate) region: Region,
    pub(crate) block: block::Block,
    pub(crate) names: names::Names,
    /// Regions that have ended.
    pub(crate) spare: Vec<Region>,
}

impl Region {
    fn clear(&mut self) {
        self.mapped.clear();
        self.attached.clear();
        self.by_clause.clear();
        self.stored.clear();
        self.joined.clear();
        self.temporaries.clear();
        self.cells.clear();
        self.echoes.clear();
        self.together.clear();
        self.strays.clear();
    }
}

/// The `dev` word of a call holds flags with all bits turned around: an `if` clause that is false,
/// or a `self` clause that is true, mean the host.
pub fn on_host(dev: i32) -> bool {
    !dev & 3 != 0
}
