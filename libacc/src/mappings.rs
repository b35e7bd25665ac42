//! Detects changes of the process's mappings, so that the kernel's answers about the program's memory can be cached
//! (`accord_client::pages`).
//!
//! This library exports the C library's functions that change mappings: each calls the next library's function and then records the change. The C
//! library's internal changes do not pass here. `free` and `realloc` report large blocks that they unmap (`heap`), and the heap's own end is queried
//! when it matters. `objects.rs` detects loaded and unloaded objects. If functions of the program or of another library precede these, nothing is
//! cached.
//!
//! The exported functions are machine code, opaque to the compiler, for the reason in `heap/exports.rs`.

use accord_client::pages;
use accord_types::HostRange;
use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_long, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

type Pointer = *mut c_void;

/// One function of the family: its name, the slot of the next library's function, and the fallback until that is found. Then whether a call may
/// invalidate the cache, and which ranges have other pages afterwards: first address and length, at most twice.
macro_rules! family {
    ($($name:ident / $slot:ident / $raw:ident = $number:ident ($($arg:ident: $type:ty),*) -> $result:ty, $changes:expr, |$returned:ident| $gone:expr;)*) => {
        $(
            static $slot: AtomicPtr<()> = AtomicPtr::new($raw as *mut ());

            /// The system call, for calls before this library's constructors.
            unsafe extern "C" fn $raw($($arg: $type),*) -> $result {
                // SAFETY: the arguments are the program's.
                from_kernel(unsafe { libc::syscall(libc::$number, $($arg),*) })
            }

            /// The C library's function of this name.
            ///
            /// # Safety
            /// As that function's.
            #[unsafe(naked)]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[cfg_attr(test, allow(dead_code))]
            unsafe extern "C" fn $name($($arg: $type),*) -> $result {
                naked_asm!(jump!(), target = sym seen::$name)
            }
        )*

        /// The implementations of the exported functions.
        mod seen {
            use super::*;
            $(
            pub(super) unsafe extern "C" fn $name($($arg: $type),*) -> $result {
                let at = $slot.load(Ordering::Relaxed);
                // SAFETY: the slot holds a function of this type.
                let function: unsafe extern "C" fn($($type),*) -> $result = unsafe { std::mem::transmute(at) };
                // SAFETY: the arguments are the program's.
                let result = unsafe { function($($arg),*) };
                if $changes {
                    // Afterwards, because threads that ask meanwhile may get the old state.
                    let $returned = result;
                    let gone: [(Pointer, usize); 2] = $gone;
                    for (start, len) in gone.into_iter().filter(|(_, len)| *len > 0) {
                        pages::forget_pages(HostRange { start: start.addr(), len });
                    }
                    pages::forget();
                }
                result
            }
            )*
        }

        fn resolve() {
            $(
                let found = next(concat!(stringify!($name), "\0"));
                if !found.is_null() {
                    $slot.store(found.cast(), Ordering::Relaxed);
                }
            )*
        }

        /// Whether the program's calls reach these functions.
        pub(crate) fn are_in_front() -> bool {
            [$(concat!(stringify!($name), "\0")),*].into_iter().all(is_in_front)
        }
    };
}

