//! Blocks of memory by address.

use accord_types::HostRange;
use std::collections::BTreeMap;

/// Blocks that don't overlap: first address and length in bytes.
pub(super) struct Blocks(BTreeMap<usize, usize>);

/// How far before a block a pointer may lie and still mean it: programs that count from one keep `a - 1`. An allocator has at
/// least a word of its own there.
const BEFORE: usize = 8;

impl Blocks {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn add(&mut self, start: usize, len: usize) {
        if start != 0 && len > 0 {
            self.0.insert(start, len);
        }
    }

    /// Forgets the block that starts here; its length, if it was known.
    pub(super) fn remove(&mut self, start: usize) -> Option<usize> {
        self.0.remove(&start)
    }

    /// The block that holds an address, or else the one that begins within a word behind it.
    pub(super) fn holding(&self, address: usize) -> Option<HostRange> {
        let near = self.0.range(..=address.saturating_add(BEFORE)).rev().take(2);
        let found = near.map(|(start, len)| HostRange { start: *start, len: *len });
        let mut before = None;
        for block in found {
            if block.start <= address {
                return if address - block.start < block.len { Some(block) } else { before };
            }
            before = Some(block);
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_block_that_holds_it() {
        let mut blocks = Blocks::new();
        blocks.add(0x1000, 0x100);
        blocks.add(0x2000, 0x18);
        blocks.add(0x2020, 0x10);
        let at = |address| blocks.holding(address).map(|block| block.start);
        assert_eq!(at(0x1000), Some(0x1000));
        assert_eq!(at(0x10ff), Some(0x1000));
        assert_eq!(at(0x1100), None, "one past the end is no longer in it");
        assert_eq!((at(0xff8), at(0xff0)), (Some(0x1000), None), "counted from one");
        assert_eq!((at(0x2017), at(0x2018), at(0x201c)), (Some(0x2000), Some(0x2020), Some(0x2020)));
        assert_eq!((at(0), at(usize::MAX)), (None, None));
    }

    #[test]
    fn what_holds_nothing_is_no_block() {
        let mut blocks = Blocks::new();
        blocks.add(0x1000, 0);
        blocks.add(0, 10);
        assert_eq!(blocks.holding(0x1000), None);
        assert_eq!(blocks.holding(4), None);
        assert_eq!(blocks.remove(0x1000), None);
    }
}
