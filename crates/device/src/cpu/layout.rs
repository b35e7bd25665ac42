//! The memory that owner and worker share: counters, rings and doorbells at fixed offsets of the memory file.
//!
//! A worker runs the program's regions, which may write anything here. So the owner keeps its own numbers in private memory
//! and publishes copies. It accepts only plausible values from the worker (`progress`, `ring`), and ends a worker with others.

use crate::turn::TurnWords;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};

/// Version of this layout. Owner and worker are the same build unless the installation is broken.
pub(crate) const LAYOUT_VERSION: u32 = 8;
/// Most streams of one device. Further queues share streams.
pub(crate) const STREAMS_MAX: u32 = 64;
/// Bytes of a stream's worker ring: a power of two.
pub(crate) const RING_BYTES: usize = 1 << 20;
/// Entries of a stream's trace ring: a power of two.
pub(crate) const TRACE_ENTRIES: usize = 4096;
/// Offset of the streams, and the distance between two.
const STREAMS_OFFSET: usize = 4096;
const STREAM_STRIDE: usize = 4096 + RING_BYTES + (TRACE_ENTRIES * size_of::<TraceEntry>()).next_multiple_of(4096);
/// Offset and number of bytes of the pages of `declare` variables.
pub(crate) const GLOBALS_OFFSET: u64 = 1 << 30;
pub(crate) const GLOBALS_BYTES: u64 = 63 << 30;
/// Offset of the arena.
pub(crate) const ARENA_OFFSET: u64 = GLOBALS_OFFSET + GLOBALS_BYTES;
/// Offset of the bits of mapped memory, one per granule of the arena.
const MAPPED_OFFSET: usize = STREAMS_OFFSET + STREAMS_MAX as usize * STREAM_STRIDE;
/// Bytes of device memory per bit.
pub(crate) const MAPPED_GRANULE: u64 = 2 << 20;
/// Bytes per bit if blocks have guard pages (`ACCORD_CHECK=bounds`).
pub(crate) const GUARDED_GRANULE: u64 = 4096;
/// Words of these bits: enough for the longest arena with the smaller granule. Untouched words take no memory.
pub(crate) const MAPPED_WORDS: usize = (ARENA_STRIDE / GUARDED_GRANULE / 64) as usize;
/// Bytes of header, streams and bits, which both sides map at any address.
pub(crate) const CONTROL_BYTES: usize = MAPPED_OFFSET + MAPPED_WORDS * 8;
/// Distance between the arenas of two devices by default.
pub(crate) const ARENA_STRIDE: u64 = 1 << 40;

const _: () = assert!((CONTROL_BYTES as u64) < GLOBALS_OFFSET);
const _: () = assert!(size_of::<Header>() <= STREAMS_OFFSET);
const _: () = assert!(size_of::<StreamShared>() <= 4096);
const _: () = assert!(RING_BYTES.is_power_of_two() && TRACE_ENTRIES.is_power_of_two());

/// The address of a crash without an address on this processor.
pub(crate) const NO_ADDRESS: u64 = u64::MAX;

/// The start of the file.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) version: AtomicU32,
    /// Number of cores that the owner may use: the worker's own share does not reveal whether others are free.
    pub(crate) cores: AtomicU32,
    /// Number of streams that wait for another stream, and the doorbell that announces progress.
    pub(crate) cross_waiters: AtomicU32,
    pub(crate) cross_doorbell: AtomicU32,
    /// Signal that ended the worker, with the stream, instruction and address; 0 if none.
    pub(crate) crash_signal: AtomicI32,
    pub(crate) crash_stream: AtomicU32,
    /// The signal's `si_code`.
    pub(crate) crash_code: AtomicI32,
    pub(crate) crash_ip: AtomicU64,
    /// Whether the instruction is a call of the address (0 or 1).
    pub(crate) crash_call: AtomicU32,
    /// The address, or [`NO_ADDRESS`].
    pub(crate) crash_address: AtomicU64,
    /// The code of `exit` + 1 if a region called it, and the stream of the calling thread.
    pub(crate) exit_code: AtomicI32,
    pub(crate) exit_stream: AtomicU32,
    /// Counts about one per second while the worker is neither stopped nor frozen, whatever its regions do.
    pub(crate) beats: AtomicU64,
    /// Bytes of device memory per bit of mapped memory.
    pub(crate) granule: AtomicU64,
    /// Number of words of these bits that have ever been in use, from the first on.
    pub(crate) mapped_words: AtomicU64,
    /// Number of changes to the bits of mapped memory, incremented after the bits are written.
    pub(crate) memory_changes: AtomicU64,
    /// Whether the worker has found a record that the owner can't have written.
    pub(crate) corrupt: AtomicU32,
    /// The gate that regions pass if the device is shared by turns.
    pub(crate) turn: TurnWords,
}

