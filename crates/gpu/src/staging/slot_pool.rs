//! Memory through which bytes reach or leave a device: page-locked memory of the host, which the device's copy engines can access, or other memory of
//! the device.

use crate::context::Context;
use crate::driver::DriverError;
use crate::numa::NumaAffinity;
use accord_device::stream::{SlotCore, SlotStep};
use accord_types::DevicePtr;
use accord_types::signal::SharedSpinPolicy;
use accord_types::turn_lock::{self, TurnLock};
use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream};
use std::ptr::null_mut;
use std::sync::{Arc, Condvar, MutexGuard};
use std::time::{Duration, Instant};

/// Size of a slot for small copies; larger ones use the large slots.
pub(crate) const SMALL_SLOT: usize = 64 << 10;
/// Size of a slot for large copies in, and out.
pub(crate) const IN_SLOT: usize = 4 << 20;
pub(crate) const OUT_SLOT: usize = 4 << 20;
/// Size of a slot for bytes from other processes.
pub(crate) const RELAY_SLOT: usize = 2 << 20;
/// Size of a slot of the device's own memory, for bytes that a library reads there.
pub(crate) const DEVICE_SLOT: usize = 4 << 20;

/// Polls of an awaited slot before the core is yielded once: each is a call of the driver.
const WAIT_POLLS: u32 = 1;
/// The pause between two polls of a slot that takes longer than recent ones: a fraction of the time so far, within these limits.
const PAUSE_SHARE: u32 = 64;
const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// The kind of a slot's memory.
pub(crate) enum SlotMemory {
    /// Page-locked memory of the host, on these NUMA nodes.
    Host(NumaAffinity),
    /// Memory of the device, where its driver chooses.
    Device,
}

/// Slots of one size, created on demand up to a limit.
pub(crate) struct SlotPool {
    context: Arc<Context>,
    memory: SlotMemory,
    slot_bytes: usize,
    state: TurnLock<Slots>,
    given_back: Condvar,
    /// The recent waits for slots.
    waits: SharedSpinPolicy,
}

struct Slots {
    blocks: Vec<usize>,
    /// Decides which slot is taken, and when.
    core: SlotCore<RawSlot>,
}

