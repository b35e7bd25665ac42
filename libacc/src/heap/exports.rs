//! Exports `malloc` and its family to the program: each function jumps to the address in its slot. That is first [`resolve`], then the next library's
//! function, and with the setting one that also records the block. Once devices are in use, `free` and `realloc` report blocks whose memory may be
//! unmapped with them.
//!
//! The exported functions are machine code, opaque to the compiler, which could otherwise inline them into this library's own calls of `free`. These
//! must reach the same function as the program's calls, because another allocator may precede this library.

use super::blocks::HEAP;
use crate::mappings;
use accord_client::pages;
use accord_types::HostRange;
use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

type Pointer = *mut c_void;

/// One function of the family: the exported name, its slot, and the next library's function.
macro_rules! family {
    ($($name:ident / $next:ident / $slot:ident / $first:ident ($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        mod next {
            use super::*;
            $(
                pub(super) static $slot: AtomicPtr<()> = AtomicPtr::new($first as *mut ());

                /// The next library's function.
                pub(super) unsafe fn $next($($arg: $type),*) $(-> $result)? {
                    let at = $slot.load(Ordering::Relaxed);
                    // SAFETY: the slot holds a function of this type.
                    let function: unsafe extern "C" fn($($type),*) $(-> $result)? = unsafe { std::mem::transmute(at) };
                    // SAFETY: the arguments are the program's.
                    unsafe { function($($arg),*) }
                }

                unsafe extern "C" fn $first($($arg: $type),*) $(-> $result)? {
                    if !resolve() {
                        // SAFETY: the value is a null pointer, a number or nothing.
                        return unsafe { std::mem::zeroed() };
                    }
                    // SAFETY: the slot holds another function now.
                    unsafe { $next($($arg),*) }
                }
            )*

            /// Finds the functions that the program would call without this library. Returns `false` if the search itself has led here: old C
            /// libraries allocate memory for a message, and do without it if there is none.
            #[cold]
            pub(super) fn resolve() -> bool {
                static SEARCHER: AtomicUsize = AtomicUsize::new(0);
                // SAFETY: has no preconditions.
                let me = unsafe { libc::pthread_self() } as usize;
                if SEARCHER.swap(me, Ordering::Relaxed) == me {
                    return false;
                }
                $({
                    let name = concat!(stringify!($name), "\0");
                    // The name ends with its only zero byte.
                    let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
                    // SAFETY: the name is terminated.
                    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
                    if found.is_null() {
                        crate::output::print(concat!("accord: there is no ", stringify!($name), " after libacc.so\n"));
                        // SAFETY: the process can't continue without memory.
                        unsafe { libc::_exit(1) };
                    }
                    $slot.store(found.cast(), Ordering::Relaxed);
                    let _ = EXPORTS.$name.compare_exchange(
                        $first as *mut (), found.cast(), Ordering::Relaxed, Ordering::Relaxed);
                })*
                SEARCHER.store(0, Ordering::Relaxed);
                true
            }

            pub(super) struct Exports { $(pub(super) $name: AtomicPtr<()>),* }

            /// The targets of the exported functions' jumps.
            pub(super) static EXPORTS: Exports = Exports { $($name: AtomicPtr::new($first as *mut ())),* };
        }

        $(
            /// The C library's function of this name.
            ///
            /// # Safety
            /// As that function's.
            #[unsafe(naked)]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[cfg_attr(test, allow(dead_code))]
            unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? {
                naked_asm!(jump_by_slot!(), slots = sym next::EXPORTS, slot = const offset_of!(next::Exports, $name))
            }
        )*

        /// Records blocks from now on.
        pub(super) fn note_blocks() {
            next::resolve();
            $(next::EXPORTS.$name.store(noting::$name as *mut (), Ordering::Relaxed);)*
        }
    };
}

family! {
    malloc / next_malloc / MALLOC / first_malloc (size: usize) -> Pointer;
    calloc / next_calloc / CALLOC / first_calloc (count: usize, size: usize) -> Pointer;
    realloc / next_realloc / REALLOC / first_realloc (old: Pointer, size: usize) -> Pointer;
    free / next_free / FREE / first_free (old: Pointer);
    aligned_alloc / next_aligned_alloc / ALIGNED_ALLOC / first_aligned_alloc (align: usize, size: usize) -> Pointer;
    memalign / next_memalign / MEMALIGN / first_memalign (align: usize, size: usize) -> Pointer;
    valloc / next_valloc / VALLOC / first_valloc (size: usize) -> Pointer;
    pvalloc / next_pvalloc / PVALLOC / first_pvalloc (size: usize) -> Pointer;
    posix_memalign / next_posix_memalign / POSIX_MEMALIGN / first_posix_memalign
        (to: *mut Pointer, align: usize, size: usize) -> c_int;
}

/// The program break at the start: the C library's heap is above.
static HEAP_START: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Records the program break at the start.
pub(super) fn note_start() {
    // SAFETY: the call does not move the break.
    HEAP_START.store(unsafe { libc::sbrk(0) }.addr(), Ordering::Relaxed);
}

/// Whether the program's calls of `free` and `realloc` come here.
pub(super) fn are_in_front() -> bool {
    mappings::is_in_front("free\0") && mappings::is_in_front("realloc\0")
}

/// Whether the next allocator is the C library's own, which unmaps large blocks without a visible call.
pub(super) fn is_c_librarys() -> bool {
    next::resolve();
    // No interposed library defines a function of this name.
    mappings::object_of(next::FREE.load(Ordering::Relaxed)) == mappings::object_of(libc::qsort as *const ())
}

/// Reports the end of large blocks from now on.
pub(super) fn watch_blocks() {
    WATCHED.store(true, Ordering::Relaxed);
    for (slot, plain, watching) in [
        (&next::EXPORTS.free, &next::FREE, watching::free as *mut ()),
        (&next::EXPORTS.realloc, &next::REALLOC, watching::realloc as *mut ()),
    ] {
        // The functions that record blocks report too.
        let plain = plain.load(Ordering::Relaxed);
        let _ = slot.compare_exchange(plain, watching, Ordering::Relaxed, Ordering::Relaxed);
    }
}

static WATCHED: AtomicBool = AtomicBool::new(false);

/// Functions that also report memory that may be unmapped.
mod watching {
    use super::next::*;
    use super::*;

    /// Smallest block that is reported. The C library maps blocks of 128 KiB or more separately by default.
    const LARGE: usize = 32 << 10;

    /// Returns the pages that may be unmapped with a block. A separately mapped block begins two words after a page's start, or at
    /// its alignment. Blocks of the heap only move its end, which is queried when it matters.
    fn takes_pages(block: Pointer) -> Option<HostRange> {
        let at = block.addr();
        let in_page = at & 0xfff;
        if in_page & in_page.wrapping_sub(1) != 0 || block.is_null() || !WATCHED.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: the block is the C library's, and the break is only queried.
        let (len, end) = unsafe { (libc::malloc_usable_size(block), libc::sbrk(0).addr()) };
        let gone = len >= LARGE && !(HEAP_START.load(Ordering::Relaxed)..end).contains(&at);
        gone.then_some(HostRange { start: at, len })
    }

    pub(super) unsafe extern "C" fn free(block: Pointer) {
        let gone = takes_pages(block);
        // SAFETY: the program's own call.
        unsafe { next_free(block) };
        gone.into_iter().for_each(pages::forget_pages);
    }

    pub(super) unsafe extern "C" fn realloc(block: Pointer, size: usize) -> Pointer {
        let gone = takes_pages(block);
        // SAFETY: the program's own call.
        let block = unsafe { next_realloc(block, size) };
        gone.into_iter().for_each(pages::forget_pages);
        block
    }
}

/// Functions that also record the block.
mod noting {
    use super::next::*;
    use super::*;

    fn made(block: Pointer, size: usize) -> Pointer {
        HEAP.note(|blocks| blocks.add(block as usize, size));
        block
    }

    pub(super) unsafe extern "C" fn malloc(size: usize) -> Pointer {
        // SAFETY: the program's own call.
        made(unsafe { next_malloc(size) }, size)
    }

    pub(super) unsafe extern "C" fn calloc(count: usize, size: usize) -> Pointer {
        // SAFETY: the program's own call. An overflowing product returns null.
        made(unsafe { next_calloc(count, size) }, count.wrapping_mul(size))
    }

    pub(super) unsafe extern "C" fn realloc(old: Pointer, size: usize) -> Pointer {
        // First, because another thread may get the old block before this call returns.
        let was = HEAP.note(|blocks| blocks.remove(old as usize)).flatten();
        // SAFETY: the program's own call.
        let block = unsafe { watching::realloc(old, size) };
        match was {
            Some(was) if block.is_null() && size > 0 => {
                made(old, was);
            }
            _ => {
                made(block, size);
            }
        }
        block
    }

    pub(super) unsafe extern "C" fn free(old: Pointer) {
        if !old.is_null() {
            HEAP.note(|blocks| blocks.remove(old as usize));
        }
        // SAFETY: the program's own call.
        unsafe { watching::free(old) };
    }

    pub(super) unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> Pointer {
        // SAFETY: the program's own call.
        made(unsafe { next_aligned_alloc(align, size) }, size)
    }

    pub(super) unsafe extern "C" fn memalign(align: usize, size: usize) -> Pointer {
        // SAFETY: the program's own call.
        made(unsafe { next_memalign(align, size) }, size)
    }

    pub(super) unsafe extern "C" fn valloc(size: usize) -> Pointer {
        // SAFETY: the program's own call.
        made(unsafe { next_valloc(size) }, size)
    }

    pub(super) unsafe extern "C" fn pvalloc(size: usize) -> Pointer {
        // SAFETY: the program's own call.
        made(unsafe { next_pvalloc(size) }, size)
    }

    pub(super) unsafe extern "C" fn posix_memalign(to: *mut Pointer, align: usize, size: usize) -> c_int {
        // SAFETY: the program's own call.
        let status = unsafe { next_posix_memalign(to, align, size) };
        if status == 0 {
            // SAFETY: the function has stored the block there.
            made(unsafe { *to }, size);
        }
        status
    }
}
