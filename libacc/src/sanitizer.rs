//! ThreadSanitizer in the program.

use std::ffi::c_char;

/// Whether the program runs under ThreadSanitizer.
pub(crate) fn is_thread_sanitizer() -> bool {
    // SAFETY: the name is terminated.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__tsan_init".as_ptr()) }.is_null()
}

/// Suppressions for ThreadSanitizer, which calls this. It does not see how this library's threads synchronise, and would report races.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
extern "C" fn __tsan_default_suppressions() -> *const c_char {
    c"called_from_lib:libacc.so\n".as_ptr()
}
