//! Records the program's heap blocks for `ACCORD_UNMAPPED=map`, to find the block that contains an address.
//!
//! No allocator reports that for a pointer into the middle of a block, so that calls that allocate and free blocks pass here
//! (`exports.rs`). Without the setting that is one jump to the next `malloc`: the C library's, or another one that the
//! program is linked with. With it each call also records its block. Blocks from before this library's constructors, from
//! `mmap`, or from an allocator that precedes this library are unknown.

mod blocks;
mod exports;

use crate::settings;
use accord_types::HostRange;
use blocks::HEAP;

/// The known block that an address lies in, or just before: see [`Blocks::holding`].
pub(crate) fn block_of(address: usize) -> Option<HostRange> {
    HEAP.note(|blocks| blocks.holding(address)).flatten()
}

/// Reports the end of blocks whose pages may be unmapped with them, from now on. Returns `false` if that can't be observed.
pub(crate) fn watch() -> bool {
    if !exports::are_in_front() {
        return false;
    }
    // Other allocators unmap memory by functions that are observed.
    if exports::is_c_librarys() {
        exports::watch_blocks();
    }
    true
}

/// Starts to record blocks if the setting requests it. Runs before the program's own constructors.
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
