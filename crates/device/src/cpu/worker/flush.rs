//! What a region printed belongs to the time before the wait that follows it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// gfortran's routine that flushes all of its units, once an object that brings it is loaded.
static GFORTRAN: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    #[link_name = "stdout"]
    static stdout: *mut libc::FILE;
}

/// Finds the output of languages that don't use C's. Call after objects were loaded.
pub(super) fn look_around() {
    // SAFETY: looks a terminated name up.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_gfortran_flush_i4".as_ptr()) };
    GFORTRAN.store(found as usize, Ordering::Relaxed);
}

/// Hands on what regions have printed so far. C++ streams write through C's by default.
pub(super) fn output() {
    // SAFETY: the C library's own stream. gfortran's routine takes the address of a unit number, or null for
    // all units; both are safe to call from any thread.
    unsafe {
        libc::fflush(stdout);
        let gfortran = GFORTRAN.load(Ordering::Relaxed);
        if gfortran != 0 {
            let flush: extern "C" fn(*const i32) = std::mem::transmute(gfortran);
            flush(std::ptr::null());
        }
    }
}