/// One stream. The counters of each half are on cache lines of their own.
#[repr(C, align(64))]
pub(crate) struct StreamShared {
    /// Number of bytes ever put into the ring.
    pub(crate) head: AtomicU64,
    _pad0: [u64; 7],
    /// Number of bytes ever taken from the ring.
    pub(crate) tail: AtomicU64,
    /// Position of the last operation that the worker has done.
    pub(crate) worker_done: AtomicU64,
    /// Address in the worker of the running function; 0 if none.
    pub(crate) running: AtomicU64,
    _pad1: [u64; 5],
    /// Position of the last operation that the owner has done.
    pub(crate) owner_done: AtomicU64,
    _pad2: [u64; 7],
    /// The worker's thread sleeps on this doorbell when `worker_sleeping` is set.
    pub(crate) worker_doorbell: AtomicU32,
    pub(crate) worker_sleeping: AtomicU32,
    /// Whether the worker's thread sleeps until the owner or another stream has made progress.
    pub(crate) blocked: AtomicU32,
    _pad3: [u32; 13],
    /// Doorbell on which owner threads sleep until the stream reaches `owner_want`.
    pub(crate) owner_doorbell: AtomicU32,
    /// Whether an operation failed, so that the rest of the stream is skipped.
    pub(crate) poisoned: AtomicU32,
    pub(crate) owner_want: AtomicU64,
    _pad4: [u64; 6],
    /// Number of spans ever written to the trace ring. Tracing is on if `tracing` is set.
    pub(crate) trace_head: AtomicU64,
    pub(crate) tracing: AtomicU32,
}

/// One span in the trace ring.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct TraceEntry {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// Function address for launches, otherwise bytes moved.
    pub(crate) what: u64,
    /// A `ring` record kind.
    pub(crate) kind: u32,
    pub(crate) _pad: u32,
}

impl StreamShared {
    /// Returns the position up to which all operations are done, as the worker sees it. `Progress::reached` is the owner's view.
    pub(crate) fn reached(&self) -> u64 {
        self.worker_done.load(Ordering::Acquire).max(self.owner_done.load(Ordering::Acquire))
    }

    /// Wakes the worker's thread of this stream if it sleeps. Called after the change that the thread waits for.
    pub(crate) fn ring_worker(&self) {
        fence(Ordering::SeqCst);
        if self.worker_sleeping.load(Ordering::Relaxed) != 0 {
            self.worker_doorbell.fetch_add(1, Ordering::Release);
            super::futex::wake_one(&self.worker_doorbell);
        }
    }

    /// Wakes the worker's thread after progress of the owner, unless it has no record and so does not wait.
    pub(crate) fn ring_waiting_worker(&self) {
        fence(Ordering::SeqCst);
        // A producer rings itself, and the worker checks the owner's progress after that.
        if self.head.load(Ordering::Relaxed) != self.tail.load(Ordering::Relaxed) {
            self.ring_worker();
        }
    }

    /// Wakes owner threads that wait for position `done` or less. Called after the change.
    pub(crate) fn ring_owner(&self, done: u64) {
        fence(Ordering::SeqCst);
        if self.owner_want.load(Ordering::Relaxed) <= done {
            self.owner_doorbell.fetch_add(1, Ordering::Release);
            super::futex::wake_all(&self.owner_doorbell);
        }
    }
}

impl Header {
    /// Wakes streams that wait for another stream's progress. Called after the change.
    pub(crate) fn ring_cross(&self) {
        fence(Ordering::SeqCst);
        if self.cross_waiters.load(Ordering::Relaxed) != 0 {
            self.cross_doorbell.fetch_add(1, Ordering::Release);
            super::futex::wake_all(&self.cross_doorbell);
        }
    }
}

/// The mapped control part of a memory file. A copyable address that outlives its users.
#[derive(Clone, Copy)]
pub(crate) struct Control {
    base: *mut u8,
}

// SAFETY: the memory consists of atomics, and of ring and trace bytes that the counters pass from one side to the other.
unsafe impl Send for Control {}
// SAFETY: as for Send.
unsafe impl Sync for Control {}

impl Control {
    /// # Safety
    /// `base` must map [`CONTROL_BYTES`] of a memory file at offset 0, and stay mapped while any copy of the result is used.
    pub(crate) unsafe fn new(base: *mut u8) -> Self {
        Self { base }
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: `new` promises the mapping; Header is all atomics, for which any bytes are valid.
        unsafe { &*self.base.cast::<Header>() }
    }

    pub(crate) fn stream(&self, index: u32) -> &StreamShared {
        assert!(index < STREAMS_MAX, "stream index out of range");
        // SAFETY: `new` promises the mapping and the index is in range; all fields are atomics or padding.
        unsafe { &*self.stream_base(index).cast::<StreamShared>() }
    }

    /// Returns the start of a stream's ring bytes.
    pub(crate) fn ring(&self, index: u32) -> *mut u8 {
        assert!(index < STREAMS_MAX, "stream index out of range");
        // SAFETY: in range of the mapping, see STREAM_STRIDE.
        unsafe { self.stream_base(index).add(4096) }
    }

    /// The trace ring's slot for the `n`th span.
    pub(crate) fn trace(&self, index: u32, n: u64) -> *mut TraceEntry {
        let slot = n as usize & (TRACE_ENTRIES - 1);
        // SAFETY: in range of the mapping, see STREAM_STRIDE; 4096-aligned start.
        unsafe { self.ring(index).add(RING_BYTES).cast::<TraceEntry>().add(slot) }
    }

    /// Returns the bits of 64 granules of the arena, set for mapped memory. The owner writes them and never reads them.
    pub(crate) fn mapped(&self, word: usize) -> &AtomicU64 {
        assert!(word < MAPPED_WORDS, "device memory out of range");
        // SAFETY: in range of the mapping; any bytes are a valid atomic.
        unsafe { &*self.base.add(MAPPED_OFFSET + word * 8).cast::<AtomicU64>() }
    }

    fn stream_base(&self, index: u32) -> *mut u8 {
        // SAFETY: callers check the index against STREAMS_MAX.
        unsafe { self.base.add(STREAMS_OFFSET + index as usize * STREAM_STRIDE) }
    }
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds, the same clock in owner and worker.
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
