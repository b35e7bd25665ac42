//! Host memory for a device's memory, prepared by several threads: the agent's, whose pages are there, or new memory in large pages.
//! It is not page-locked: threads copy through page-locked slots.

use crate::numa::NumaAffinity;
use accord_device::{KeptPart, provide_pages};
use accord_types::short_lock::ShortLock;
use accord_types::threads;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// Most threads that prepare memory. More are no faster.
const THREADS_MAX: usize = 8;

/// Host memory for a piece.
pub(super) struct HostRoom {
    start: *mut c_void,
    len: usize,
    /// The agent's memory, if it is of that.
    kept: Option<KeptPart>,
}

// SAFETY: the memory may be used and freed by any thread.
unsafe impl Send for HostRoom {}

impl HostRoom {
    /// Provides the memory, with all pages; `None` without memory.
    fn new(len: usize, kept: Option<KeptPart>) -> Option<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let start = match &kept {
            Some(part) => part.start(),
            // SAFETY: the kernel chooses the place.
            None => unsafe { libc::mmap(null_mut(), len, access, kind, -1, 0) },
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let room = Self { start, len, kept };
        // SAFETY: the memory has no other users, and nothing is in it.
        unsafe { provide_pages(start, len) }.is_ok().then_some(room)
    }

    /// Returns the first address.
    pub(super) fn start(&self) -> usize {
        self.start.expose_provenance()
    }
}

impl Drop for HostRoom {
    fn drop(&mut self) {
        if self.kept.is_none() {
            // SAFETY: no copy uses the memory any more.
            unsafe { libc::munmap(self.start, self.len) };
        }
    }
}

/// Rooms in the order in which threads finish them, with their numbers; `None` without memory.
pub(super) type Rooms = Receiver<(usize, Option<HostRoom>)>;

/// A length, with the agent's memory for it if there is some.
pub(super) type RoomRequest = (usize, Option<KeptPart>);

/// Starts to provide a room for each request, on processors near the device. After a failure further rooms may be missing.
pub(super) fn rooms(numa: &NumaAffinity, requests: Vec<RoomRequest>) -> Rooms {
    let (give, take) = channel();
    let (next, count) = (Arc::new(AtomicUsize::new(0)), requests.len());
    let requests: Arc<[_]> = requests.into_iter().map(|request| ShortLock::new(Some(request))).collect();
    for started in 0..THREADS_MAX.min(count) {
        let (give, next, requests, numa) = (give.clone(), next.clone(), requests.clone(), numa.clone());
        let work = move |near: bool| {
            if near {
                numa.bind();
            }
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((len, kept)) = requests.get(at).and_then(|request| request.lock().take()) else { return };
                let room = HostRoom::new(len, kept);
                let is_last = room.is_none();
                if give.send((at, room)).is_err() || is_last {
                    return;
                }
            }
        };
        let here = work.clone();
        if threads::spawn("accord-room", move || work(true)).is_err() && started == 0 {
            here(false);
        }
    }
    take
}

/// Frees rooms, which takes long, without the caller.
pub(super) fn free(rooms: Vec<HostRoom>) {
    // Without a thread they are dropped here.
    let _ = threads::spawn("accord-room", move || drop(rooms));
}
