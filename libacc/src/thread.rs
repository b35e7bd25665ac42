//! The runtime's state of each thread of the program.

use crate::prof::{Open, OpenRegion};
use crate::thread_id;
use accord_client::pages;
use accord_runtime::LocalThread;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;

struct Slot {
    generation: u32,
    busy: bool,
    local: LocalThread,
    /// Compute constructs that run on the host now, innermost last, for profilers.
    host_regions: Vec<Option<Open>>,
    /// Pairs of device events that have not ended.
    open_events: Vec<Open>,
    /// `data` and `host_data` regions, innermost last; only those that began while a tool listened.
    open_regions: Vec<OpenRegion>,
}

thread_local! {
    /// A plain pointer, which is usable in exit handlers, after the destructors of thread-local values have run. [`slot_key`]
    /// frees it.
    static SLOT: Cell<*mut Slot> = const { Cell::new(null_mut()) };
}

/// Runs `body` with the calling thread's state. A nested call, from a profiling callback in `body`, gets a state of its own.
pub(crate) fn with_local<R>(body: impl FnOnce(&mut LocalThread) -> R) -> R {
    struct Idle(*mut Slot);
    impl Drop for Idle {
        fn drop(&mut self) {
            // SAFETY: the slot lives as long as its thread, which is running this code.
            unsafe { (*self.0).busy = false };
        }
    }
    let slot = slot();
    // SAFETY: the slot belongs only to this thread, and references into it exist only under `busy`, which is tested through the
    // pointer.
    if unsafe { std::mem::replace(&mut (*slot).busy, true) } {
        return body(&mut LocalThread::default());
    }
    let _idle = Idle(slot);
    // SAFETY: `busy` was false, so that this is the only reference to `local`.
    body(unsafe { &mut (*slot).local })
}

/// A region starts to run on the host.
pub(crate) fn begin_host_region(open: Option<Open>) {
    // SAFETY: the slot belongs to this thread, and this reference ends with the statement.
    unsafe { (*slot()).host_regions.push(open) };
}

/// The innermost region on the host has ended.
pub(crate) fn end_host_region() -> Option<Open> {
    // SAFETY: as above.
    unsafe { (*slot()).host_regions.pop() }.flatten()
}

/// Runs `body` with this thread's open pairs of device events. `body` must not raise events.
pub(crate) fn with_open_events<R>(body: impl FnOnce(&mut Vec<Open>) -> R) -> R {
    // SAFETY: as above, and `body` doesn't call this function.
    body(unsafe { &mut (*slot()).open_events })
}

/// Runs `body` with this thread's regions that began while a tool listened. `body` must not raise events.
pub(crate) fn with_open_regions<R>(body: impl FnOnce(&mut Vec<OpenRegion>) -> R) -> R {
    // SAFETY: as above.
    body(unsafe { &mut (*slot()).open_regions })
}

fn slot() -> *mut Slot {
    let generation = thread_id::generation();
    let slot = SLOT.get();
    // SAFETY: the pointer is null or the thread's own slot, created below and freed at its end.
    if !slot.is_null() && unsafe { (*slot).generation } == generation {
        return slot;
    }
    // An old slot is leaked, because its contents belong to the parent's runtime.
    let slot = Box::into_raw(Box::new(Slot {
        generation,
        busy: false,
        local: LocalThread::default(),
        host_regions: Vec::new(),
        open_events: Vec::new(),
        open_regions: Vec::new(),
    }));
    SLOT.set(slot);
    if let Some(key) = slot_key() {
        // SAFETY: the key exists for the process's life.
        unsafe { libc::pthread_setspecific(key, slot.cast()) };
    }
    slot
}

/// Returns the key whose destructor frees a thread's slot at its end. Without a key it is leaked.
fn slot_key() -> Option<libc::pthread_key_t> {
    unsafe extern "C" fn free(slot: *mut c_void) {
        SLOT.set(null_mut());
        // The unmapping of its stack may not be observed.
        pages::forget();
        let slot = slot.cast::<Slot>();
        // SAFETY: the pointer was made by Box::into_raw in slot(), and the thread is ending.
        unsafe {
            if (*slot).generation == thread_id::generation() {
                drop(Box::from_raw(slot));
            }
        }
    }
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is valid, and the destructor takes the value that `slot` stores.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(free)) } == 0).then_some(key)
    })
}
