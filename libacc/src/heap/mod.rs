//! The program's heap blocks, for `ACCORD_UNMAPPED=map`: which block does an address lie in?
//!
//! No allocator tells that of a pointer into the middle of a block, so the calls that make and end blocks come by here
//! (`exports.rs`). Without the setting that is one jump to the next `malloc`: the C library's, or another one's that the
//! program is linked with. With it each call also notes its block. Blocks that were made before this library's
//! constructors, by `mmap`, or by an allocator that comes before this library, are not known.

mod blocks;
mod exports;

use crate::raw_lock::RawLock;
use crate::settings;
use accord_types::HostRange;
use blocks::Blocks;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The blocks behind a lock. What the list itself allocates while it is locked is not noted: [`Heap::note`].
struct Heap {
    lock: RawLock,
    /// The thread that holds the lock, 0 if none does.
    holder: AtomicUsize,
    blocks: UnsafeCell<Blocks>,
}

// SAFETY: the blocks are reached only with the lock held.
unsafe impl Sync for Heap {}

static HEAP: Heap = Heap { lock: RawLock::new(), holder: AtomicUsize::new(0), blocks: UnsafeCell::new(Blocks::new()) };

impl Heap {
    /// Runs `body` with the lock held, unless this thread holds it already: then the block is the list's own.
    fn note<R>(&self, body: impl FnOnce(&mut Blocks) -> R) -> Option<R> {
        struct Release<'a>(&'a Heap);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.holder.store(0, Ordering::Relaxed);
                self.0.lock.unlock();
            }
        }
        // SAFETY: has no preconditions.
        let me = unsafe { libc::pthread_self() } as usize;
        if self.holder.load(Ordering::Relaxed) == me {
            return None;
        }
        self.lock.lock();
        self.holder.store(me, Ordering::Relaxed);
        let _release = Release(self);
        // SAFETY: the lock is held, and its holder does not come here again.
        Some(body(unsafe { &mut *self.blocks.get() }))
    }
}

/// The known block that an address lies in, or just before: see [`Blocks::holding`].
pub(crate) fn block_of(address: usize) -> Option<HostRange> {
    HEAP.note(|blocks| blocks.holding(address)).flatten()
}

/// Where the program break was at the start: what the C library takes by moving it lies above.
static HEAP_START: AtomicUsize = AtomicUsize::new(usize::MAX);

/// From here on it is reported when blocks end whose pages may go with them. False if that can't be seen.
pub(crate) fn watch() -> bool {
    if !exports::are_in_front() {
        return false;
    }
    // Other allocators give memory back by functions that are seen.
    if exports::is_c_librarys() {
        exports::watch_blocks();
    }
    true
}

/// Blocks are noted from here on if the setting says so. Runs before the program's own constructors.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    // SAFETY: moves nothing.
    HEAP_START.store(unsafe { libc::sbrk(0) }.addr(), Ordering::Relaxed);
    if settings::maps_unmapped() && !settings::is_without_devices() {
        // SAFETY: the handlers stay loaded: this library is never unloaded (build.rs).
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
        exports::note_blocks();
    }
}

unsafe extern "C" fn before_fork() {
    HEAP.lock.lock();
    // What other handlers allocate meanwhile is not noted.
    // SAFETY: has no preconditions.
    HEAP.holder.store(unsafe { libc::pthread_self() } as usize, Ordering::Relaxed);
}

unsafe extern "C" fn after_fork() {
    HEAP.holder.store(0, Ordering::Relaxed);
    HEAP.lock.unlock();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_list_allocates_is_not_noted() {
        let outer = HEAP.note(|blocks| {
            blocks.add(0x1000, 100);
            HEAP.note(|_| ()).is_none()
        });
        assert_eq!(outer, Some(true));
        assert_eq!(block_of(0x1010), Some(HostRange { start: 0x1000, len: 100 }));
        assert_eq!(HEAP.note(|blocks| blocks.remove(0x1000)), Some(Some(100)));
        assert_eq!(block_of(0x1010), None);
    }
}
