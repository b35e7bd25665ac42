//! Page-locked host memory for a device's memory, in large pages and prepared by several threads: the driver's own page-locked
//! memory comes at 2 GB/s on an H200's host, this at 20 GB/s.

use crate::context::Context;
use crate::driver::DriverError;
use crate::numa::NumaAffinity;
use accord_types::threads;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// Most threads that prepare memory. More are no faster.
const THREADS_MAX: usize = 8;
/// The distance of writes that make the kernel provide all pages.
const STEP: usize = 4096;

/// Page-locked host memory.
pub(super) struct HostRoom {
    context: Arc<Context>,
    start: *mut c_void,
    len: usize,
    is_locked: bool,
}

// SAFETY: the memory may be used and freed by any thread.
unsafe impl Send for HostRoom {}

impl HostRoom {
    /// Provides the memory. The context is current.
    fn new(context: &Arc<Context>, len: u64) -> Result<Self, DriverError> {
        let out_of_memory = DriverError { call: "mmap", code: DriverError::OUT_OF_MEMORY };
        let len = usize::try_from(len).map_err(|_| out_of_memory)?;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses the place.
        let start = unsafe { libc::mmap(null_mut(), len, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(out_of_memory);
        }
        let mut room = Self { context: Arc::clone(context), start, len, is_locked: false };
        // SAFETY: the memory was mapped above, and has no other users. Without large pages it is slower.
        unsafe {
            libc::madvise(start, len, libc::MADV_HUGEPAGE);
            for at in (0..len).step_by(STEP) {
                start.cast::<u8>().add(at).write_volatile(0);
            }
            context.driver.cuMemHostRegister_v2(start, len, 0)?;
        }
        room.is_locked = true;
        Ok(room)
    }

    /// Returns the first address.
    pub(super) fn start(&self) -> *mut c_void {
        self.start
    }
}

impl Drop for HostRoom {
    fn drop(&mut self) {
        // SAFETY: no copy uses the memory any more.
        unsafe {
            if self.is_locked
                && let Ok(_current) = self.context.enter()
            {
                let _ = self.context.driver.cuMemHostUnregister(self.start);
            }
            libc::munmap(self.start, self.len);
        }
    }
}

/// Rooms in the order in which threads finish them, with their numbers.
pub(super) type Rooms = Receiver<(usize, Result<HostRoom, DriverError>)>;

/// Starts to provide a room of each of these lengths, on processors near the device. After an error further rooms may be missing.
pub(super) fn rooms(context: &Arc<Context>, numa: &NumaAffinity, lens: Vec<u64>) -> Rooms {
    let (give, take) = channel();
    let (next, count) = (Arc::new(AtomicUsize::new(0)), lens.len());
    let lens = Arc::new(lens);
    for started in 0..THREADS_MAX.min(count) {
        let (give, next, lens, context, numa) =
            (give.clone(), next.clone(), lens.clone(), context.clone(), numa.clone());
        let work = move |near: bool| {
            if near {
                numa.bind();
            }
            let Ok(_current) = context.enter() else { return };
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(len) = lens.get(at) else { return };
                let room = HostRoom::new(&context, *len);
                let is_last = room.is_err();
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
