//! Counts heap allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
}
static EVERYWHERE: AtomicU64 = AtomicU64::new(0);

struct Counting;

impl Counting {
    fn count() {
        EVERYWHERE.fetch_add(1, Ordering::Relaxed);
        // The counter no longer exists while its thread ends.
        let _ = HERE.try_with(|count| count.set(count.get() + 1));
    }
}

// SAFETY: passes every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        Self::count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, len) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the number of allocations by this thread.
pub(crate) fn here() -> u64 {
    HERE.get()
}

/// Returns the number of allocations by all threads.
#[allow(dead_code)]
pub(crate) fn everywhere() -> u64 {
    EVERYWHERE.load(Ordering::Relaxed)
}
