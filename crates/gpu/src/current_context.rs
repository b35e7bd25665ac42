//! Keeps the context that is current in the program's threads after a call: the primary one of the thread's device. The program's own calls of the
//! driver, or of libraries that use it, rely on that.
//!
//! A context that does not belong to Accord's devices is the program's, and stays current.

use super::driver::Driver;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most GPUs of one machine.
const CONTEXTS_MAX: usize = 64;

/// The primary contexts of all devices that were ever started. They are never removed, because threads may still have them.
static PRIMARY: [AtomicUsize; CONTEXTS_MAX] = [const { AtomicUsize::new(0) }; CONTEXTS_MAX];

thread_local! {
    /// The context that the driver reported as current during the present call; 0 if not queried.
    static SEEN: Cell<usize> = const { Cell::new(0) };
}

/// Registers the context of one of Accord's devices.
pub(super) fn add(context: usize) {
    for place in &PRIMARY {
        match place.compare_exchange(0, context, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(known) if known == context => return,
            Err(_) => {}
        }
    }
}

fn is_primary(context: usize) -> bool {
    PRIMARY
        .iter()
        .map(|place| place.load(Ordering::Acquire))
        .take_while(|known| *known != 0)
        .any(|known| known == context)
}

/// Records that the driver has reported this context as this thread's current one.
pub(super) fn seen(context: usize) {
    SEEN.set(context);
}

/// Records that a context was popped on this thread, which invalidates the last report.
pub(super) fn popped() {
    SEEN.set(0);
}

/// Records that the program makes a call. The current context may have changed since the last report.
pub fn begin_call() {
    SEEN.set(0);
}

/// Makes the context current before the call returns or calls the program back, unless it or the program's own is current. Usually the call has seen
/// it current, so that the driver need not be queried again.
pub fn settle(context: usize) {
    if SEEN.replace(0) == context {
        return;
    }
    let Ok(driver) = Driver::get() else { return };
    let mut current = null_mut();
    // SAFETY: `current` is valid for writing.
    if unsafe { driver.cuCtxGetCurrent(&raw mut current) }.is_err() || current.addr() == context {
        return;
    }
    if current.is_null() || is_primary(current.addr()) {
        // SAFETY: a started device's context is alive, and the driver refuses a lost one. The next call reports any error.
        let _ = unsafe { driver.cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context)) };
    }
}

/// Removes a context that ends from this thread.
pub(super) fn leave(driver: &Driver, context: usize) {
    popped();
    let mut current = null_mut();
    // SAFETY: `current` is valid for writing. Without a current context there is nothing to remove.
    let asked = unsafe { driver.cuCtxGetCurrent(&raw mut current) };
    if asked.is_ok() && current.addr() == context {
        // SAFETY: the call has no preconditions. At the process's end the driver may be gone, and returns an error.
        let _ = unsafe { driver.cuCtxSetCurrent(null_mut()) };
    }
}
