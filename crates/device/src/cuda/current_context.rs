//! The context that is current in the program's threads after a call: the primary one of the thread's device, as the program's own
//! calls of the driver, or of libraries on it, rely on that.
//!
//! A context that is not one of Accord's devices' is the program's. It stays where it is.

use super::driver::Driver;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most GPUs of one machine.
const CONTEXTS_MAX: usize = 64;

/// The primary contexts of all devices that were started. They stay here: threads may still have them.
static PRIMARY: [AtomicUsize; CONTEXTS_MAX] = [const { AtomicUsize::new(0) }; CONTEXTS_MAX];

thread_local! {
    /// The context that the driver named as current during the call under way; 0 if it was not asked.
    static SEEN: Cell<usize> = const { Cell::new(0) };
}

/// This device's context is one of Accord's from now on.
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

/// The driver has named this context as this thread's current one.
pub(super) fn seen(context: usize) {
    SEEN.set(context);
}

/// A context was taken from this thread again: what was seen before does not hold.
pub(super) fn popped() {
    SEEN.set(0);
}

/// The program calls. What was seen before may have changed.
pub fn begin_call() {
    SEEN.set(0);
}

/// The call returns, or calls the program back: makes the context current, unless it is or the program's own is. Mostly the call
/// has found it current, and the driver is not asked again.
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
        // SAFETY: a started device's context is alive; the driver refuses one that is lost. An error is the next call's.
        let _ = unsafe { driver.cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context)) };
    }
}

/// The context goes: this thread keeps no handle of it.
pub(super) fn leave(driver: &Driver, context: usize) {
    popped();
    let mut current = null_mut();
    // SAFETY: `current` is valid for writing. Without a context there is nothing to leave.
    let asked = unsafe { driver.cuCtxGetCurrent(&raw mut current) };
    if asked.is_ok() && current.addr() == context {
        // SAFETY: has no preconditions. At the process's end the driver may be gone, which it says.
        let _ = unsafe { driver.cuCtxSetCurrent(null_mut()) };
    }
}
