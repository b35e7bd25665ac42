//! Counts what a thread takes from the heap.

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

/// The system's allocator, counted.
pub(crate) struct Counting;

/// What one piece of work took: most bytes at one time, and allocations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    /// Bytes.
    pub most: usize,
    /// Allocations.
    pub calls: u32,
}

/// Does some work and tells what it took.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, Taken) {
    COUNT.set(Count::default());
    let result = work();
    let Count { most, calls, .. } = COUNT.get();
    (result, Taken { most, calls })
}

fn taken(bytes: usize) {
    // At a thread's end its counter is gone.
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

// SAFETY: hands every call on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        given_back(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        given_back(layout.size());
        taken(size);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