#[derive(Clone, Copy)]
struct RawSlot {
    memory: usize,
    event: CUevent,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for RawSlot {}
// SAFETY: as above.
unsafe impl Sync for RawSlot {}

/// One slot. It belongs to its holder until it is dropped or passed to [`Slot::release_after`].
pub(crate) struct Slot {
    raw: RawSlot,
    home: Arc<SlotPool>,
}

impl SlotPool {
    pub(crate) fn new(
        context: Arc<Context>,
        memory: SlotMemory,
        slot_bytes: usize,
        slots_max: usize,
        batch: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            context,
            memory,
            slot_bytes,
            state: TurnLock::new(Slots { blocks: Vec::new(), core: SlotCore::new(slots_max, batch) }),
            given_back: Condvar::new(),
            waits: SharedSpinPolicy::default(),
        })
    }

    /// Returns a slot, if one is available now.
    pub(crate) fn try_take(self: &Arc<Self>) -> Result<Option<Slot>, DriverError> {
        let mut state = self.lock();
        Ok(self.find(&mut state)?.map(|raw| Slot { raw, home: Arc::clone(self) }))
    }

    /// A slot, waited for if need be, of the host's memory. The device's context is current.
    pub(crate) fn take(self: &Arc<Self>) -> Result<Slot, DriverError> {
        let mut state = self.lock();
        loop {
            if let Some(raw) = self.find(&mut state)? {
                return Ok(Slot { raw, home: Arc::clone(self) });
            }
            match state.core.oldest() {
                Some(oldest) => {
                    drop(state);
                    // The other slots are in flight meanwhile.
                    let waited = self.sleep_for(&oldest, Instant::now());
                    state = self.lock();
                    state.core.give_back(oldest);
                    waited?;
                }
                None => state = turn_lock::wait(state, &self.given_back),
            }
        }
    }

    fn find(&self, state: &mut Slots) -> Result<Option<RawSlot>, DriverError> {
        let mut queries = 0;
        loop {
            match state.core.step(queries) {
                SlotStep::Take(raw) => return Ok(Some(raw)),
                SlotStep::Query(raw) if self.is_done(raw.event)? => return Ok(state.core.reuse(queries)),
                SlotStep::Query(_) => queries += 1,
                SlotStep::Make(count) => self.make(state, count)?,
                SlotStep::Wait => return Ok(None),
            }
        }
    }

    fn make(&self, state: &mut Slots, count: usize) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        let driver = self.context.driver;
        let block = match self.allocate(self.slot_bytes * count) {
            // Copies do without such slots.
            Err(error) if matches!(self.memory, SlotMemory::Device) && error.code == DriverError::OUT_OF_MEMORY => {
                state.core.is_exhausted();
                return Ok(());
            }
            allocated => allocated?,
        };
        state.blocks.push(block);
        for index in 0..count {
            let mut event = null_mut();
            // A blocking event raises an interrupt for each copy, with or without a waiter. That costs the core that serves the GPU's
            // interrupts some 25 us, at the expense of its thread.
            let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
            // SAFETY: `event` is valid for writing.
            unsafe { driver.cuEventCreate(&raw mut event, flags) }?;
            state.core.add([RawSlot { memory: block + index * self.slot_bytes, event }]);
        }
        Ok(())
    }

    fn allocate(&self, len: usize) -> Result<usize, DriverError> {
        /// `CU_MEMHOSTALLOC_PORTABLE`: any device of the process may access the memory.
        const PORTABLE: u32 = 1;
        let driver = self.context.driver;
        match &self.memory {
            SlotMemory::Host(numa) => {
                let mut block = null_mut();
                // SAFETY: `block` is valid for writing.
                numa.visit(|| unsafe { driver.cuMemHostAlloc(&raw mut block, len, PORTABLE) })?;
                Ok(block.expose_provenance())
            }
            SlotMemory::Device => {
                let mut block = 0;
                // SAFETY: as above.
                unsafe { driver.cuMemAlloc_v2(&raw mut block, len) }?;
                Ok(block as usize)
            }
        }
    }

    /// Whether the device has passed a slot's event.
    fn is_done(&self, event: CUevent) -> Result<bool, DriverError> {
        // SAFETY: a slot's event lives as long as its pool.
        match unsafe { self.context.driver.cuEventQuery(event) } {
            Ok(()) => Ok(true),
            Err(DriverError { code: DriverError::NOT_READY, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Blocks until the device has passed a slot's event. Spins as long as recent waits were before it sleeps.
    fn wait_for(&self, slot: &RawSlot) -> Result<(), DriverError> {
        let start = Instant::now();
        let known = self.waits.poll_until(WAIT_POLLS, || match self.is_done(slot.event) {
            Ok(false) => None,
            known => Some(known.map(drop)),
        });
        let waited = known.unwrap_or_else(|| self.sleep_for(slot, start));
        self.waits.waited(start);
        waited
    }

    /// Waits with polls at intervals, since `start`.
    fn sleep_for(&self, slot: &RawSlot, start: Instant) -> Result<(), DriverError> {
        while !self.is_done(slot.event)? {
            std::thread::sleep((start.elapsed() / PAUSE_SHARE).clamp(PAUSE_MIN, PAUSE_MAX));
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.state.take()
    }
}

impl Drop for SlotPool {
    fn drop(&mut self) {
        let Ok(_current) = self.context.enter() else { return };
        let state = self.state.get_mut();
        // SAFETY: every slot keeps its pool alive, so that all are back. After a failure the driver refuses, and the process's
        // end frees them.
        unsafe {
            for raw in state.core.all() {
                let _ = self.context.driver.cuEventDestroy_v2(raw.event);
            }
            for block in &state.blocks {
                let _ = match self.memory {
                    SlotMemory::Host(_) => self.context.driver.cuMemFreeHost(*block as *mut _),
                    SlotMemory::Device => self.context.driver.cuMemFree_v2(*block as u64),
                };
            }
        }
    }
}

impl Slot {
    /// Returns the address of a slot in device memory.
    pub(crate) fn address(&self) -> DevicePtr {
        DevicePtr(self.raw.memory as u64)
    }

    pub(crate) fn memory(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.raw.memory)
    }

    /// The first `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> &mut [u8] {
        let is_host = matches!(self.home.memory, SlotMemory::Host(_));
        assert!(is_host && len <= self.home.slot_bytes, "a slot holds less");
        // SAFETY: the slot is its holder's own memory of that size, and pinned memory is initially zero.
        unsafe { std::slice::from_raw_parts_mut(self.memory(), len) }
    }

    /// Records the point in `stream` up to which the device uses the slot.
    pub(crate) fn record(&self, stream: CUstream) -> Result<(), DriverError> {
        // SAFETY: both belong to the device's context.
        unsafe { self.home.context.driver.cuEventRecord(self.raw.event, stream) }
    }

    /// Returns a query, which needs no slot, whether the device has passed the recorded point. If the slot is reused, the answer
    /// concerns the new use.
    pub(crate) fn probe(&self) -> Probe {
        Probe { event: self.raw.event, home: Arc::clone(&self.home) }
    }

    /// Blocks until the device has passed the recorded point.
    pub(crate) fn wait(&self) -> Result<(), DriverError> {
        self.home.wait_for(&self.raw)
    }

    /// Blocks as [`Slot::wait`], for a caller that may wait for regions: the driver spins, and does not block other threads.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: a slot's event lives as long as its pool.
        unsafe { self.home.context.driver.cuEventSynchronize(self.raw.event) }
    }

    /// Returns the slot to the pool once the device has passed the recorded point.
    pub(crate) fn release_after(self) {
        self.home.lock().core.give_back_in_use(self.raw);
        self.home.given_back.notify_one();
        // The list owns the slot now.
        let mut this = std::mem::ManuallyDrop::new(self);
        // SAFETY: not dropped twice: `this` is never dropped.
        unsafe { std::ptr::drop_in_place(&raw mut this.home) };
    }
}

/// The query of [`Slot::probe`].
pub(crate) struct Probe {
    event: CUevent,
    /// Keeps the event alive.
    home: Arc<SlotPool>,
}

impl Probe {
    pub(crate) fn is_done(&self) -> Result<bool, DriverError> {
        self.home.is_done(self.event)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.home.lock().core.give_back(self.raw);
        self.home.given_back.notify_one();
    }
}
