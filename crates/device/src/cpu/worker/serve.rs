//! The worker's thread of one stream: reads records from the ring and performs them.

use super::memory::DeviceMemory;
use super::{crash, flush};
use crate::cpu::layout::{Control, TraceEntry, now_ns};
use crate::cpu::ring::{COPY, LAUNCH, Reader, Record, STORE, WAIT};
use crate::cpu::{float_control, futex};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::spin_policy::SpinPolicy;
use accord_types::threads;
use accord_types::{ArgBlock, FloatControl};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Condvar};
use std::time::Duration;

/// Longest sleep, so that a lost wake-up never becomes a hang.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Least and largest stack of a stream's thread, on which regions keep private arrays. Only touched pages use memory.
const STACK_MIN: usize = 64 << 20;
const STACK_MAX: usize = 1 << 30;

/// A bound on concurrent regions: the device's number of cores.
pub(super) struct Slots {
    total: u32,
    free: ShortLock<u32>,
    changed: Condvar,
}

/// A number of slots, released on drop.
pub(super) struct TakenSlots<'a>(&'a Slots, u32);

impl Slots {
    pub(super) fn new(total: u32) -> Self {
        Self { total, free: ShortLock::new(total), changed: Condvar::new() }
    }

    pub(super) fn take_all(&self) -> TakenSlots<'_> {
        self.take(self.total)
    }

    fn take(&self, count: u32) -> TakenSlots<'_> {
        let mut free = self.free.lock();
        while *free < count {
            free = ShortGuard::wait(free, &self.changed);
        }
        *free -= count;
        TakenSlots(self, count)
    }
}

impl Drop for TakenSlots<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += self.1;
        self.0.changed.notify_all();
    }
}

/// Returns the size of a stream's stack: the program's own limit (`ulimit -s`), within bounds.
fn stack_bytes() -> usize {
    // SAFETY: all-zero is a valid limit, and the call writes one.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit);
        limit.rlim_cur
    };
    usize::try_from(limit).unwrap_or(usize::MAX).clamp(STACK_MIN, STACK_MAX)
}

/// Starts the thread of stream `index`.
pub(super) fn start(control: Control, index: u32, slots: Arc<Slots>, memory: Arc<DeviceMemory>) -> Result<(), String> {
    if index >= crate::cpu::layout::STREAMS_MAX {
        return Err(format!("stream {index} does not exist"));
    }
    let serve = move || {
        crash::prepare_thread(index);
        run(control, index, &slots, &memory);
    };
    threads::spawn_with_stack(format!("accord-stream{index}"), stack_bytes(), serve)
        .map(drop)
        .map_err(|e| format!("starting a thread: {e}"))
}

fn run(control: Control, index: u32, slots: &Slots, memory: &DeviceMemory) -> ! {
    let shared = control.stream(index);
    let mut spin = SpinPolicy::new(control.header().cores.load(Ordering::Relaxed) as usize);
    let mut ring = Reader::default();
    let mut seen = 0;
    loop {
        let (record, payload) = match ring.peek(&control, index) {
            Ok(Some(next)) => next,
            Ok(None) => {
                wait(&control, index, &mut spin, || ring.has_more(&control, index));
                continue;
            }
            Err(_) => crash::corrupt(&control),
        };
        while shared.owner_done.load(Ordering::Acquire) < record.after {
            wait(&control, index, &mut spin, || shared.owner_done.load(Ordering::Acquire) >= record.after);
        }
        if shared.poisoned.load(Ordering::Acquire) == 0 {
            memory.follow(&mut seen);
            perform(&control, index, slots, &record, payload);
        }
        ring.pop(&control, index, &record);
        shared.worker_done.store(record.seq, Ordering::Release);
        shared.ring_owner(record.seq);
        control.header().ring_cross();
    }
}

