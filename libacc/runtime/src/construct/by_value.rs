//! Passes the device's addresses for pointers that a region gets by value.
//!
//! C programs copy an array to the device by `enter data`, and name its pointer in regions elsewhere without a clause.
//! A pointer is a scalar, and GCC passes it as it is: `firstprivate` in `parallel` and `serial`, a copy of the variable in
//! `kernels`. On the device it would hold a host address, which no region can mean. So a pointer to present data
//! is passed as a pointer to the device's copy.
//!
//! GCC takes `present(p)` of a pointer for the pointer variable, the program's author for the array. Here it means the
//! array.

use super::kind::{Absent, Data, Kind};
use super::map::{Mapping, Mode, Stop};
use super::missing::not_present_in_clause;
use super::pointee::{LOW, Pointee, may_be_pointer};
use super::region::Form;
use crate::memory::Purpose;
use crate::present::{Backing, EntryId};
use accord_types::{Error, ErrorCode, HostRange};

impl Mapping<'_, '_> {
    /// A copy of the program's bytes, for this launch only.
    pub(super) fn by_value(&mut self, i: usize, range: HostRange) -> Result<(), Stop> {
        match self.pointee_of(range)? {
            Pointee::Present(found) => self.point(i, found),
            Pointee::Absent(pointer) => {
                self.unmapped_pointer(i, pointer, Form::Scalar(range));
                Ok(())
            }
            Pointee::None if self.firstprivate_array(i, range)? => Ok(()),
            Pointee::None => self.private(i, range),
        }
    }

    /// Passes a region the device's address for a host pointer.
    pub(super) fn point(&mut self, i: usize, (pointer, id): (usize, EntryId)) -> Result<(), Stop> {
        let id = self.ready(id)?;
        let nothing = Data { copy_in: false, copy_out: false, always: false, absent: Absent::Skip };
        self.hold(id, HostRange { start: pointer, len: 1 }, nothing);
        let value = self.translate(id, pointer).0;
        self.value(i, value)
    }

    /// Passes a region eight bytes with this value.
    pub(super) fn value(&mut self, i: usize, value: u64) -> Result<(), Stop> {
        self.pass(i, &value.to_ne_bytes())
    }

    /// Passes these bytes to the region instead of the program's.
    pub(super) fn pass(&mut self, i: usize, bytes: &[u8]) -> Result<(), Stop> {
        match self.block.reserve(bytes.len()) {
            Some(at) => {
                self.block.private(at, bytes.len()).copy_from_slice(bytes);
                self.block.set_private(i, at);
            }
            None => {
                let place = self.allocate(bytes.len(), Purpose::Arguments)?;
                self.region.temporaries.push(place);
                self.plan.bytes(place, bytes);
                self.slot(i, place.0);
            }
        }
        Ok(())
    }

    /// Handles absent data of a `present` or `no_create` clause: a pointer variable stands for what it points to, if that is present.
    pub(super) fn pointee_or_absent(&mut self, i: usize, range: HostRange, data: Data) -> Result<(), Stop> {
        match (self.pointee_of(range)?, self.mode) {
            (Pointee::Present(found), Mode::Launch) => self.point(i, found),
            (Pointee::Present(found), Mode::Region) => self.device_pointer(range, found),
            (Pointee::Present((_, id)), Mode::Enter) => self.ready(id).map(drop),
            _ if data.absent == Absent::Skip => {
                // For a no_create clause the region uses the host address (OpenACC 3.3, 2.7.10).
                self.slot(i, range.start as u64);
                Ok(())
            }
            _ => Err(self.absent(range).into()),
        }
    }

    /// Makes a pointer variable present for a data region, with the device's address in it: constructs inside refer to the
    /// variable. It is never copied out.
    fn device_pointer(&mut self, range: HostRange, (pointer, id): (usize, EntryId)) -> Result<(), Stop> {
        let id = self.ready(id)?;
        let nothing = Data { copy_in: false, copy_out: false, always: false, absent: Absent::Create };
        self.hold(id, HostRange { start: pointer, len: 1 }, nothing);
        let value = self.translate(id, pointer).0;
        let place = self.allocate_for(range)?;
        self.create(place, Backing::Block(place), range, nothing)?;
        self.plan.pointer(place, value);
        Ok(())
    }

    /// The error for data of a `present` clause that is not there.
    fn absent(&self, range: HostRange) -> Error {
        let error = not_present_in_clause(range, &self.state.table, self.device.rules.maps_unmapped);
        if range.len != size_of::<usize>() {
            return error;
        }
        match self.read_pointer(range.start) {
            value if may_be_pointer(value) => {
                let more = format!("nor is anything at {value:#x}, if it is a pointer");
                Error::about(ErrorCode::NotPresent, range, "not present", more).remedy(
                    "map the array that the pointer points to by a data region, enter data or acc_copyin before, and write \
                     present(p[0:n])",
                )
            }
            _ => error,
        }
    }

    /// Does the same for entry `i`, if it is a scalar that no clause of its `kernels` construct names: GCC forces the copy of those
    /// both ways. What clauses name stays unchanged. But where a `reduction` names a C++ reference, GCC maps the reference. To a
    /// present scalar it leads there; otherwise what a region may follow is recorded.
    pub(super) fn kernels_pointee(&mut self, i: usize, range: HostRange) -> Result<Option<(usize, EntryId)>, Stop> {
        match self.pointee_of(range)? {
            Pointee::Present(found) if Kind::is_forced(self.entries.kinds[i]) || self.is_reference(range, found) => {
                return Ok(Some(found));
            }
            Pointee::Absent(pointer) => self.unmapped_pointer(i, pointer, Form::Other),
            Pointee::Present(_) | Pointee::None => {}
        }
        Ok(None)
    }

    /// Returns the target of the pointer in a variable of the program, unless a queued region is about to write the
    /// variable.
    fn pointee_of(&mut self, range: HostRange) -> Result<Pointee, Stop> {
        if range.len != size_of::<usize>() || self.value_on_device(range)?.is_some() {
            return Ok(Pointee::None);
        }
        Ok(self.pointee(self.read_pointer(range.start)))
    }

    /// Returns the target of eight bytes of the program, if they are a pointer to its memory.
    pub(super) fn pointee(&self, value: u64) -> Pointee {
        // An address of our device memory is right as it is.
        if !may_be_pointer(value) || self.state.memory.block_of(value).is_some() {
            return Pointee::None;
        }
        let pointer = value as usize;
        let starts = |id: &EntryId| value >= LOW || self.state.table[*id].start == pointer;
        if let Some(id) = self.state.table.find_byte(pointer) {
            return if starts(&id) { Pointee::Present((pointer, id)) } else { Pointee::None };
        }
        let starts_block = || {
            let block = if self.device.rules.maps_unmapped { self.host.block_of(pointer) } else { None };
            block.is_some_and(|block| block.start == pointer)
        };
        if value >= LOW || starts_block() { Pointee::Absent(pointer) } else { Pointee::None }
    }
}
