//! A sorted map from start address to what a lookup needs, in chunks that can be searched in few cache lines.

use super::entry::EntryId;
use accord_types::DevicePtr;

/// Most addresses in a chunk. With 128 the upper level of 100,000 addresses still fits in the L1 cache, and a
/// search in a chunk accesses four cache lines.
const CHUNK_MAX: usize = 128;
/// A chunk this small is joined to its neighbour if both together stay below half of a full one.
const CHUNK_SMALL: usize = 16;

/// An ordered index of addresses with two levels: the first address of every chunk, then the chunks.
#[derive(Default)]
pub(super) struct Index {
    firsts: Vec<usize>,
    chunks: Vec<Chunk>,
    len: usize,
    /// Storage of the last chunk that became empty, for the next one.
    spare: Chunk,
}

#[derive(Default)]
struct Chunk {
    starts: Vec<usize>,
    leaves: Vec<Leaf>,
}

/// The properties of the entry at an address that need no access to it: a lookup that stays here costs one cache miss
/// less.
#[derive(Clone, Copy)]
pub(super) struct Leaf {
    /// One past the entry's last byte.
    pub(super) end: usize,
    /// The entry.
    pub(super) id: EntryId,
    /// Its device address, once known.
    pub(super) device: Option<DevicePtr>,
}

// Two in a cache line, none across two.
const _: () = assert!(size_of::<Leaf>() == 32);

/// A place in an [`Index`], valid until it changes.
#[derive(Clone, Copy)]
pub(super) struct Position {
    chunk: usize,
    at: usize,
}

impl Index {
    /// Number of addresses.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The greatest address that is not above `address`.
    #[inline]
    pub(super) fn floor(&self, address: usize) -> Option<Position> {
        let chunk = upper_bound(&self.firsts, address).checked_sub(1)?;
        // The chunk's first address is not above `address`, so the difference is at least 1.
        let at = upper_bound(&self.chunks[chunk].starts, address) - 1;
        Some(Position { chunk, at })
    }

    /// Returns the place after `position`, or the first place of all.
    #[inline]
    pub(super) fn after(&self, position: Option<Position>) -> Option<Position> {
        let Some(Position { chunk, at }) = position else {
            return (!self.chunks.is_empty()).then_some(Position { chunk: 0, at: 0 });
        };
        if at + 1 < self.chunks[chunk].starts.len() {
            return Some(Position { chunk, at: at + 1 });
        }
        (chunk + 1 < self.chunks.len()).then_some(Position { chunk: chunk + 1, at: 0 })
    }

    /// Returns the address at a position, and the entry there.
    #[inline]
    pub(super) fn at(&self, position: Position) -> (usize, Leaf) {
        let chunk = &self.chunks[position.chunk];
        (chunk.starts[position.at], chunk.leaves[position.at])
    }

    /// Adds an address that is not there yet.
    pub(super) fn insert(&mut self, start: usize, leaf: Leaf) {
        self.len += 1;
        if self.chunks.is_empty() {
            let mut chunk = std::mem::take(&mut self.spare);
            chunk.starts.push(start);
            chunk.leaves.push(leaf);
            self.chunks.push(chunk);
            self.firsts.push(start);
            return;
        }
        let at = upper_bound(&self.firsts, start).saturating_sub(1);
        let chunk = &mut self.chunks[at];
        let place = upper_bound(&chunk.starts, start);
        chunk.starts.insert(place, start);
        chunk.leaves.insert(place, leaf);
        self.firsts[at] = chunk.starts[0];
        if chunk.starts.len() > CHUNK_MAX {
            // Addresses in ascending order leave full chunks behind.
            let half = if place + 1 == chunk.starts.len() { place } else { chunk.starts.len() / 2 };
            let upper = Chunk { starts: chunk.starts.split_off(half), leaves: chunk.leaves.split_off(half) };
            self.firsts.insert(at + 1, upper.starts[0]);
            self.chunks.insert(at + 1, upper);
        }
    }

    /// Records the device address of the entry that begins at `start`.
    pub(super) fn place(&mut self, start: usize, device: DevicePtr) {
        if let Some(Position { chunk, at }) = self.floor(start)
            && self.chunks[chunk].starts[at] == start
        {
            self.chunks[chunk].leaves[at].device = Some(device);
        }
    }

    /// Removes an address. Returns whether it was there.
    pub(super) fn remove(&mut self, start: usize) -> bool {
        let Some(Position { chunk: at, at: place }) = self.floor(start) else { return false };
        let chunk = &mut self.chunks[at];
        if chunk.starts[place] != start {
            return false;
        }
        chunk.starts.remove(place);
        chunk.leaves.remove(place);
        self.len -= 1;
        if chunk.starts.is_empty() {
            self.firsts.remove(at);
            self.spare = self.chunks.remove(at);
        } else {
            self.firsts[at] = chunk.starts[0];
            if chunk.starts.len() < CHUNK_SMALL {
                self.join(at);
            }
        }
        true
    }

    /// Returns all entries in order of their addresses.
    pub(super) fn ids(&self) -> impl Iterator<Item = EntryId> + '_ {
        self.chunks.iter().flat_map(|chunk| chunk.leaves.iter().map(|leaf| leaf.id))
    }

    /// Panics if the order or the two levels are inconsistent.
    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.firsts.len(), self.chunks.len());
        let mut before = None;
        for (first, chunk) in self.firsts.iter().zip(&self.chunks) {
            assert!(!chunk.starts.is_empty() && chunk.starts.len() <= CHUNK_MAX);
            assert_eq!(chunk.starts.len(), chunk.leaves.len());
            assert_eq!(*first, chunk.starts[0]);
            for start in &chunk.starts {
                assert!(before < Some(*start));
                before = Some(*start);
            }
        }
        assert_eq!(self.len, self.ids().count());
    }

    fn join(&mut self, at: usize) {
        let left = if at > 0 { at - 1 } else { at };
        let Some(right) = self.chunks.get(left + 1) else { return };
        if self.chunks[left].starts.len() + right.starts.len() > CHUNK_MAX / 2 {
            return;
        }
        let mut right = self.chunks.remove(left + 1);
        self.firsts.remove(left + 1);
        self.chunks[left].starts.append(&mut right.starts);
        self.chunks[left].leaves.append(&mut right.leaves);
    }
}

/// Returns the number of addresses that are not above `address`. The standard library's search has no branch that depends on
/// them; one that does costs three times as much.
#[inline]
fn upper_bound(sorted: &[usize], address: usize) -> usize {
    sorted.partition_point(|start| *start <= address)
}
