//! A cache of mappings that the kernel has reported.
//!
//! A query costs more than a small copy. So answers are kept until [`forget`] reports that mappings may have changed.
//! An answer belongs to the moment of its query, and is valid only while that is the current one. A look-up needs no
//! lock and no system call. Nothing is kept before [`watch`] was called.

use super::mapping::{Access, Mapping};
use accord_types::HostRange;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// The current moment: the number of changes of mappings. 0 while changes are not reported.
static MOMENT: AtomicU64 = AtomicU64::new(0);
static TABLE: Table = Table::new();

/// Starts to keep answers: from now on all code that changes the process's mappings must call [`forget`] afterwards.
pub fn watch() {
    let _ = MOMENT.compare_exchange(0, 1, Ordering::Release, Ordering::Relaxed);
}

/// Invalidates all answers, because mappings may have changed. Async-signal-safe.
pub fn forget() {
    if MOMENT.load(Ordering::Relaxed) != 0 {
        MOMENT.fetch_add(1, Ordering::Release);
    }
}

/// Invalidates all answers, and what devices know of these addresses, which have other pages now, or none.
/// Async-signal-safe.
pub fn forget_pages(range: HostRange) {
    accord_device::replaced_pages(range);
    forget();
}

/// Resets the cache in a forked child, which has none of the parent's threads.
pub fn forget_after_fork() {
    TABLE.writing.store(false, Ordering::Relaxed);
    forget();
}

/// Returns the moment for answers to queries from now on; `None` if they must not be kept.
pub(super) fn moment() -> Option<u64> {
    Some(MOMENT.load(Ordering::Acquire)).filter(|moment| *moment != 0)
}

/// The known answer about a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CachedAccess {
    /// The access is possible.
    Yes,
    /// All of it is read-only.
    ReadOnly,
    /// The mapping allows the access, but its file may have become shorter.
    IfThere,
    /// Nothing is known.
    No,
}

/// Returns the known answer about a range at a moment.
pub(super) fn find(moment: u64, range: HostRange, access: Access) -> CachedAccess {
    TABLE.find(moment, range, access)
}

/// Keeps the answer of a query that was made at a moment.
pub(super) fn keep(moment: u64, mapping: Mapping) {
    let end = program_break();
    // Mappings after the break change without a report.
    let heap = (mapping.start..mapping.end).contains(&end.saturating_sub(1));
    TABLE.keep(moment, if heap { Mapping { end, ..mapping } } else { mapping }, heap);
}

/// Counts small ranges without a known answer. A query for the whole mapping costs more than one for a range, so only
/// some make it. It pays off if more follow, and does not cost much otherwise.
pub(super) fn turn() -> u32 {
    static TURN: AtomicU32 = AtomicU32::new(0);
    TURN.fetch_add(1, Ordering::Relaxed)
}

/// Returns the end of the heap, which the C library moves without a report. The call needs no system call.
fn program_break() -> usize {
    // SAFETY: moves nothing.
    unsafe { libc::sbrk(0) }.addr()
}

/// More mappings than most programs copy from and to.
const SLOTS: usize = 32;
/// Bits of a stamp for a number. Each write to a slot has a unique stamp: the moment and the number.
const NUMBER_BITS: u32 = 20;

const READABLE: usize = 1;
const WRITABLE: usize = 2;
const FILE: usize = 4;
const HEAP: usize = 8;

struct Slot {
    /// 0 while the slot is empty or being written.
    stamp: AtomicU64,
    start: AtomicUsize,
    end: AtomicUsize,
    what: AtomicUsize,
}

impl Slot {
    const fn new() -> Self {
        let (start, end, what) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        Self { stamp: AtomicU64::new(0), start, end, what }
    }
}

struct Table {
    slots: [Slot; SLOTS],
    /// Slots from here on were never used.
    used: AtomicUsize,
    /// Whether a thread is writing. Other threads keep no answers meanwhile.
    writing: AtomicBool,
    writes: AtomicU64,
}

impl Table {
    const fn new() -> Self {
        Self {
            slots: [const { Slot::new() }; SLOTS],
            used: AtomicUsize::new(0),
            writing: AtomicBool::new(false),
            writes: AtomicU64::new(0),
        }
    }

    fn find(&self, moment: u64, range: HostRange, access: Access) -> CachedAccess {
        let Some(end) = range.start.checked_add(range.len) else { return CachedAccess::No };
        let used = self.used.load(Ordering::Acquire).min(SLOTS);
        for slot in &self.slots[..used] {
            let stamp = slot.stamp.load(Ordering::Acquire);
            if stamp >> NUMBER_BITS != moment {
                continue;
            }
            let (from, to) = (slot.start.load(Ordering::Relaxed), slot.end.load(Ordering::Relaxed));
            let what = slot.what.load(Ordering::Relaxed);
            if range.start < from || to < end {
                continue;
            }
            fence(Ordering::Acquire);
            if slot.stamp.load(Ordering::Relaxed) != stamp {
                continue;
            }
            if what & HEAP != 0 && end > program_break() {
                return CachedAccess::No;
            }
            let allowed = match access {
                Access::Read => what & READABLE != 0,
                Access::Write => what & WRITABLE != 0,
            };
            return match (allowed, what & FILE != 0) {
                (true, false) => CachedAccess::Yes,
                (true, true) => CachedAccess::IfThere,
                (false, _) if what & READABLE != 0 => CachedAccess::ReadOnly,
                (false, _) => CachedAccess::No,
            };
        }
        CachedAccess::No
    }