// Only some flags of `mremap` use its last argument, which is passed on as found in its register.
family! {
    munmap / MUNMAP / raw_munmap = SYS_munmap (start: Pointer, len: usize) -> c_int, true, |_done| [(start, len), NONE];
    mprotect / MPROTECT / raw_mprotect = SYS_mprotect (start: Pointer, len: usize, access: c_int) -> c_int,
        true, |_done| [NONE; 2];
    pkey_mprotect / PKEY_MPROTECT / raw_pkey_mprotect = SYS_pkey_mprotect
        (start: Pointer, len: usize, access: c_int, key: c_int) -> c_int, true, |_done| [NONE; 2];
    mremap / MREMAP / raw_mremap = SYS_mremap
        (start: Pointer, len: usize, new_len: usize, flags: c_int, new_start: Pointer) -> Pointer,
        true, |at| [(start, len), if at == start { NONE } else { (at, new_len) }];
    mmap / MMAP / raw_mmap = SYS_mmap
        (start: Pointer, len: usize, access: c_int, flags: c_int, file: c_int, offset: libc::off_t) -> Pointer,
        flags & libc::MAP_FIXED != 0 || !is_open(access), |at| [(at, len), NONE];
    mmap64 / MMAP64 / raw_mmap64 = SYS_mmap
        (start: Pointer, len: usize, access: c_int, flags: c_int, file: c_int, offset: libc::off_t) -> Pointer,
        flags & libc::MAP_FIXED != 0 || !is_open(access), |at| [(at, len), NONE];
    shmat / SHMAT / raw_shmat = SYS_shmat (id: c_int, start: Pointer, flags: c_int) -> Pointer,
        true, |at| [if flags & libc::SHM_REMAP == 0 { NONE } else { (at, SEGMENT_MAX) }, NONE];
    shmdt / SHMDT / raw_shmdt = SYS_shmdt (start: Pointer) -> c_int, true, |_done| [(start, SEGMENT_MAX), NONE];
}

/// The value without pages.
const NONE: (Pointer, usize) = (std::ptr::null_mut(), 0);
/// The length of a segment of unknown length: up to the end of memory.
const SEGMENT_MAX: usize = usize::MAX >> 1;

/// Whether a new mapping with this access leaves the cache valid. One with less access may replace memory whose unmapping was not seen.
fn is_open(access: c_int) -> bool {
    let both = libc::PROT_READ | libc::PROT_WRITE;
    access & both == both
}

trait Returned {
    fn returned(value: c_long) -> Self;
}

impl Returned for c_int {
    fn returned(value: c_long) -> Self {
        value as Self
    }
}

impl Returned for Pointer {
    fn returned(value: c_long) -> Self {
        std::ptr::with_exposed_provenance_mut(value as usize)
    }
}

fn from_kernel<T: Returned>(value: c_long) -> T {
    T::returned(value)
}

/// Returns the function of the libraries after this one.
pub(crate) fn next(name: &str) -> Pointer {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
    // SAFETY: the name is terminated.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Whether the program's calls of the function reach this library's export. The address that this library has for the name proves nothing: the loader gives
/// it the same address as the program, in whichever object.
pub(crate) fn is_in_front(name: &str) -> bool {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
    // SAFETY: the name is terminated.
    let reached = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let own = object_of(resolve_at_start as *const ());
    own.is_some() && object_of(reached.cast_const().cast()) == own
}

/// Returns the load address of the object that contains the function, or `None`.
pub(crate) fn object_of(function: *const ()) -> Option<*mut c_void> {
    // SAFETY: all-zero is a valid record.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the record is valid; the address need not be.
    (unsafe { libc::dladdr(function.cast(), &raw mut info) } != 0).then_some(info.dli_fbase)
}

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_START: extern "C" fn() = resolve_at_start;

extern "C" fn resolve_at_start() {
    resolve();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_behave_as_the_kernels_own() {
        for found in [false, true] {
            if found {
                resolve();
            }
            let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: new memory, which only this test uses.
            unsafe {
                let start = mmap(std::ptr::null_mut(), 8192, access, flags, -1, 0);
                assert_ne!(start, libc::MAP_FAILED);
                start.cast::<u8>().write(7);
                assert_eq!(mprotect(start, 8192, libc::PROT_READ), 0);
                let moved = mremap(start, 8192, 1 << 20, libc::MREMAP_MAYMOVE, std::ptr::null_mut());
                assert_eq!(moved.cast::<u8>().read(), 7);
                assert_eq!(munmap(moved, 1 << 20), 0);
                assert_eq!(munmap(std::ptr::without_provenance_mut(1), 1), -1);
                assert_eq!(*libc::__errno_location(), libc::EINVAL);
                let nowhere = mmap(std::ptr::null_mut(), 4096, access, libc::MAP_PRIVATE, -1, 0);
                assert_eq!(nowhere, libc::MAP_FAILED, "{found}");
            }
        }
    }

    #[test]
    fn a_test_program_has_no_functions_in_front() {
        assert!(!are_in_front());
    }
}