fn perform(control: &Control, index: u32, slots: &Slots, record: &Record, payload: *mut u8) {
    let shared = control.stream(index);
    let tracing = shared.tracing.load(Ordering::Relaxed) != 0 && record.kind != WAIT;
    match record.kind {
        LAUNCH => {
            let turn = &control.header().turn;
            let slot = loop {
                let slot = slots.take(1);
                // Announced before the gate is read: the keeper of the turn reads `running` after it has closed the gate.
                shared.running.store(record.a, Ordering::SeqCst);
                if !turn.is_closed() {
                    break slot;
                }
                shared.running.store(0, Ordering::SeqCst);
                // A thread that remaps pages takes all slots, and must not wait for the turn.
                drop(slot);
                turn.park();
            };
            let start = if tracing { now_ns() } else { 0 };
            // SAFETY: the owner got the address of the program's own function from `resolve`. The payload is the block followed by its
            // bitmap, as `CpuDevice::launch` has put it there.
            unsafe {
                relocate(payload, record.c as usize);
                let function: extern "C" fn(*mut u8) = std::mem::transmute(record.a as usize);
                float_control::call(function, payload, FloatControl::from_wire(record.b as u32));
            }
            flush::output();
            shared.running.store(0, Ordering::Release);
            drop(slot);
            turn.region_ended();
            if tracing {
                trace(control, index, start, record.a, LAUNCH);
            }
        }
        STORE => {
            let start = if tracing { now_ns() } else { 0 };
            // SAFETY: the owner checked the range against this device's memory.
            unsafe { (record.a as *mut u8).copy_from_nonoverlapping(payload, record.c as usize) };
            if tracing {
                trace(control, index, start, record.c, STORE);
            }
        }
        COPY => {
            let start = if tracing { now_ns() } else { 0 };
            // SAFETY: the owner checked both ranges against this device's memory.
            unsafe { (record.a as *mut u8).copy_from(record.b as *const u8, record.c as usize) };
            if tracing {
                trace(control, index, start, record.c, COPY);
            }
        }
        WAIT => wait_for(control, index, (record.a as u32, record.b)),
        _ => {}
    }
}

/// Adds the block's address to its relative words.
///
/// # Safety
/// `block` must hold `bytes` bytes, followed by the bitmap for these.
unsafe fn relocate(block: *mut u8, bytes: usize) {
    for word in 0..ArgBlock::relative_words(bytes) {
        // SAFETY: the caller's promise.
        let mut bits = unsafe { block.add(bytes + word * 8).cast::<u64>().read_unaligned() };
        while bits != 0 {
            let pointer = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if pointer < bytes / 8 {
                // SAFETY: the pointer is in the block, which is 16-byte aligned.
                unsafe {
                    let pointer = block.cast::<u64>().add(pointer);
                    *pointer = (*pointer).wrapping_add(block as u64);
                }
            }
        }
    }
}

/// Waits until another stream of this device has reached `seq`.
fn wait_for(control: &Control, index: u32, (other, seq): (u32, u64)) {
    let header = control.header();
    let other = control.stream(other);
    if other.reached() >= seq {
        return;
    }
    let blocked = &control.stream(index).blocked;
    blocked.store(1, Ordering::SeqCst);
    header.turn.becomes_idle();
    header.cross_waiters.fetch_add(1, Ordering::SeqCst);
    loop {
        let doorbell = header.cross_doorbell.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        if other.reached() >= seq {
            break;
        }
        futex::wait(&header.cross_doorbell, doorbell, Some(CHECK_INTERVAL));
    }
    header.cross_waiters.fetch_sub(1, Ordering::SeqCst);
    blocked.store(0, Ordering::SeqCst);
}

/// Waits for the owner until `ready` holds, or the doorbell rings for another reason. Spins before it blocks.
fn wait(control: &Control, index: u32, spin: &mut SpinPolicy, ready: impl Fn() -> bool) {
    spin.wait(&ready, || sleep(control, index, &ready));
}

/// Sleeps until the owner rings, unless `ready` already holds.
fn sleep(control: &Control, index: u32, ready: impl Fn() -> bool) {
    let shared = control.stream(index);
    let doorbell = shared.worker_doorbell.load(Ordering::Acquire);
    shared.worker_sleeping.store(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if !ready() {
        shared.blocked.store(1, Ordering::SeqCst);
        control.header().turn.becomes_idle();
        futex::wait(&shared.worker_doorbell, doorbell, Some(CHECK_INTERVAL));
        shared.blocked.store(0, Ordering::SeqCst);
    }
    shared.worker_sleeping.store(0, Ordering::Relaxed);
}

fn trace(control: &Control, index: u32, start_ns: u64, what: u64, kind: u32) {
    let shared = control.stream(index);
    let head = shared.trace_head.load(Ordering::Relaxed);
    let entry = TraceEntry { start_ns, end_ns: now_ns(), what, kind, _pad: 0 };
    // SAFETY: any number maps to an entry of the trace ring, and this thread is the only writer of this stream's ring.
    unsafe { control.trace(index, head).write(entry) };
    shared.trace_head.store(head.wrapping_add(1), Ordering::Release);
}
