//! Waits for a word in memory shared between processes.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `expected`. Returns after a wake-up, a change, a signal or `timeout`; the caller must check its
/// condition again.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let time = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: t.subsec_nanos().into(),
    });
    let time_ptr = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` and `time` live across the call, and FUTEX_WAIT only reads them. The futex is not private, because the
    // other side may be another process.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, time_ptr);
    }
}

/// Wakes all threads that sleep on `word`.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE uses the address only as a key and does not access the memory.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}

/// Wakes one thread that sleeps on `word`.
pub(crate) fn wake_one(word: &AtomicU32) {
    // SAFETY: as in `wake_all`.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1);
    }
}
