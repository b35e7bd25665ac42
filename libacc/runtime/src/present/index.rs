//! A sorted map from start address to slot, in chunks that a cache line or two can search.

/// Most addresses in a chunk. 512 keeps a chunk's keys in one page and the upper level in the first cache.
const CHUNK_MAX: usize = 512;
/// A chunk this small is joined to its neighbour if both together stay below half of a full one.
const CHUNK_SMALL: usize = 64;

/// See the module. Two levels: the first address of every chunk, then the chunks.
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
    slots: Vec<u32>,
}

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

    /// The place after `position`, or the first place of all.
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

    /// The slot at a place.
    #[inline]
    pub(super) fn slot(&self, position: Position) -> u32 {
        self.chunks[position.chunk].slots[position.at]
    }

    /// Adds an address that is not there yet.
    pub(super) fn insert(&mut self, start: usize, slot: u32) {
        self.len += 1;
        if self.chunks.is_empty() {
            let mut chunk = std::mem::take(&mut self.spare);
            chunk.starts.push(start);
            chunk.slots.push(slot);
            self.chunks.push(chunk);
            self.firsts.push(start);
            return;
        }
        let at = upper_bound(&self.firsts, start).saturating_sub(1);
        let chunk = &mut self.chunks[at];
        let place = upper_bound(&chunk.starts, start);
        chunk.starts.insert(place, start);
        chunk.slots.insert(place, slot);
        self.firsts[at] = chunk.starts[0];
        if chunk.starts.len() > CHUNK_MAX {
            let half = chunk.starts.len() / 2;
            let upper = Chunk { starts: chunk.starts.split_off(half), slots: chunk.slots.split_off(half) };
            self.firsts.insert(at + 1, upper.starts[0]);
            self.chunks.insert(at + 1, upper);
        }
    }

    /// Removes an address; true if it was there.
    pub(super) fn remove(&mut self, start: usize) -> bool {
        let Some(Position { chunk: at, at: place }) = self.floor(start) else { return false };
        let chunk = &mut self.chunks[at];
        if chunk.starts[place] != start {
            return false;
        }
        chunk.starts.remove(place);
        chunk.slots.remove(place);
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

    /// All slots in order of their addresses.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.chunks.iter().flat_map(|chunk| chunk.slots.iter().copied())
    }

    /// Panics if the order or the two levels have gone wrong.
    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.firsts.len(), self.chunks.len());
        let mut before = None;
        for (first, chunk) in self.firsts.iter().zip(&self.chunks) {
            assert!(!chunk.starts.is_empty() && chunk.starts.len() <= CHUNK_MAX);
            assert_eq!(chunk.starts.len(), chunk.slots.len());
            assert_eq!(*first, chunk.starts[0]);
            for start in &chunk.starts {
                assert!(before < Some(*start));
                before = Some(*start);
            }
        }
        assert_eq!(self.len, self.slots().count());
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
        self.chunks[left].slots.append(&mut right.slots);
    }
}

/// Number of addresses that are not above `address`, without branches that depend on them.
#[inline]
fn upper_bound(sorted: &[usize], address: usize) -> usize {
    let mut base = 0;
    let mut len = sorted.len();
    while len > 1 {
        let half = len / 2;
        // A select, not a jump: the outcome is as good as random.
        base += if sorted[base + half - 1] <= address { half } else { 0 };
        len -= half;
    }
    base + usize::from(len == 1 && sorted[base] <= address)
}
