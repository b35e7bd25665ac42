//! Staged buffers of requests that have not completed.

use super::buffers::{Arguments, StagedBuffer};
use super::library;
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::collections::BTreeMap;
use std::ffi::c_void;

/// Buffers by the request's handle, bounded by the program's own requests.
static PENDING: ShortLock<BTreeMap<i32, Vec<StagedBuffer>>> = ShortLock::new(BTreeMap::new());

fn pending() -> ShortGuard<'static, BTreeMap<i32, Vec<StagedBuffer>>> {
    PENDING.lock()
}

fn complete(buffers: Vec<StagedBuffer>) {
    buffers.into_iter().for_each(StagedBuffer::complete);
}

/// Keeps the buffers of a new request until it completes.
pub(super) fn keep(request: i32, buffers: Vec<StagedBuffer>) {
    // MPIs give several requests that complete at once the same handle.
    if library::is_complete(request) {
        return complete(buffers);
    }
    let former = pending().insert(request, buffers);
    // A handle is used again when its request has completed, in a call that no routine here has seen.
    complete(former.unwrap_or_default());
}

/// The effect of a routine on the requests among its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Completion {
    /// The routine completes the request of this argument, or leaves it.
    One(usize),
    /// As many requests as the first argument says, in a list at the second.
    Many(usize, usize),
    /// The routine frees a request; MPI may use its buffers for any time.
    Free(usize),
}

impl Completion {
    /// Calls `next`, and completes the buffers of each request that the program no longer has.
    ///
    /// # Safety
    /// The arguments are those of such a routine.
    pub(super) unsafe fn call(self, arguments: Arguments<'_>, next: impl FnOnce(&[*mut c_void])) {
        let (count, at) = match self {
            Self::One(at) | Self::Free(at) => (1, at),
            // SAFETY: the caller's promise; Fortran passes the number's address.
            Self::Many(count, at) => (unsafe { arguments[count].cast::<i32>().read() }, at),
        };
        let requests = arguments[at].cast::<i32>();
        // SAFETY: the caller's promise.
        let request = |index: usize| unsafe { requests.add(index).read() };
        // Taken out before the call: another thread's request may get a handle as soon as it is free.
        let taken: Vec<(usize, i32, Vec<StagedBuffer>)> = {
            let mut pending = pending();
            let count = if pending.is_empty() { 0 } else { usize::try_from(count).unwrap_or(0) };
            (0..count)
                .map(|index| (index, request(index)))
                .filter_map(|(index, handle)| pending.remove(&handle).map(|buffers| (index, handle, buffers)))
                .collect()
        };
        next(arguments);
        for (index, handle, buffers) in taken {
            if matches!(self, Self::Free(_)) {
                buffers.into_iter().for_each(StagedBuffer::leave);
            } else if request(index) == handle {
                pending().insert(handle, buffers);
            } else {
                complete(buffers);
            }
        }
    }
}
