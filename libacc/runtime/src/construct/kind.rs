//! Map kinds: how GCC's code describes each entry.

use accord_types::{Error, ErrorCode, Result};

/// The direction of a copy, and whether the data has to be present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Data {
    /// Whether it is copied in when it becomes present.
    pub(crate) copy_in: bool,
    /// Whether it is copied out when it stops being present.
    pub(crate) copy_out: bool,
    /// Whether it is copied even if it was present before (OpenMP's `always`).
    pub(crate) always: bool,
    /// The treatment of absent data.
    pub(crate) absent: Absent,
}

impl Data {
    /// A plain `copy`.
    pub(crate) const BOTH_WAYS: Self = Self { copy_in: true, copy_out: true, always: false, absent: Absent::Create };
}

/// A region's treatment of absent data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Absent {
    /// Makes it present.
    Create,
    /// Stops (`present`).
    Fail,
    /// Leaves it absent (`no_create`).
    Skip,
}

/// The kind of one entry. The numbers are GCC's; its `force` forms mean the same as the plain
/// ones, because OpenACC specifies "present or" everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A section of memory.
    Data(Data),
    /// An 8-byte pointer variable; the size is a bias.
    Pointer,
    /// A Fortran array descriptor.
    Descriptor,
    /// Release the data: `exit data delete`, with `finalize` or without.
    Release {
        /// Sets the dynamic counter to zero.
        finalize: bool,
    },
    /// The address is a device address (`deviceptr`).
    DevicePtr,
    /// A private copy.
    FirstPrivate,
    /// The slot is the value.
    Value,
    /// `host_data use_device`.
    UseDevice {
        /// Whether absent data's address stays unchanged (`if_present`).
        if_present: bool,
    },
    /// A section of no bytes, or one of unknown length: looked up by its address.
    Zero,
    /// The next entries are members of one object; the size is their number.
    Struct,
    /// A pointer to the entry before, stored wherever the pointer variable is present.
    AlwaysPointer,
    /// Attach a pointer variable; the size is a bias.
    Attach,
    /// Detach it.
    Detach {
        /// Whether to act as if the counter were one.
        finalize: bool,
    },
    /// Delete a section of no bytes, which has no effect.
    DeleteZero,
}

impl Kind {
    /// The kind in the low byte of an entry's kind word.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` for numbers without a known meaning.
    #[inline]
    pub(crate) fn decode(word: u16) -> Result<Self> {
        static KNOWN: [Option<Kind>; 256] = known();
        KNOWN[usize::from(word & 0xff)].ok_or_else(|| unknown(word))
    }

    const fn of(word: u8) -> Option<Self> {
        const fn data(copy_in: bool, copy_out: bool, always: bool, absent: Absent) -> Kind {
            Kind::Data(Data { copy_in, copy_out, always, absent })
        }
        Some(match word {
            0x00 | 0x80 => data(false, false, false, Absent::Create),
            0x01 | 0x81 => data(true, false, false, Absent::Create),
            0x02 | 0x82 => data(false, true, false, Absent::Create),
            0x03 | 0x83 => Self::Data(Data::BOTH_WAYS),
            0x06 => data(false, false, false, Absent::Fail),
            0x0b => data(false, false, false, Absent::Skip),
            0x11 => data(true, false, true, Absent::Create),
            0x12 => data(false, true, true, Absent::Create),
            0x13 => data(true, true, true, Absent::Create),
            0x95 => data(true, false, true, Absent::Fail),
            0x96 => data(false, true, true, Absent::Fail),
            0x97 => data(true, true, true, Absent::Fail),
            0x04 | 0x1e => Self::Pointer,
            0x05 => Self::Descriptor,
            0x07 => Self::Release { finalize: true },
            0x17 => Self::Release { finalize: false },
            0x08 => Self::DevicePtr,
            0x0c => Self::FirstPrivate,
            0x0d => Self::Value,
            0x0e => Self::UseDevice { if_present: false },
            0x10 => Self::UseDevice { if_present: true },
            0x0f => Self::Zero,
            0x1c | 0x5c => Self::Struct,
            0x1d => Self::AlwaysPointer,
            0x1f => Self::DeleteZero,
            0x50 | 0x52 => Self::Attach,
            0x51 => Self::Detach { finalize: false },
            0xd1 => Self::Detach { finalize: true },
            _ => return None,
        })
    }

    /// Whether an entry is [`Data::BOTH_WAYS`], forced or not, and aligned to 8 bytes or less, as scalars of a `kernels` construct are.
    #[inline]
    pub(crate) fn is_plain_both_ways(word: u16) -> bool {
        const FORCED: u16 = 0x80;
        const ALIGNMENTS: u16 = 0x300;
        word & !(FORCED | ALIGNMENTS) == 0x03
    }

    /// Whether it is a `finalize` form of `copyout` or `delete`: GCC forces them.
    pub(crate) fn is_forced(word: u16) -> bool {
        word & 0x80 != 0
    }

    /// Whether it is a pointer or descriptor that belongs to the data entry before it.
    pub(crate) fn follows_data(self) -> bool {
        matches!(self, Self::Pointer | Self::Descriptor | Self::Attach | Self::AlwaysPointer)
    }
}

/// Returns all kinds, by their numbers.
const fn known() -> [Option<Kind>; 256] {
    let mut all = [None; 256];
    let mut word = 0;
    while word < all.len() {
        all[word] = Kind::of(word as u8);
        word += 1;
    }
    all
}

#[cold]
fn unknown(word: u16) -> Error {
    let cause = format!("the program maps an entry of kind {:#x}, which has no known meaning", word & 0xff);
    Error::new(ErrorCode::InvalidArgument, cause).remedy("compile with a released version of GCC, 12 or later")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_copy_kind_is_recognised_without_decoding() {
        for word in 0..=u16::from(u8::MAX) {
            let decoded = Kind::decode(word).is_ok_and(|kind| kind == Kind::Data(Data::BOTH_WAYS));
            for alignment in 0..8 {
                let plain = Kind::is_plain_both_ways(word | alignment << 8);
                assert_eq!(plain, decoded && alignment <= 3, "{word:#x}, 2^{alignment}");
            }
        }
    }
}
