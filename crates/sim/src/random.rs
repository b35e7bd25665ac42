//! Random numbers from a seed.

use accord_test_tier::splitmix64;
use std::ops::Range;

/// A stream of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    /// Returns a number of the range, which must not be empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.number() % (range.end - range.start)
    }

    /// Returns an index below `len`, which must not be 0.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.number() % len as u64).unwrap_or(0)
    }

    /// Returns true in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.number() % 100 < percent
    }
}
