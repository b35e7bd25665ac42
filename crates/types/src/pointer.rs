//! Addresses: device addresses are typed, host addresses are opaque numbers
//! everywhere but in libacc.

use std::fmt;

/// An address in one device's memory. In the ranges of a session's devices ([`AddressRange`]) no two devices have the same.
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

/// Addresses that belong to one device: whatever it has memory for lies there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressRange {
    /// The first one.
    pub start: DevicePtr,
    /// Length in bytes.
    pub len: u64,
}

impl AddressRange {
    /// Between these the ranges of a session's devices are, in every process that drives one or uses one. Nothing else is put there by
    /// Linux: executables and their heaps are above, and so are libraries and what `mmap` gives. What sanitizers reserve is below.
    pub const WINDOW: Self = Self { start: DevicePtr(0x1100_0000_0000), len: 0x4300_0000_0000 };

    /// The same for a program under ThreadSanitizer, which has no other addresses that Linux leaves alone. It takes all of [`AddressRange::WINDOW`] for
    /// itself.
    pub const LOW_WINDOW: Self = Self { start: DevicePtr(0x10_0000_0000), len: 0x70_0000_0000 };

    /// Ranges begin and end at multiples of this.
    pub const PAGE: u64 = 2 << 20;

    /// The first address behind it.
    pub const fn end(self) -> u64 {
        self.start.0.saturating_add(self.len)
    }

    /// Whether an address is in it.
    pub const fn holds(self, address: u64) -> bool {
        address.wrapping_sub(self.start.0) < self.len
    }

    /// Whether some address is in both.
    pub const fn overlaps(self, other: Self) -> bool {
        self.start.0 < other.end() && other.start.0 < self.end()
    }

    /// Whether the other one lies in it as a whole.
    pub const fn contains(self, other: Self) -> bool {
        self.start.0 <= other.start.0 && other.end() <= self.end()
    }

    /// Whether an address is in one of the windows.
    pub const fn is_in_window(address: u64) -> bool {
        Self::WINDOW.holds(address) || Self::LOW_WINDOW.holds(address)
    }

    /// Whether it may be asked for: whole pages of one of the windows.
    pub const fn is_proper(self) -> bool {
        self.len > 0
            && (Self::WINDOW.contains(self) || Self::LOW_WINDOW.contains(self))
            && self.start.0.is_multiple_of(Self::PAGE)
            && self.len.is_multiple_of(Self::PAGE)
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

/// The time by which a copy from the program's memory has to have read it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReadWhen {
    /// Before the call returns: synchronous operations, and stack temporaries (the caller
    /// may reuse the bytes at once). The copy may still land later.
    BeforeReturn,
    /// When the queue gets there: the program has promised not to touch the bytes until it waits.
    InOrder,
}
