//! Which thread of which process this is: a forked child is another process, and its one thread another thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts forks on the way to this process: state of an earlier count belongs to a parent.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Returns [`GENERATION`].
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Invalidates earlier calls' marks in threads' states, as they are a forked child's no more.
pub(crate) fn forget_all() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The kernel's number of this thread, asked for once.
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
