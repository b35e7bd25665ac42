//! The end of the process's session. Once it has begun, calls have no effect.

use crate::output;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// Longest time that the end of the process waits for devices to end. Peers notice a program that is gone anyway.
pub(crate) const CLOSE_MAX: Duration = Duration::from_secs(3);

/// The thread that ends the process, once the devices are going.
static CLOSER: AtomicI32 = AtomicI32::new(0);

/// The calling thread ends the process from here on.
pub(crate) fn begin() {
    // SAFETY: has no preconditions.
    CLOSER.store(unsafe { libc::gettid() }, Ordering::Relaxed);
}

/// A forked child's own end has not begun.
pub(crate) fn forget() {
    CLOSER.store(0, Ordering::Relaxed);
}

/// Whether the session is over. Only the thread that ends the process gets `true`, as its destructors may still call.
/// All other threads block here until the process ends.
pub(crate) fn is_closed() -> bool {
    let closer = CLOSER.load(Ordering::Relaxed);
    if closer == 0 {
        return false;
    }
    // SAFETY: has no preconditions.
    if closer != unsafe { libc::gettid() } {
        loop {
            std::thread::sleep(CLOSE_MAX);
        }
    }
    true
}

/// Reports, once, that `call` came too late.
#[cold]
pub(crate) fn warn_closed(call: &str) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        output::print(&format!("accord: {call} was called after the end of the program and has no effect\n"));
    });
}
