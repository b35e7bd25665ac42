//! Decides what a value of the program may point to.

use crate::present::EntryId;

/// Heaps of programs at fixed addresses, and their variables, lie below. There an integer is easily an address inside an
/// array by chance, but not the start of one.
pub(super) const LOW: u64 = 1 << 40;
/// Addresses of programs lie below.
const USER_END: u64 = 1 << 47;
const PAGE: u64 = 4096;

/// The target of a value of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pointee {
    /// Present data: the pointer and its entry.
    Present((usize, EntryId)),
    /// Memory that is not present; most likely, as large integers look the same.
    Absent(usize),
    /// It is no pointer to memory of the program.
    None,
}

/// Most integers and all other numbers of ordinary size are none.
pub(super) fn may_be_pointer(value: u64) -> bool {
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
