//! Makes a file beyond the size limit (`ulimit -f`) an error of the call, in place of the program's end by SIGXFSZ.

use std::io::{Error, Result};

/// Calls `write`, which may make a file grow. A file above the process's limit is an error of `write`.
///
/// # Errors
/// Returns the error of `write`.
pub fn as_error<T>(write: impl FnOnce() -> Result<T>) -> Result<T> {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the signal sets are local. Only the calling thread's mask changes, and it is restored. The kernel sends the signal
    // to the thread that makes the file grow, so that one that is taken here is this thread's.
    unsafe {
        let mut too_large: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut too_large);
        libc::sigaddset(&raw mut too_large, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const too_large, &raw mut before);
        let result = write();
        let is_too_large = |error: &Error| error.raw_os_error() == Some(libc::EFBIG);
        if result.as_ref().is_err_and(is_too_large) && libc::sigismember(&raw const before, libc::SIGXFSZ) == 0 {
            libc::sigtimedwait(&raw const too_large, std::ptr::null_mut(), &raw const at_once);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}
