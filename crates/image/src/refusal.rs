//! The reason why a kernel is not rewritten to take its argument block as its parameter, with a remedy.

use std::fmt;

/// Most slots that are copied at a kernel's start.
pub(crate) const SLOTS_MAX: u32 = 64;

/// The reason why a kernel gets its argument block by address, which costs a copy per launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The device has this architecture (60 for `sm_60`), which can't take a parameter's address.
    Architecture(u32),
    /// The PTX has warp operations that newer architectures lack.
    NoMask,
    /// The PTX names no version or target.
    NoVersion,
    /// The block's address is kept on the stack.
    OnStack,
    /// The block's address is kept elsewhere in memory.
    KeptInMemory,
    /// This instruction uses the block's address, or the parameter, in an unknown way.
    UnknownUse(String),
    /// The kernel never loads its parameter.
    NoLoad,
    /// The block has too many slots for a parameter.
    TooManySlots,
    /// The driver refuses the rewritten PTX.
    Driver,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Architecture(sm) => {
                write!(f, "the device is sm_{sm}, and taking a parameter's address needs sm_70")
            }
            Self::NoMask => f.write_str("its PTX has warp operations without a mask"),
            Self::NoVersion => f.write_str("its PTX names no version or target"),
            Self::OnStack => f.write_str("it keeps the block's address on the stack, as unoptimized code does"),
            Self::KeptInMemory => f.write_str("it keeps the block's address in memory"),
            Self::UnknownUse(code) => write!(f, "it has \"{code}\", an unknown use of the block's address"),
            Self::NoLoad => f.write_str("it does not load its parameter"),
            Self::TooManySlots => write!(f, "it has more than {SLOTS_MAX} slots"),
            Self::Driver => f.write_str("the driver does not take the rewritten PTX"),
        }
    }
}

impl Refusal {
    /// Returns the remedy, or `None` where none is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::OnStack => Some("compile with -O2"),
            Self::NoMask | Self::NoVersion => Some("compile with GCC 12 or later, for PTX 6.0 or later"),
            Self::TooManySlots => {
                Some("name fewer variables in the region: put scalars into a structure, or arrays into one")
            }
            Self::Architecture(_) => Some("use a GPU of sm_70 or later"),
            Self::Driver => Some("update the NVIDIA driver"),
            Self::KeptInMemory | Self::UnknownUse(_) | Self::NoLoad => None,
        }
    }
}
