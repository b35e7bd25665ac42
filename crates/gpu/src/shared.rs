//! The state that all parts of one device share.

use super::context::Context;
use super::device_stream::DeviceStream;
use super::driver::DriverError;
use super::fence::Fence;
use super::function::Function;
use super::held_work::HeldWork;
use super::imports::Imports;
use super::loss;
use super::memory::Memory;
use super::memory_uses::MemoryUses;
use super::numa::NumaAffinity;
use super::staging::copy_pool::CopyPool;
use super::staging::progress::CopyError;
use super::staging::slot_pool::{DEVICE_SLOT, IN_SLOT, OUT_SLOT, RELAY_SLOT, SMALL_SLOT, SlotMemory, SlotPool};
use super::table::Table;
use super::trace::Tracer;
use accord_device::TurnWords;
use accord_device::failure::{Failure, shut_down};
use accord_types::short_lock::ShortLock;
use accord_types::{DeviceInfo, Error, ErrorCode, QueueId};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

pub(crate) struct Shared {
    // Streams, slots and memory are dropped before their context.
    pub(crate) copy_pool: CopyPool,
    /// Slots for copies of a few KiB out.
    pub(crate) small: Arc<SlotPool>,
    /// Slots for large copies in, and for large copies out, so that neither direction can starve the other.
    pub(crate) inward: Arc<SlotPool>,
    pub(crate) outward: Arc<SlotPool>,
    /// Slots for bytes from other processes, one per stream at a time: copies that wait for them must not block others.
    pub(crate) relayed: Arc<SlotPool>,
    /// Slots of the device's own memory, for bytes that a library reads: MPI is faster with memory that the driver has allocated.
    pub(crate) native: Arc<SlotPool>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) memory_uses: Arc<MemoryUses>,
    /// The fence that orders all streams.
    pub(crate) fence: Fence,
    /// Memory of other processes.
    pub(crate) imports: Arc<Imports>,
    pub(crate) functions: Table<Arc<Function>>,
    pub(crate) failure: Failure,
    /// Whether [`Shared::stop`] has set the failure, so that the driver's context is intact.
    pub(crate) stopped: AtomicBool,
    pub(crate) tracer: Tracer,
    pub(crate) streams: ShortLock<Vec<Weak<dyn DeviceStream>>>,
    /// Number of streams that hold copies back.
    pub(crate) streams_holding: AtomicU32,
    /// Whether other code of the process uses the driver, see [`super::CudaConfig::company`].
    pub(crate) company: Option<fn() -> bool>,
    /// The gate of launches, if the device is shared by turns.
    pub(crate) turn: Option<Arc<TurnWords>>,
    /// Holds callers back while the work is suspended.
    pub(crate) held_work: HeldWork,
    /// Whether the program has a stream, so that its own work can't be held back.
    pub(crate) handed_out: AtomicBool,
    /// The processors near the device.
    pub(crate) numa: NumaAffinity,
    /// Whether a region may print: the driver passes text on when it waits, not when it is queried.
    pub(crate) prints: AtomicBool,
    pub(crate) context: Arc<Context>,
}

impl Shared {
    pub(crate) fn new(
        info: &DeviceInfo,
        context: Arc<Context>,
        memory: Memory,
        company: Option<fn() -> bool>,
        turn: Option<Arc<TurnWords>>,
    ) -> Arc<Self> {
        const SMALL_SLOTS: usize = 128;
        const IN_SLOTS: usize = 16;
        const OUT_SLOTS: usize = 32;
        const RELAY_SLOTS: usize = 64;
        const LARGE_BATCH: usize = 4;
        const DEVICE_SLOTS: usize = 8;
        let numa = NumaAffinity::node(info.numa);
        let of = |memory, bytes, slots, batch| SlotPool::new(Arc::clone(&context), memory, bytes, slots, batch);
        let pinned = |bytes, slots, batch| of(SlotMemory::Host(numa.clone()), bytes, slots, batch);
        let memory_uses = Arc::<MemoryUses>::default();
        Arc::new(Self {
            copy_pool: CopyPool::new(Arc::clone(&context), Arc::clone(&memory_uses), numa.clone()),
            small: pinned(SMALL_SLOT, SMALL_SLOTS, 16),
            inward: pinned(IN_SLOT, IN_SLOTS, LARGE_BATCH),
            outward: pinned(OUT_SLOT, OUT_SLOTS, LARGE_BATCH),
            relayed: pinned(RELAY_SLOT, RELAY_SLOTS, LARGE_BATCH),
            native: of(SlotMemory::Device, DEVICE_SLOT, DEVICE_SLOTS, 1),
            memory: Arc::new(memory),
            memory_uses,
            fence: Fence::new(Arc::clone(&context)),
            imports: Imports::new(Arc::clone(&context)),
            functions: Table::default(),
            failure: Failure::default(),
            stopped: AtomicBool::new(false),
            tracer: Tracer::new(info.id, Arc::clone(&context)),
            streams: ShortLock::default(),
            streams_holding: AtomicU32::new(0),
            company,
            turn,
            held_work: HeldWork::default(),
            handed_out: AtomicBool::new(false),
            numa,
            prints: AtomicBool::new(false),
            context,
        })
    }

    /// Fails the device for a reason that leaves its context intact.
    pub(crate) fn stop(&self, error: Error) {
        if self.failure.check().is_ok() {
            self.stopped.store(true, Ordering::Release);
        }
        self.failure.set(error);
        for stream in self.all_streams() {
            stream.wake();
        }
    }

    /// Returns the error of a failed call of the driver. It becomes the device's failure if the context is lost.
    pub(crate) fn driver_failed(&self, error: DriverError, queue: Option<QueueId>) -> Error {
        if !error.is_sticky() {
            return error.into_error(ErrorCode::Execution);
        }
        let mut regions = Vec::new();
        let mut queues = Vec::new();
        for running in self.all_streams() {
            let recent_kernels = running.recent_kernels();
            if !recent_kernels.is_empty() {
                queues.push(running.queue());
            }
            regions.extend(recent_kernels.into_iter().filter(|region| !regions.contains(region)).collect::<Vec<_>>());
        }
        let names: Vec<_> = regions.iter().filter_map(|region| Some(self.functions.get(*region)?.describe())).collect();
        let mut failure = Error::new(ErrorCode::Execution, loss::cause(self.context.device, &names, error));
        if loss::is_first(self.context.device) {
            failure = failure.device_fault(error.fault());
        }
        if matches!(error.code, 700 | 714 | 715 | 716 | 717 | 718 | 719) {
            failure = failure.remedy(
                "check its data clauses and array bounds (compute-sanitizer finds the place); the device can be used again by another process only",
            );
        }
        // The stream that noticed the error need not be the one that failed.
        if let Some(&queue) = queues.first().filter(|_| queues.len() == 1).or(queue.as_ref()) {
            failure = failure.queue(queue);
        }
        self.failure.set(failure);
        for stream in self.all_streams() {
            stream.wake();
        }
        self.failure.check().err().unwrap_or_else(|| error.into())
    }

    /// Returns the error of a failed copy, as [`Shared::driver_failed`].
    pub(crate) fn copy_failed(&self, error: CopyError, queue: Option<QueueId>) -> Error {
        match error {
            CopyError::Driver(error) => self.driver_failed(error, queue),
            CopyError::ShutDown => self.failure.check().err().unwrap_or_else(shut_down),
        }
    }

    pub(crate) fn all_streams(&self) -> Vec<Arc<dyn DeviceStream>> {
        self.streams.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
