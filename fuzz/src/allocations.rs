//! Counts the heap allocations of a thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[derive(Clone, Copy, Default)]
struct Count {
    now: usize,
    most: usize,
    calls: u32,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { now: 0, most: 0, calls: 0 }) };
}

/// The system's allocator, with counters.
pub(crate) struct Counting;

/// The allocations of one piece of work: the most bytes at one time, and the number of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AllocationUse {
    /// Most bytes allocated at one time.
    pub most: usize,
    /// Number of allocations.
    pub calls: u32,
}

/// Runs `work` and returns its result with its allocations.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, AllocationUse) {
    COUNT.set(Count::default());
    let result = work();
    let Count { most, calls, .. } = COUNT.get();
    (result, AllocationUse { most, calls })
}

fn taken(bytes: usize) {
    // The counter is gone once the thread's locals are destroyed.
    let _ = COUNT.try_with(|cell| {
        let count = cell.get();
        let now = count.now.saturating_add(bytes);
        cell.set(Count { now, most: count.most.max(now), calls: count.calls.wrapping_add(1) });
    });
}

fn given_back(bytes: usize) {
    let _ = COUNT.try_with(|cell| {
        let count = cell.get();
        cell.set(Count { now: count.now.saturating_sub(bytes), ..count });
    });
}

// SAFETY: passes every call unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: required of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: required of the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        given_back(layout.size());
        // SAFETY: required of the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        given_back(layout.size());
        taken(size);
        // SAFETY: required of the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
