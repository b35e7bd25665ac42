//! Copies between a device's memory and pageable memory of the host while the work is suspended: threads move the bytes through
//! page-locked slots of their own, since those of the streams may wait for other processes.

use crate::context::Context;
use crate::driver::{Driver, DriverError};
use crate::memory_uses::MemoryUses;
use crate::numa::NumaAffinity;
use crate::staging::copy_pool::CopyPool;
use crate::staging::progress::{CopyError, Tracker};
use crate::staging::slot_pool::{OUT_SLOT, Slot, SlotMemory, SlotPool};
use cudarc::driver::sys::{CUstream, CUstream_flags};
use std::collections::VecDeque;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

/// Most slots. More are no faster.
const SLOTS_MAX: usize = 16;
/// Number of slots that are created together.
const SLOTS_BATCH: usize = 4;
/// The pause of the thread that waits for a slot.
const SLOT_PAUSE: Duration = Duration::from_micros(20);
/// Pieces whose copies in are queued, so that the next ones are mapped meanwhile.
const UPLOADS_AHEAD: usize = 2;

/// A stream for the copies. The context is current as long as it lives.
struct CopyStream {
    driver: &'static Driver,
    raw: CUstream,
}

impl CopyStream {
    fn new(driver: &'static Driver) -> Result<Self, DriverError> {
        let mut raw = null_mut();
        // SAFETY: `raw` is valid for writing.
        unsafe { driver.cuStreamCreate(&raw mut raw, CUstream_flags::CU_STREAM_NON_BLOCKING as u32) }?;
        Ok(Self { driver, raw })
    }

    fn wait(&self) -> Result<(), DriverError> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { self.driver.cuStreamSynchronize(self.raw) }
    }
}

impl Drop for CopyStream {
    fn drop(&mut self) {
        // SAFETY: the stream has no users any more.
        let _ = unsafe { self.driver.cuStreamDestroy_v2(self.raw) };
    }
}

/// The threads and slots of the copies. Once it is dropped, no copy is in progress.
pub(super) struct Staging {
    pool: CopyPool,
    slots: Arc<SlotPool>,
    stream: CopyStream,
    /// The copies that have begun.
    begun: VecDeque<Arc<Tracker>>,
}

impl Staging {
    /// Creates the stream. The context is current as long as the value lives.
    pub(super) fn new(context: &Arc<Context>, numa: &NumaAffinity) -> Result<Self, DriverError> {
        let stream = CopyStream::new(context.driver)?;
        // The device's own uses are suspended.
        let uses = Arc::<MemoryUses>::default();
        let pool = CopyPool::new(Arc::clone(context), uses, numa.clone());
        let memory = SlotMemory::Host(numa.clone());
        let slots = SlotPool::new(Arc::clone(context), memory, OUT_SLOT, SLOTS_MAX, SLOTS_BATCH);
        Ok(Self { pool, slots, stream, begun: VecDeque::new() })
    }

    /// Begins a copy of `len` bytes of the device's memory to the host's. Both stay until [`Staging::finish`] has returned or the
    /// value was dropped.
    pub(super) fn begin_out(&mut self, from: u64, len: usize, to: usize) -> Result<(), DriverError> {
        let parts = (0..len).step_by(OUT_SLOT).map(|offset| (offset, OUT_SLOT.min(len - offset)));
        let tracker = CopyPool::tracker(parts.clone().map(|(_, bytes)| bytes));
        self.begun.push_back(Arc::clone(&tracker));
        for (offset, bytes) in parts {
            let slot = self.slot(&tracker)?;
            // SAFETY: the slot is pinned and as long as a part, and read only after its event.
            unsafe {
                let from = from + offset as u64;
                self.stream.driver.cuMemcpyDtoHAsync_v2(slot.memory().cast(), from, bytes, self.stream.raw)
            }?;
            slot.record(self.stream.raw)?;
            self.pool.download(0, slot, to + offset, bytes, &tracker);
        }
        Ok(())
    }

    /// Returns a slot, once the threads have emptied one.
    fn slot(&self, tracker: &Tracker) -> Result<Slot, DriverError> {
        loop {
            if let Some(slot) = self.slots.try_take()? {
                return Ok(slot);
            }
            // Copies here if there are no threads.
            self.pool.test(tracker);
            std::thread::sleep(SLOT_PAUSE);
        }
    }

    /// Begins a copy of `len` bytes of the host's memory to the device's, as [`Staging::begin_out`].
    pub(super) fn begin_in(&mut self, from: usize, len: usize, to: u64) -> Result<(), DriverError> {
        while self.begun.len() >= UPLOADS_AHEAD
            && let Some(earliest) = self.begun.pop_front()
        {
            self.wait(&earliest)?;
        }
        self.begun.push_back(self.pool.begin_upload(from, len, to, self.stream.raw, &self.slots));
        Ok(())
    }

    fn wait(&self, tracker: &Tracker) -> Result<(), DriverError> {
        self.pool.wait(tracker).map_err(|error| match error {
            CopyError::Driver(error) => error,
            // The threads end in `drop` only.
            CopyError::ShutDown => DriverError { call: "cuMemcpyAsync", code: 0 },
        })
    }

    /// Waits for all copies.
    pub(super) fn finish(mut self) -> Result<(), DriverError> {
        while let Some(earliest) = self.begun.pop_front() {
            self.wait(&earliest)?;
        }
        self.stream.wait()
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.pool.close();
        // A thread that copies has a slot.
        while Arc::strong_count(&self.slots) > 1 {
            std::thread::sleep(SLOT_PAUSE);
        }
        let _ = self.stream.wait();
    }
}
