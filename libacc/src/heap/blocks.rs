//! Blocks of memory by address, and the program's blocks behind a lock.

use crate::raw_lock::RawLock;
use accord_types::HostRange;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks that don't overlap: first address and length in bytes.
pub(super) struct Blocks(BTreeMap<usize, usize>);

/// The distance before a block at which a pointer still belongs to it: programs that count from one keep `a - 1`. An
/// allocator has at least one word of its own there.
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

    /// Removes the block that starts here. Returns its length, if it was known.
    pub(super) fn remove(&mut self, start: usize) -> Option<usize> {
        self.0.remove(&start)
    }

    /// Returns the block that contains an address, or else the one that begins within the next word.
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

/// The blocks behind a lock. Blocks that the list itself allocates under the lock are not recorded: [`Heap::note`].
pub(super) struct Heap {
    lock: RawLock,
    /// The thread that holds the lock, or 0.
    holder: AtomicUsize,
    blocks: UnsafeCell<Blocks>,
}

// SAFETY: the blocks are reached only with the lock held.
unsafe impl Sync for Heap {}

pub(super) static HEAP: Heap =
    Heap { lock: RawLock::new(), holder: AtomicUsize::new(0), blocks: UnsafeCell::new(Blocks::new()) };

impl Heap {
    /// Runs `body` under the lock, unless this thread holds it already: the block then belongs to the list.
    pub(super) fn note<R>(&self, body: impl FnOnce(&mut Blocks) -> R) -> Option<R> {
        struct Release<'a>(&'a Heap);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.unlock();
            }
        }
        if self.holder.load(Ordering::Relaxed) == this_thread() {
            return None;
        }
        self.lock();
        let _release = Release(self);
        // SAFETY: the lock is held, and its holder does not enter again.
        Some(body(unsafe { &mut *self.blocks.get() }))
    }

    /// Records none of this thread's allocations until [`Heap::unlock`].
    pub(super) fn lock(&self) {
        self.lock.lock();
        self.holder.store(this_thread(), Ordering::Relaxed);
    }

    pub(super) fn unlock(&self) {
        self.holder.store(0, Ordering::Relaxed);
        self.lock.unlock();
    }
}

fn this_thread() -> usize {
    // SAFETY: has no preconditions.
    unsafe { libc::pthread_self() as usize }
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
    fn empty_allocations_are_not_recorded() {
        let mut blocks = Blocks::new();
        blocks.add(0x1000, 0);
        blocks.add(0, 10);
        assert_eq!(blocks.holding(0x1000), None);
        assert_eq!(blocks.holding(4), None);
        assert_eq!(blocks.remove(0x1000), None);
    }

    #[test]
    fn allocations_of_the_heap_list_itself_are_not_recorded() {
        let at = |address| HEAP.note(|blocks| blocks.holding(address)).flatten();
        let outer = HEAP.note(|blocks| {
            blocks.add(0x1000, 100);
            HEAP.note(|_| ()).is_none()
        });
        assert_eq!(outer, Some(true));
        assert_eq!(at(0x1010), Some(HostRange { start: 0x1000, len: 100 }));
        assert_eq!(HEAP.note(|blocks| blocks.remove(0x1000)), Some(Some(100)));
        assert_eq!(at(0x1010), None);
    }
}
