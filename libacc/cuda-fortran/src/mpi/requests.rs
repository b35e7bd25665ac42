//! Staged buffers of requests that have not completed, or that are persistent.

use super::buffers::{Arguments, StagedBuffer};
use super::library;
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::collections::BTreeMap;
use std::ffi::c_void;

/// The state of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RequestState {
    /// The request ends when it completes.
    Once,
    /// Persistent, and started.
    Started,
    /// Persistent, and not started or complete.
    Inactive,
}

struct PendingRequest {
    state: RequestState,
    buffers: Vec<StagedBuffer>,
}

impl PendingRequest {
    fn complete(&mut self) {
        if self.state != RequestState::Inactive {
            self.buffers.iter_mut().for_each(StagedBuffer::complete);
        }
    }
}

/// Requests by their handles, bounded by the program's own requests. One that C completes remains until MPI uses its handle again.
static PENDING: ShortLock<BTreeMap<i32, PendingRequest>> = ShortLock::new(BTreeMap::new());

fn pending() -> ShortGuard<'static, BTreeMap<i32, PendingRequest>> {
    PENDING.lock()
}

fn insert(handle: i32, request: PendingRequest) {
    pending().insert(handle, request);
}

/// Removes what a new request's handle meant before. The former request was completed by C, after which the program may have written newer bytes to the
/// device or freed the memory, so nothing is written there.
pub(super) fn forget(handle: i32) {
    let former = pending().remove(&handle);
    drop(former);
}

/// Keeps the buffers of a new request until it completes.
pub(super) fn keep(handle: i32, buffers: Vec<StagedBuffer>) {
    let mut request = PendingRequest { state: RequestState::Once, buffers };
    // MPIs give several requests that complete at once the same handle.
    if library::is_complete(handle) {
        request.complete();
    } else {
        insert(handle, request);
    }
}

/// Keeps the buffers of a new persistent request until it is freed.
pub(super) fn keep_persistent(handle: i32, buffers: Vec<StagedBuffer>) {
    insert(handle, PendingRequest { state: RequestState::Inactive, buffers });
}

/// The arguments that are requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handles {
    One(usize),
    /// As many as the first argument says, in a list at the second.
    Many(usize, usize),
}

/// The effect of a routine on requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestRoutine {
    Starts(Handles),
    /// The routine may complete each of them.
    Completes(Handles),
    /// The routine frees them; MPI may use the buffers of those in flight for any time.
    Frees(Handles),
}

impl RequestRoutine {
    /// Calls `next`. Before it, the buffers of started requests get their contents; after it, those of completed ones are written back.
    ///
    /// # Safety
    /// The arguments are those of such a routine.
    pub(super) unsafe fn call(self, arguments: Arguments<'_>, next: impl FnOnce(&[*mut c_void])) {
        let (Self::Starts(handles) | Self::Completes(handles) | Self::Frees(handles)) = self;
        let (count, at) = match handles {
            Handles::One(at) => (1, at),
            // SAFETY: the caller's promise; Fortran passes the number's address.
            Handles::Many(count, at) => (unsafe { arguments[count].cast::<i32>().read() }, at),
        };
        let list = arguments[at].cast::<i32>();
        // SAFETY: the caller's promise.
        let handle_at = |index: usize| unsafe { list.add(index).read() };
        // Taken out before the call: another thread's request may get a handle as soon as it is free.
        let mut taken: Vec<(usize, i32, PendingRequest)> = {
            let mut pending = pending();
            let count = if pending.is_empty() { 0 } else { usize::try_from(count).unwrap_or(0) };
            (0..count)
                .map(|index| (index, handle_at(index)))
                .filter_map(|(index, handle)| pending.remove(&handle).map(|request| (index, handle, request)))
                .collect()
        };
        if matches!(self, Self::Starts(_)) {
            for (_, _, request) in &mut taken {
                request.buffers.iter_mut().for_each(StagedBuffer::refresh);
                request.state = RequestState::Started;
            }
        }
        next(arguments);
        for (index, handle, mut request) in taken {
            match self {
                Self::Frees(_) if request.state == RequestState::Inactive => {}
                Self::Frees(_) => request.buffers.into_iter().for_each(StagedBuffer::leave),
                Self::Completes(_) if handle_at(index) != handle => request.complete(),
                Self::Completes(_) if request.state == RequestState::Started && library::is_complete(handle) => {
                    request.complete();
                    insert(handle, PendingRequest { state: RequestState::Inactive, ..request });
                }
                Self::Starts(_) | Self::Completes(_) => insert(handle, request),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_that_mpi_uses_again_has_no_former_request() {
        insert(-7, PendingRequest { state: RequestState::Once, buffers: Vec::new() });
        forget(-7);
        assert!(!pending().contains_key(&-7));
        forget(-7);
    }
}
