//! The program's heap blocks, for `ACCORD_UNMAPPED=map`: which block does an address lie in?
//!
//! No allocator tells that of a pointer into the middle of a block, so the calls that make and end blocks come by here
//! (`exports.rs`). Without the setting that is one jump to the next `malloc`: the C library's, or another one's that the
//! program is linked with. With it each call also notes its block. Blocks that were made before this library's
//! constructors, by `mmap`, or by an allocator that comes before this library, are not known.

mod blocks;
mod exports;

use crate::settings;
use accord_types::HostRange;
use blocks::HEAP;

/// The known block that an address lies in, or just before: see [`Blocks::holding`].
pub(crate) fn block_of(address: usize) -> Option<HostRange> {
    HEAP.note(|blocks| blocks.holding(address)).flatten()
}

/// Reports the end of blocks whose pages may go with them, from here on. Returns `false` if that can't be seen.
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
    exports::note_start();
    if settings::maps_unmapped() && !settings::is_without_devices() {
        // SAFETY: the handlers stay loaded: this library is never unloaded (build.rs).
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
        exports::note_blocks();
    }
}

unsafe extern "C" fn before_fork() {
    HEAP.lock();
}

unsafe extern "C" fn after_fork() {
    HEAP.unlock();
}
