//! Counts what is taken from the heap.

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
        // At a thread's end its counter is gone.
        let _ = HERE.try_with(|count| count.set(count.get() + 1));
    }
}

// SAFETY: hands every call on to the system's allocator as it came.
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

/// By this thread.
pub(crate) fn here() -> u64 {
    HERE.get()
}

/// By all threads.
#[allow(dead_code)]
pub(crate) fn everywhere() -> u64 {
    EVERYWHERE.load(Ordering::Relaxed)
}
