//! The identity of a thread and its process: a forked child is another process, and its one thread another thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts forks up to this process: state of an earlier count belongs to a parent.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Returns [`GENERATION`].
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Invalidates marks of calls in threads' states, which do not hold in a forked child.
pub(crate) fn forget_all() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Returns the kernel's number of this thread, queried once.
pub(crate) fn id() -> i32 {
    thread_local! {
        static ID: Cell<(u32, i32)> = const { Cell::new((0, 0)) };
    }
    let generation = GENERATION.load(Ordering::Relaxed);
    let (asked, id) = ID.get();
    if id != 0 && asked == generation {
        return id;
    }
    // SAFETY: has no preconditions.
    let id = unsafe { libc::gettid() };
    ID.set((generation, id));
    id
}
