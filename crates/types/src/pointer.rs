//! Addresses: device addresses are typed, host addresses are opaque numbers
//! everywhere but in libacc.

use std::fmt;

/// An address in one device's memory. Addresses in the ranges of a session's devices ([`AddressRange`]) are unique
/// among these devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DevicePtr(pub u64);

impl DevicePtr {
    /// Returns the address `bytes` further on.
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

/// Addresses that belong to one device: all its memory lies there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressRange {
    /// The first address.
    pub start: DevicePtr,
    /// Length in bytes.
    pub len: u64,
}

impl AddressRange {
    /// The window that holds the ranges of a session's devices, in every process that drives or uses one. Linux puts
    /// nothing else there: executables, heaps, libraries and mappings are above. Memory that sanitizers reserve is
    /// below.
    pub const WINDOW: Self = Self { start: DevicePtr(0x1100_0000_0000), len: 0x4300_0000_0000 };

    /// The window for a program under ThreadSanitizer, which reserves all of [`AddressRange::WINDOW`].
    pub const LOW_WINDOW: Self = Self { start: DevicePtr(0x10_0000_0000), len: 0x70_0000_0000 };

    /// Alignment of the ranges' starts and ends.
    pub const PAGE: u64 = 2 << 20;

    /// Returns the first address after the range.
    pub const fn end(self) -> u64 {
        self.start.0.saturating_add(self.len)
    }

    /// Whether an address is in the range.
    pub const fn holds(self, address: u64) -> bool {
        address.wrapping_sub(self.start.0) < self.len
    }

    /// Whether some address is in both ranges.
    pub const fn overlaps(self, other: Self) -> bool {
        self.start.0 < other.end() && other.start.0 < self.end()
    }

    /// Whether the other range lies completely in this one.
    pub const fn contains(self, other: Self) -> bool {
        self.start.0 <= other.start.0 && other.end() <= self.end()
    }

    /// Whether an address is in one of the windows.
    pub const fn is_in_window(address: u64) -> bool {
        Self::WINDOW.holds(address) || Self::LOW_WINDOW.holds(address)
    }

    /// Whether a device may request the range: whole pages of one of the windows.
    pub const fn is_proper(self) -> bool {
        self.len > 0
            && (Self::WINDOW.contains(self) || Self::LOW_WINDOW.contains(self))
            && self.start.0.is_multiple_of(Self::PAGE)
            && self.len.is_multiple_of(Self::PAGE)
    }
}

/// A range of the program's memory, as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HostRange {
    /// Address of the first byte.
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
}

impl HostRange {
    /// Whether some byte is in both ranges.
    pub fn overlaps(self, other: Self) -> bool {
        other.start < self.start.saturating_add(self.len) && self.start < other.start.saturating_add(other.len)
    }
}

/// The time by which a copy from the program's memory must have read it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReadWhen {
    /// Before the call returns: synchronous operations, and stack temporaries (the caller may reuse the bytes at once).
    /// The copy may complete later.
    BeforeReturn,
    /// When the queue reaches the copy: the program has promised not to touch the bytes until it waits.
    InOrder,
}
