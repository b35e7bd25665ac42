//! What the parts of one device share.

use super::context::Context;
use super::driver::DriverError;
use super::ipc::Imports;
use super::launch::Function;
use super::loss;
use super::memory::Memory;
use super::movers::Movers;
use super::near::Near;
use super::pinned::Pinned;
use super::stream::Stream;
use super::table::Table;
use super::trace::Tracer;
use crate::failure::Failure;
use accord_types::{DeviceId, Error, ErrorCode};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub(crate) struct Shared {
    // Streams, slots and memory go before the context that they belong to.
    pub(crate) movers: Movers,
    /// Slots for copies of a few KiB out.
    pub(crate) small: Arc<Pinned>,
    /// Slots for large copies in, and for large copies out: neither direction can starve the other.
    pub(crate) inward: Arc<Pinned>,
    pub(crate) outward: Arc<Pinned>,
    /// Slots for bytes that come from elsewhere, one a stream at a time: what waits for them must not hold up the others.
    pub(crate) relayed: Arc<Pinned>,
    pub(crate) memory: Arc<Memory>,
    /// Memory of other processes.
    pub(crate) imports: Arc<Imports>,
    pub(crate) functions: Table<Arc<Function>>,
    pub(crate) failure: Failure,
    pub(crate) tracer: Tracer,
    pub(crate) streams: Mutex<Vec<Weak<Stream>>>,
    /// A region may print: the driver passes that on when it is waited for, not when it is asked.
    pub(crate) prints: AtomicBool,
    pub(crate) context: Arc<Context>,
}

/// Size of a slot for small copies; larger ones take the large slots.
pub(crate) const SMALL_SLOT: usize = 64 << 10;
/// Size of a slot for large copies in, and out.
pub(crate) const IN_SLOT: usize = 4 << 20;
pub(crate) const OUT_SLOT: usize = 4 << 20;
/// Size of a slot for bytes that come from elsewhere.
pub(crate) const RELAY_SLOT: usize = 2 << 20;

impl Shared {
    pub(crate) fn new(device: DeviceId, near: &Near, context: Arc<Context>, memory: Memory) -> Arc<Self> {
        const SMALL_SLOTS: usize = 128;
        const IN_SLOTS: usize = 16;
        const OUT_SLOTS: usize = 32;
        const RELAY_SLOTS: usize = 64;
        const LARGE_BATCH: usize = 4;
        let pinned = |bytes, slots, batch| Pinned::new(Arc::clone(&context), near.clone(), bytes, slots, batch);
        Arc::new(Self {
            movers: Movers::new(Arc::clone(&context), near.clone()),
            small: pinned(SMALL_SLOT, SMALL_SLOTS, 16),
            inward: pinned(IN_SLOT, IN_SLOTS, LARGE_BATCH),
            outward: pinned(OUT_SLOT, OUT_SLOTS, LARGE_BATCH),
            relayed: pinned(RELAY_SLOT, RELAY_SLOTS, LARGE_BATCH),
            memory: Arc::new(memory),
            imports: Imports::new(Arc::clone(&context)),
            functions: Table::default(),
            failure: Failure::default(),
            tracer: Tracer::new(device, Arc::clone(&context)),
            streams: Mutex::default(),
            prints: AtomicBool::new(false),
            context,
        })
    }

    /// The error that a failed call of the driver means, kept as the device's failure if the context is lost.
    pub(crate) fn driver_failed(&self, error: DriverError, stream: Option<&Stream>) -> Error {
        if !error.is_sticky() {
            return error.into_error(ErrorCode::Execution);
        }
        let mut regions = Vec::new();
        let mut queues = Vec::new();
        for running in self.all_streams() {
            let suspects = running.suspects();
            if !suspects.is_empty() {
                queues.push(running.queue);
            }
            regions.extend(suspects.into_iter().filter(|region| !regions.contains(region)).collect::<Vec<_>>());
        }
        let names: Vec<_> = regions.iter().filter_map(|region| Some(self.functions.get(*region)?.describe())).collect();
        let mut failure = Error::new(ErrorCode::Execution, loss::cause(self.context.device, &names, error));
        if matches!(error.code, 700 | 714 | 715 | 716 | 717 | 718 | 719) {
            failure = failure.remedy(
                "check its data clauses and array bounds (compute-sanitizer finds the place); the device can be used again by another process only",
            );
        }
        // The stream that noticed need not be the one that failed.
        if let Some(&queue) = queues.first().filter(|_| queues.len() == 1).or(stream.map(|stream| &stream.queue)) {
            failure = failure.queue(queue);
        }
        self.failure.set(failure);
        for stream in self.all_streams() {
            stream.wake();
        }
        self.failure.check().err().unwrap_or_else(|| error.into())
    }

    pub(crate) fn all_streams(&self) -> Vec<Arc<Stream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
    }
}
