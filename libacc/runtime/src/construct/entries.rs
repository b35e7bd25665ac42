//! The arrays of a call, with further information about their entries.

use super::descriptor::Spaced;
use super::kind::Kind;
use super::missing::ELEMENT_MAX;
use super::region::{Form, OBJECT_MAX, UnmappedPointer};
use crate::plan::FRAME_MAX;
use crate::pointer_log::PointerMeaning;
use accord_types::{HostRange, Result};

/// The three arrays of a `GOACC_*` call.
pub struct Entries<'a> {
    /// Addresses (or values, by kind). Written for `use_device`, and for a region that the program runs itself.
    pub hosts: &'a mut [usize],
    /// Sizes, biases or counts, by kind.
    pub sizes: &'a [usize],
    /// Map kinds: kind in the low byte, log2 of the alignment in the high byte.
    pub kinds: &'a [u16],
    /// Further information about some entries.
    pub(super) special: Special<'a>,
}

impl<'a> Entries<'a> {
    /// Creates the entries from the arrays as GCC passes them.
    pub fn new(hosts: &'a mut [usize], sizes: &'a [usize], kinds: &'a [u16]) -> Self {
        Self { hosts, sizes, kinds, special: Special::default() }
    }

    /// Makes slots lead to objects, for a region that the program runs itself: GCC 12's code finds a pointer to an object in
    /// the slot of one of its members, where nothing else is found.
    pub(super) fn lead_to_objects(&mut self) {
        for (i, word) in self.kinds.iter().enumerate() {
            if Kind::decode(*word) != Ok(Kind::Struct) {
                continue;
            }
            let (before, members) = self.hosts.split_at_mut(i + 1);
            for member in members.iter_mut().take(self.sizes[i]).filter(|member| **member != 0) {
                *member = before[i];
            }
        }
    }

    /// Whether they are those of a `host_data` construct.
    pub fn use_devices(&self) -> bool {
        self.kinds.iter().any(|kind| matches!(Kind::decode(*kind), Ok(Kind::UseDevice { .. })))
    }

    /// Whether the construct detaches the pointer at an address.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` for an entry of unknown kind.
    pub(super) fn detaches(&self, pointer: usize) -> Result<bool> {
        for (host, word) in self.hosts.iter().zip(self.kinds) {
            if *host == pointer && matches!(Kind::decode(*word)?, Kind::Detach { .. }) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns sections that may be one element of an array on the heap or in a static variable.
    pub(crate) fn elements(&self) -> impl Iterator<Item = HostRange> {
        let near = self.hosts.as_ptr().addr();
        (0..self.hosts.len()).filter_map(move |i| {
            let range = HostRange { start: self.hosts[i], len: self.len_of(i) };
            let is_data = matches!(Kind::decode(self.kinds[i]), Ok(Kind::Data(_)));
            let is_element = range.len <= ELEMENT_MAX && range.len.is_power_of_two();
            (is_data && is_element && range.start.abs_diff(near) >= FRAME_MAX).then_some(range)
        })
    }

    /// Returns the meaning of a pointer to absent memory in the program.
    pub(super) fn meaning(&self, unmapped_pointer: &UnmappedPointer) -> PointerMeaning {
        let i = unmapped_pointer.entry;
        let is_data = matches!(Kind::decode(self.kinds[i]), Ok(Kind::Data(_)));
        let named_by_reduction = unmapped_pointer.form == Form::Other && !Kind::is_forced(self.kinds[i]);
        if is_data && (self.len_of(i) == 0 || named_by_reduction) {
            return PointerMeaning::Reference;
        }
        let is_member = |j: &usize| *j != i && self.hosts[*j].wrapping_sub(unmapped_pointer.pointer) < OBJECT_MAX;
        let names_member = |j: usize| {
            matches!(Kind::decode(self.kinds[j]), Ok(Kind::Attach | Kind::Struct | Kind::Descriptor | Kind::Data(_)))
        };
        if (0..self.hosts.len()).filter(is_member).any(names_member) {
            PointerMeaning::Object
        } else {
            PointerMeaning::Array
        }
    }

    /// Returns the bytes of entry `i`, which is a section. GCC computes a Fortran section's length from its bounds: `a(4:0)`, which has no
    /// elements, has a negative one.
    pub(crate) fn len_of(&self, i: usize) -> usize {
        self.sizes[i].cast_signed().max(0).cast_unsigned()
    }
}

/// Information about entries beyond their own words.
#[derive(Clone, Copy, Default)]
pub(crate) struct Special<'a> {
    /// Entries whose elements are not contiguous in the program.
    pub(super) apart: &'a [NoncontiguousEntry],
    /// Entries whose elements lie somewhere in a range.
    pub(super) within: &'a [(usize, HostRange)],
}

/// An entry whose elements are not contiguous in the program.
#[derive(Clone, Copy)]
pub(super) struct NoncontiguousEntry {
    pub(super) entry: usize,
    pub(super) spaced: Spaced,
    /// Range of these elements and those of other such entries between them: other components of the same array.
    pub(super) with_others: HostRange,
    /// Whether there are others.
    pub(super) others: bool,
}

impl Entries<'_> {
    /// Returns the spacing of the elements of entry `i`, if they are not contiguous.
    pub(super) fn spaced(&self, i: usize) -> Option<Spaced> {
        self.special.apart.iter().find(|apart| apart.entry == i).map(|apart| apart.spaced)
    }

    /// Returns the range of entry `i` and of those whose elements are interleaved with its own. `None` if there are
    /// none.
    pub(super) fn joined(&self, i: usize) -> Option<HostRange> {
        let joined = self.special.apart.iter().find(|apart| apart.entry == i && apart.others);
        joined.map(|apart| apart.with_others)
    }

    /// Returns the range in which the elements of entry `i` lie somewhere, if that is all that is known.
    pub(super) fn within(&self, i: usize) -> Option<HostRange> {
        self.special.within.iter().find(|(entry, _)| *entry == i).map(|(_, range)| *range)
    }
}
