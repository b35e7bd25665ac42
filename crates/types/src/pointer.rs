//! Addresses: device addresses are typed, host addresses are opaque numbers
//! everywhere but in libacc.

use std::fmt;

/// An address in one device's memory. Two devices may hold equal ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DevicePtr(pub u64);

impl DevicePtr {
    /// The address `bytes` further on.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl fmt::Display for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A piece of the program's memory, as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HostRange {
    /// Address of the first byte.
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
}

impl HostRange {
    /// Whether some byte is in both.
    pub fn overlaps(self, other: Self) -> bool {
        other.start < self.start.saturating_add(self.len) && self.start < other.start.saturating_add(other.len)
    }
}

/// When a copy from the program's memory has to have read it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReadWhen {
    /// Before the call returns: synchronous operations, and stack temporaries (the caller
    /// may reuse the bytes at once). The copy may still land later.
    BeforeReturn,
    /// When the queue gets there: the program has promised not to touch the bytes until it waits.
    InOrder,
}
