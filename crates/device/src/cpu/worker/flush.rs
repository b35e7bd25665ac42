//! Flushes output that regions have printed, before the wait that follows them ends.

use std::sync::atomic::{AtomicUsize, Ordering};

/// gfortran's routine that flushes all of its units, once an object that contains it is loaded.
static GFORTRAN: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    #[link_name = "stdout"]
    static stdout: *mut libc::FILE;
}

/// Finds routines that flush the output of other languages than C. Called after objects were loaded.
pub(super) fn look_around() {
    // SAFETY: the call looks up a terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_gfortran_flush_i4".as_ptr()) };
    GFORTRAN.store(found as usize, Ordering::Relaxed);
}

/// Flushes all output that regions have printed so far. C++ streams write through C's by default.
pub(super) fn output() {
    // SAFETY: `stdout` is the C library's own stream. gfortran's routine takes the address of a unit number, or null for all
    // units. Any thread may call both.
    unsafe {
        libc::fflush(stdout);
        let gfortran = GFORTRAN.load(Ordering::Relaxed);
        if gfortran != 0 {
            let flush: extern "C" fn(*const i32) = std::mem::transmute(gfortran);
            flush(std::ptr::null());
        }
    }
}
