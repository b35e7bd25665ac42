//! Time as the scheduler sees it.

/// Milliseconds of a monotonic clock since the coordinator started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// Later than every time that occurs.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the time `ms` milliseconds later.
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns the milliseconds from `earlier` to this time, or 0 if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The release of an ended job's devices is expected to take no longer. A reserved start waits so long for its devices before it counts as
/// missed.
pub const RELEASE_EXPECTED_MS: u64 = 5_000;
