//! Memory at places that the driver chooses: each slab is one of its allocations, and is returned as a whole.

use std::collections::BTreeMap;

/// Usual size of a slab.
const SLAB: u64 = 256 << 20;
/// Blocks of this size have a slab of their own: the rest of a usual one would be too large.
const ALONE: u64 = SLAB / 4;

/// The slabs of a device's memory.
#[derive(Default)]
pub(super) struct Slabs {
    /// Their lengths by their start.
    known: BTreeMap<u64, u64>,
    /// The device has refused more than was needed.
    saves: bool,
}

impl Slabs {
    pub(super) fn add(&mut self, start: u64, len: u64) {
        self.known.insert(start, len);
    }

    pub(super) fn remove(&mut self, start: u64) {
        self.known.remove(&start);
    }

    /// Returns the least allocation for a block that needs `least`.
    pub(super) fn growth(&self, least: u64) -> u64 {
        if self.saves || least >= ALONE { least } else { SLAB }
    }

    /// Allocates no more than necessary from now on. Returns whether this is the first time.
    pub(super) fn begin_to_save(&mut self) -> bool {
        !std::mem::replace(&mut self.saves, true)
    }

    /// Whether these bytes are one slab, from its start to its end.
    pub(super) fn is_one(&self, start: u64, len: u64) -> bool {
        self.known.get(&start) == Some(&len)
    }

    pub(super) fn begins_at(&self, address: u64) -> bool {
        self.known.contains_key(&address)
    }

    pub(super) fn hold(&self, address: u64) -> bool {
        self.known.range(..=address).next_back().is_some_and(|(start, len)| address - start < *len)
    }

    #[cfg(test)]
    pub(super) fn is_within_one(&self, start: u64, len: u64) -> bool {
        self.known.range(..=start).next_back().is_some_and(|(first, all)| start + len <= first + all)
    }
}
