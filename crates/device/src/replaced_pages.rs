//! The program's memory that devices have page-locked, for the code that observes changes of mappings. When an address gets other
//! pages, the device's engines would still use the old ones. A change is only recorded here, without a lock, because it may
//! happen at any point of the program.

use accord_types::HostRange;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Most ranges that are page-locked at a time.
pub const RANGES_MAX: usize = 256;

/// A range, or none from 0 to 0.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    /// Distinguishes the range from others in the same slot.
    ticket: AtomicUsize,
    replaced: AtomicBool,
}

impl Slot {
    const fn new() -> Self {
        let [start, end, ticket] = [const { AtomicUsize::new(0) }; 3];
        Self { start, end, ticket, replaced: AtomicBool::new(false) }
    }
}

/// The ranges of the process.
pub struct Ranges {
    slots: [Slot; RANGES_MAX],
    /// Number of slots that were ever used.
    used: AtomicUsize,
    /// Whether the pages of any slot were replaced.
    any: AtomicBool,
}

/// The ranges of this process.
pub static RANGES: Ranges = Ranges::new();

/// A range of the program's memory has other pages from now on, or none. Safe in signal handlers.
pub fn replaced(range: HostRange) {
    RANGES.replaced(range);
}

impl Ranges {
    const fn new() -> Self {
        Self { slots: [const { Slot::new() }; RANGES_MAX], used: AtomicUsize::new(0), any: AtomicBool::new(false) }
    }

    fn used(&self) -> &[Slot] {
        &self.slots[..self.used.load(Ordering::Acquire).min(RANGES_MAX)]
    }

    fn replaced(&self, range: HostRange) {
        let end = range.start.saturating_add(range.len);
        for slot in self.used() {
            let (from, to) = (slot.start.load(Ordering::Acquire), slot.end.load(Ordering::Acquire));
            if range.start < to && from < end {
                slot.replaced.store(true, Ordering::Release);
                self.any.store(true, Ordering::Release);
            }
        }
    }

    /// Whether [`Ranges::take`] would return ranges.
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Returns the first bytes of ranges whose pages were replaced since the last call. Only one thread at a time may call this, as
    /// [`Ranges::set`].
    pub fn take(&self) -> Vec<usize> {
        self.any.store(false, Ordering::Release);
        let replaced = self.used().iter().filter(|slot| slot.replaced.swap(false, Ordering::AcqRel));
        replaced.map(|slot| slot.start.load(Ordering::Relaxed)).filter(|start| *start != 0).collect()
    }

    /// Replaces the ranges, at most [`RANGES_MAX`], each with its own ticket.
    pub fn set(&self, ranges: impl Iterator<Item = (HostRange, u64)> + Clone) {
        let ticket = |slot: &Slot| slot.ticket.load(Ordering::Relaxed);
        for slot in self.used() {
            let stays = ranges.clone().any(|(range, known)| {
                known as usize == ticket(slot) && range.start == slot.start.load(Ordering::Relaxed)
            });
            if !stays {
                slot.end.store(0, Ordering::Release);
                slot.start.store(0, Ordering::Release);
                slot.ticket.store(0, Ordering::Relaxed);
                slot.replaced.store(false, Ordering::Release);
            }
        }
        for (range, known) in ranges {
            if self.used().iter().any(|slot| ticket(slot) == known as usize) {
                continue;
            }
            let free = self.slots.iter().position(|slot| ticket(slot) == 0);
            let Some(slot) = free.map(|at| (at, &self.slots[at])) else { return };
            slot.1.ticket.store(known as usize, Ordering::Relaxed);
            slot.1.start.store(range.start, Ordering::Release);
            slot.1.end.store(range.start + range.len, Ordering::Release);
            self.used.fetch_max(slot.0 + 1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: usize, len: usize) -> HostRange {
        HostRange { start, len }
    }

    #[test]
    fn replaced_pages_of_a_range_are_reported_once() {
        let ranges = Box::new(Ranges::new());
        let set = |all: &[(usize, usize, u64)]| ranges.set(all.iter().map(|(start, len, t)| (range(*start, *len), *t)));
        set(&[(4096, 8192, 1), (65536, 4096, 2)]);
        for beside in [range(0, 4096), range(12288, 4096), range(0, 0)] {
            ranges.replaced(beside);
            assert!(!ranges.any(), "{beside:?}");
        }
        ranges.replaced(range(12287, 1));
        assert!(ranges.any());
        assert_eq!((ranges.take(), ranges.any()), (vec![4096], false));
        ranges.replaced(range(0, usize::MAX));
        assert_eq!(ranges.take(), [4096, 65536]);
        assert_eq!(ranges.take(), []);
        // A removed range is not reported, and another one may use its slot.
        ranges.replaced(range(4096, 1));
        set(&[(65536, 4096, 2), (4096, 4096, 3)]);
        assert_eq!(ranges.take(), []);
        ranges.replaced(range(4096, 1));
        assert_eq!(ranges.take(), [4096]);
        assert_eq!(ranges.used().len(), 2);
    }

    #[test]
    fn replaced_ranges_are_bounded() {
        let ranges = Box::new(Ranges::new());
        ranges.set((1..=RANGES_MAX + 1).map(|n| (range(n << 16, 4096), n as u64)));
        ranges.replaced(range(0, usize::MAX));
        assert_eq!(ranges.take().len(), RANGES_MAX);
    }
}
