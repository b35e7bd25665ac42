//! C++ references in `reduction` clauses of compute constructs.
//!
//! For `copy(s) reduction(+: s)` of a `double &s` GCC maps the double, and for the reference an entry without bytes at a
//! temporary of the caller. The region follows it twice: to a pointer, and to the double. Without `copy(s)` it maps the reference as if it
//! were a scalar of eight bytes.

use super::kind::{Absent, Kind};
use super::map::{Mapping, Stop};
use super::pointee::may_be_pointer;
use crate::plan::FRAME_MAX;
use crate::present::EntryId;
use accord_types::HostRange;

/// The size of the largest type that has reductions.
const SCALAR_MAX: usize = 16;

impl Mapping<'_, '_> {
    /// Makes such entries lead to what other entries of the construct have made present, after all its data.
    pub(super) fn settle_references(&mut self) -> Result<(), Stop> {
        for k in (0..self.region.unmapped_pointers.len()).rev() {
            let entry = self.region.unmapped_pointers[k].entry;
            if let Some(device) = self.referred(entry)? {
                self.value(entry, device)?;
                self.region.unmapped_pointers.remove(k);
            }
        }
        Ok(())
    }

    /// Whether a variable that is copied both ways is such a reference to present data: a temporary of the caller that
    /// names all of a scalar. No known program has `copy(p)` of a pointer to a scalar.
    pub(super) fn is_reference(&self, variable: HostRange, (pointer, id): (usize, EntryId)) -> bool {
        let entry = &self.state.table[id];
        entry.start == pointer && entry.len() <= SCALAR_MAX && self.is_temporary(variable.start)
    }

    /// Whether an address is in the caller's frame: other addresses may not be readable.
    fn is_temporary(&self, address: usize) -> bool {
        address.abs_diff(self.entries.hosts.as_ptr().addr()) < FRAME_MAX
    }

    /// Returns the device's address of the target of a reference in the caller's frame, if another entry has it.
    fn referred(&self, i: usize) -> Result<Option<u64>, Stop> {
        let host = self.entries.hosts[i];
        if !self.is_temporary(host) || self.entries.len_of(i) != 0 || !matches!(self.kind(i)?, Kind::Data(_)) {
            return Ok(None);
        }
        let value = self.read_pointer(host);
        if !may_be_pointer(value) {
            return Ok(None);
        }
        for j in 0..self.entries.hosts.len() {
            if self.entries.hosts[j] as u64 == value
                && self.entries.len_of(j) != 0
                && let Kind::Data(data) = self.kind(j)?
                && (data.copy_out || data.absent == Absent::Fail)
                && self.block.is_set(j)
            {
                return Ok(Some(self.block.value(j)));
            }
        }
        Ok(None)
    }
}
