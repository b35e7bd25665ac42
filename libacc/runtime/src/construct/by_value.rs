//! Pointers that a region gets by value.
//!
//! C programs bring an array to the device by `enter data`, and name its pointer in regions elsewhere without a clause.
//! A pointer is a scalar, and GCC passes it as it is: `firstprivate` in `parallel` and `serial`, a copy of the variable in
//! `kernels`. On the device it would name the program's memory, which no region can mean. So a pointer to present data
//! arrives as a pointer to the device's.

use super::kind::{Absent, Data, Kind};
use super::map::{Mapping, Stop};
use crate::memory::Purpose;
use crate::present::EntryId;
use accord_types::HostRange;

/// Heaps of programs at fixed addresses, and their variables, lie below. There an integer is too easily an address inside of an
/// array; the start of one is met by none by chance.
const LOW: u64 = 1 << 40;
/// Addresses of programs lie below.
const USER_END: u64 = 1 << 47;
const PAGE: u64 = 4096;

impl Mapping<'_, '_> {
    /// A copy of the program's bytes, for this launch only.
    pub(super) fn by_value(&mut self, i: usize, range: HostRange) -> Result<(), Stop> {
        let Some(pointer) = self.pointer_in(range)? else { return self.private(i, range) };
        let Some(id) = self.pointee(pointer) else { return self.private(i, range) };
        let id = self.ready(id)?;
        let nothing = Data { copy_in: false, copy_out: false, always: false, absent: Absent::Skip };
        self.hold(id, HostRange { start: pointer, len: 1 }, nothing);
        let value = self.translate(id, pointer).0;
        match self.block.reserve(range.len) {
            Some(at) => {
                self.block.private(at, range.len).copy_from_slice(&value.to_ne_bytes());
                self.block.set_private(i, at);
            }
            None => {
                let place = self.allocate(range.len, Purpose::Arguments)?;
                self.region.temporaries.push(place);
                self.plan.pointer(place, value);
                self.slot(i, place.0);
            }
        }
        Ok(())
    }

    /// Whether entry `i` is a pointer to present data, a scalar that no clause of its `kernels` construct names: GCC forces
    /// the copy of those both ways.
    pub(super) fn is_kernels_pointer(&mut self, i: usize, range: HostRange) -> Result<bool, Stop> {
        if !Kind::is_forced(self.entries.kinds[i]) {
            return Ok(false);
        }
        Ok(self.pointer_in(range)?.is_some_and(|pointer| self.pointee(pointer).is_some()))
    }

    /// What may be a pointer, in a variable of the program that no region is about to write.
    fn pointer_in(&mut self, range: HostRange) -> Result<Option<usize>, Stop> {
        if range.len != size_of::<usize>() || self.echoed(range)?.is_some() {
            return Ok(None);
        }
        Ok(Some(self.read_pointer(range.start)).filter(|value| may_be_pointer(*value)).map(|value| value as usize))
    }

    /// The entry that a pointer names.
    fn pointee(&self, pointer: usize) -> Option<EntryId> {
        // What names our device memory is right as it is.
        if self.state.memory.block_of(pointer as u64).is_some() {
            return None;
        }
        let id = self.state.table.find_byte(pointer)?;
        (pointer as u64 >= LOW || self.state.table[id].start == pointer).then_some(id)
    }
}

/// Most integers and all other numbers of ordinary size are none.
fn may_be_pointer(value: u64) -> bool {
    (PAGE..USER_END).contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_ordinary_size_are_no_pointers() {
        for number in [0.0, 1.0, -1.0, 0.1, 1e-300, 1e300, f64::INFINITY, f64::NAN, -0.0] {
            assert!(!may_be_pointer(number.to_bits()), "{number}");
        }
        for number in [0i64, 1, -1, 4095, i64::MAX, i64::MIN] {
            assert!(!may_be_pointer(number as u64), "{number}");
        }
        assert!(may_be_pointer(0x5555_5555_a2a0) && may_be_pointer(0x7fff_ffff_e000) && may_be_pointer(0x12_3450));
    }
}