    fn keep(&self, moment: u64, mapping: Mapping, heap: bool) {
        if self.writing.swap(true, Ordering::Acquire) {
            return;
        }
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let used = self.used.load(Ordering::Relaxed);
        let old = |slot: &&Slot| {
            let stamp = slot.stamp.load(Ordering::Relaxed);
            // Mappings grow: an entry at the same place is the same mapping, or is outdated.
            let (from, to) = (slot.start.load(Ordering::Relaxed), slot.end.load(Ordering::Relaxed));
            stamp >> NUMBER_BITS != moment || (from < mapping.end && mapping.start < to)
        };
        let slot = match self.slots[..used].iter().find(old) {
            Some(slot) => slot,
            None if used < SLOTS => {
                self.used.store(used + 1, Ordering::Release);
                &self.slots[used]
            }
            None => &self.slots[number as usize % SLOTS],
        };
        slot.stamp.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        slot.start.store(mapping.start, Ordering::Relaxed);
        slot.end.store(mapping.end, Ordering::Relaxed);
        let bit = |set: bool, bit: usize| if set { bit } else { 0 };
        let what = bit(mapping.readable, READABLE) | bit(mapping.writable, WRITABLE);
        slot.what.store(what | bit(mapping.file, FILE) | bit(heap, HEAP), Ordering::Relaxed);
        let number = number & ((1 << NUMBER_BITS) - 1);
        slot.stamp.store((moment << NUMBER_BITS) | number, Ordering::Release);
        self.writing.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: usize, end: usize) -> Mapping {
        Mapping { start, end, readable: true, writable: true, file: false }
    }

    fn range(start: usize, end: usize) -> HostRange {
        HostRange { start, len: end - start }
    }

    #[test]
    fn cached_mapping_is_valid_only_for_its_generation() {
        let table = Table::new();
        table.keep(1, mapping(0x1000, 0x3000), false);
        table.keep(1, Mapping { writable: false, ..mapping(0x3000, 0x4000) }, false);
        table.keep(1, Mapping { file: true, ..mapping(0x5000, 0x6000) }, false);
        table.keep(1, Mapping { readable: false, writable: false, ..mapping(0x6000, 0x7000) }, false);
        let known = |start, end, access| table.find(1, range(start, end), access);
        assert_eq!(known(0x1000, 0x3000, Access::Write), CachedAccess::Yes);
        assert_eq!(known(0x1000, 0x3001, Access::Read), CachedAccess::No, "from one mapping to the next");
        assert_eq!(known(0xfff, 0x1001, Access::Read), CachedAccess::No);
        assert_eq!(known(0x3000, 0x3008, Access::Read), CachedAccess::Yes);
        assert_eq!(known(0x3000, 0x3008, Access::Write), CachedAccess::ReadOnly);
        assert_eq!(known(0x5000, 0x5008, Access::Write), CachedAccess::IfThere);
        assert_eq!(known(0x6000, 0x6008, Access::Read), CachedAccess::No);
        assert_eq!(table.find(1, HostRange { start: usize::MAX, len: 2 }, Access::Read), CachedAccess::No);
        assert_eq!(table.find(2, range(0x1000, 0x3000), Access::Write), CachedAccess::No);
        table.keep(2, mapping(0x1000, 0x2000), false);
        assert_eq!(table.find(2, range(0x1000, 0x3000), Access::Write), CachedAccess::No);
        assert_eq!(table.find(2, range(0x1000, 0x2000), Access::Write), CachedAccess::Yes);
    }

    #[test]
    fn more_mappings_than_slots() {
        let table = Table::new();
        for nth in 1..=3 * SLOTS {
            table.keep(1, mapping(nth << 16, (nth << 16) + 0x1000), false);
            assert_eq!(table.find(1, range(nth << 16, (nth << 16) + 8), Access::Write), CachedAccess::Yes, "{nth}");
        }
    }

    #[test]
    fn a_mapping_that_has_grown_takes_its_own_place() {
        let table = Table::new();
        for end in 2..1000 {
            table.keep(1, mapping(0x1000, end << 12), false);
            assert_eq!(table.find(1, range(0x1000, end << 12), Access::Write), CachedAccess::Yes);
        }
        assert_eq!(table.used.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_heap_is_known_up_to_its_end_now() {
        let table = Table::new();
        let end = program_break();
        table.keep(1, mapping(end - 4096, end + 4096), true);
        assert_eq!(table.find(1, range(end - 8, end), Access::Write), CachedAccess::Yes);
        assert_eq!(table.find(1, range(end - 8, end + 1), Access::Write), CachedAccess::No);
    }

    #[test]
    fn concurrent_readers_see_complete_entries() {
        let table = Table::new();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for nth in 1..20_000 {
                        let at = (nth % 100 + 1) << 16;
                        table.keep(1, mapping(at, at + 0x1000), false);
                    }
                });
            }
            for nth in 1..20_000 {
                let at = (nth % 100 + 1) << 16;
                assert_eq!(table.find(1, range(at - 0x1000, at), Access::Read), CachedAccess::No);
                assert_eq!(table.find(1, range(at + 0x800, at + 0x1001), Access::Read), CachedAccess::No);
            }
        });
    }

    #[test]
    fn no_mappings_are_cached_without_change_notifications() {
        assert_eq!(moment(), None);
        forget();
        assert_eq!(moment(), None);
    }
}
