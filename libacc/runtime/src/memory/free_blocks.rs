//! The free blocks of a device's memory, by their addresses and by their lengths.

use crate::queues::After;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A free block: its length, and the moment after which it may be used again.
#[derive(Clone, Copy)]
pub(super) struct Free {
    pub(super) len: u64,
    pub(super) after: After,
}

/// All free blocks.
#[derive(Default)]
pub(super) struct FreeBlocks {
    by_start: BTreeMap<u64, Free>,
    by_len: BTreeSet<(u64, u64)>,
    bytes: u64,
}

impl FreeBlocks {
    /// Returns the sum of their lengths.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns their number.
    pub(super) fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Returns the lowest address of them.
    pub(super) fn first(&self) -> Option<&u64> {
        self.by_start.keys().next()
    }

    /// Returns the block that starts here.
    pub(super) fn get(&self, start: u64) -> Option<Free> {
        self.by_start.get(&start).copied()
    }

    /// Returns the last block that starts before an address.
    pub(super) fn before(&self, address: u64) -> Option<(u64, Free)> {
        self.by_start.range(..address).next_back().map(|(start, free)| (*start, *free))
    }

    /// Returns the blocks in the order of their addresses.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Free)> {
        self.by_start.iter().map(|(start, free)| (*start, *free))
    }

    /// Returns the starts of the blocks with these lengths, the shortest first.
    pub(super) fn of_len(&self, lengths: Range<u64>) -> impl Iterator<Item = u64> {
        self.by_len.range((lengths.start, 0)..(lengths.end, 0)).map(|(_, start)| *start)
    }

    /// Returns the blocks, the longest first.
    pub(super) fn longest_first(&self) -> impl Iterator<Item = (u64, Free)> {
        self.by_len.iter().rev().filter_map(|(_, start)| Some((*start, self.get(*start)?)))
    }

    /// Adds a block without joining it with its neighbours.
    pub(super) fn put(&mut self, start: u64, free: Free) {
        self.bytes += free.len;
        self.by_len.insert((free.len, start));
        self.by_start.insert(start, free);
    }

    /// Removes the block that starts here.
    pub(super) fn take(&mut self, start: u64) -> Option<Free> {
        let free = self.by_start.remove(&start)?;
        self.by_len.remove(&(free.len, start));
        self.bytes -= free.len;
        Some(free)
    }

    /// Adds a block, joined with neighbours that wait for the same, except across an address for which `is_border` holds. Returns its start then.
    pub(super) fn insert(&mut self, mut start: u64, mut free: Free, is_border: impl Fn(u64) -> bool) -> u64 {
        let joins = |a: After, b: After| a.queue == b.queue && (a == After::NOTHING) == (b == After::NOTHING);
        if let Some((before, left)) = self.before(start)
            && before + left.len == start
            && !is_border(start)
            && joins(left.after, free.after)
        {
            self.take(before);
            start = before;
            free.len += left.len;
            free.after.moment = free.after.moment.max(left.after.moment);
        }
        if let Some(right) = self.get(start + free.len)
            && !is_border(start + free.len)
            && joins(right.after, free.after)
        {
            self.take(start + free.len);
            free.len += right.len;
            free.after.moment = free.after.moment.max(right.after.moment);
        }
        self.put(start, free);
        start
    }

    /// Joins all neighbours, except across an address for which `is_border` holds. A joined block is free from the latest moment of its parts.
    pub(super) fn join_all(&mut self, is_border: impl Fn(u64) -> bool) {
        let mut joined: Option<(u64, Free)> = None;
        for (start, free) in std::mem::take(self).by_start {
            match &mut joined {
                Some((first, sum)) if *first + sum.len == start && !is_border(start) => {
                    sum.len += free.len;
                    let moment = sum.after.moment.max(free.after.moment);
                    let queue = if sum.after.queue == free.after.queue { free.after.queue } else { None };
                    sum.after = After { queue, moment };
                }
                _ => {
                    if let Some((start, free)) = joined.replace((start, free)) {
                        self.put(start, free);
                    }
                }
            }
        }
        if let Some((start, free)) = joined {
            self.put(start, free);
        }
    }

    /// Panics if the two orders or the sum differ. Returns starts and lengths of the blocks.
    #[cfg(test)]
    pub(super) fn check_invariants(&self) -> Vec<(u64, u64)> {
        let all: Vec<_> = self.iter().map(|(start, free)| (start, free.len)).collect();
        let by_len: BTreeSet<_> = self.by_len.iter().map(|(len, start)| (*start, *len)).collect();
        assert_eq!(by_len, all.iter().copied().collect());
        assert_eq!(self.bytes, all.iter().map(|(_, len)| len).sum::<u64>());
        all
    }
}
