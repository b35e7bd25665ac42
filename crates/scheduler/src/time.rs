//! The scheduler's clock.

/// Milliseconds of a monotonic clock since the coordinator started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// Later than every other time.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the time `ms` milliseconds later.
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns the milliseconds from `earlier` to this time; 0 if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Longest expected release of an ended job's devices. A reserved start waits this long for its devices before it
/// counts as missed.
pub const RELEASE_EXPECTED_MS: u64 = 5_000;
