//! A job's part of a device. Amounts are integers, so that two coordinators decide alike.

/// Thousandths of a device's time that make the whole device.
pub const WHOLE: u32 = 1_000;

/// A part of one device's time and memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Amount {
    /// Thousandths of the device's time, at most [`WHOLE`].
    pub milli: u32,
    /// Bytes of the device's memory.
    pub memory: u64,
}

impl Amount {
    /// Whether `self` has at least `other` of both.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.milli >= other.milli && self.memory >= other.memory
    }
}
