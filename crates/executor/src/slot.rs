//! One device of the session: its queues, and what of it the program has named.

use crate::events::Events;
use crate::hosted::Hosted;
use crate::limits::{Limits, MappedRanges};
use crate::queue_table::{QUEUES_MAX, Queue};
use crate::window::Window;
use accord_device::{Device, FunctionHandle};
use accord_fabric::frame::Event;
use accord_types::{DevicePtr, Error, ErrorCode, GlobalSpec, QueueId, Result, Seq, StreamId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Functions that a program may name on a device.
const FUNCTIONS_MAX: usize = 1 << 20;
/// Variables that a program may ask for on a device.
const GLOBALS_MAX: usize = 1 << 20;
/// Highest number of a queue of the program's own.
const PROGRAM_QUEUE_MAX: u32 = i32::MAX.unsigned_abs();

/// A started device.
pub(crate) struct Slot {
    pub(crate) hosted: Arc<Hosted>,
    ordinal: u32,
    /// What of its operations is not done.
    windows: HashMap<StreamId, Window>,
    /// What the program has mapped.
    memory: MappedRanges,
    functions: HashMap<u32, Result<FunctionHandle>>,
    /// Variables of the program, outside of the device's own range.
    globals: BTreeMap<u64, u64>,
    /// The program ends the device: its streams' failures are no news.
    ended: Arc<AtomicBool>,
}

impl Slot {
    pub(crate) fn new(device: Arc<dyn Device>, ordinal: u32, limits: &Limits) -> Self {
        Self {
            hosted: Arc::new(Hosted::new(device, limits.streams)),
            ordinal,
            windows: HashMap::new(),
            memory: MappedRanges::new(limits.memory),
            functions: HashMap::new(),
            globals: BTreeMap::new(),
            ended: Arc::default(),
        }
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        self.hosted.device()
    }

    /// Says nothing more about its streams.
    pub(crate) fn forget(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Ends the device.
    pub(crate) fn end(&self) {
        self.forget();
        self.device().shutdown();
    }

    /// Puts an operation into a queue; what goes wrong is told to the program and fails the queue.
    ///
    /// # Errors
    /// When the program has too many queues, names none of its own, or goes on without credit. `cost` is the operation's.
    pub(crate) fn operate(
        &mut self,
        events: &Arc<Events>,
        (queue, cost): (u32, u64),
        put: impl FnOnce(&mut Self, StreamId) -> Result<Seq>,
    ) -> Result<()> {
        let state = self.queue(events, QueueId(queue))?;
        state.count_one();
        if state.check().is_ok() {
            match put(self, state.stream()) {
                Ok(seq) => state.advance(seq),
                Err(error) => {
                    state.fail(error.clone());
                    events.failed(self.ordinal, queue, error);
                }
            }
        }
        let window = self.windows.entry(state.stream()).or_default();
        if let Some(step) = window.charge(QueueId(queue), cost)? {
            let (events, ended, ordinal) = (events.clone(), self.ended.clone(), self.ordinal);
            // A stream that has failed is done with all of it.
            let done = move |_| {
                step.done(|queue, bytes| {
                    if !ended.load(Ordering::Acquire) {
                        events.send(&Event::Done { device: ordinal, queue: queue.0, bytes }, &[]);
                    }
                });
            };
            match state.check() {
                Ok(()) => self.device().notify(state.stream(), state.last(), Box::new(done)),
                Err(_) => done(Ok(())),
            }
        }
        Ok(())
    }

    /// A queue, which gets its stream at its first use.
    fn queue(&mut self, events: &Arc<Events>, queue: QueueId) -> Result<Arc<Queue>> {
        if queue.0 > PROGRAM_QUEUE_MAX && queue != QueueId::SYNC {
            return Err(invalid(format!("{} is no queue of a program", queue.0)));
        }
        if self.hosted.queues().is_full() && self.hosted.known(queue).is_none() {
            return Err(invalid(format!("a program has more than {QUEUES_MAX} queues on a device")));
        }
        let made = self.hosted.queue_with(queue, |stream| self.watch(events, queue.0, stream));
        Ok(made.unwrap_or_else(|error| {
            events.failed(self.ordinal, queue.0, error.clone());
            self.hosted.add_failed(queue, error)
        }))
    }

    /// Tells the program at once when a stream fails.
    fn watch(&self, events: &Arc<Events>, queue: u32, stream: StreamId) {
        let (events, ended, ordinal) = (events.clone(), self.ended.clone(), self.ordinal);
        let failed = move |outcome: Result<()>| {
            if let Err(error) = outcome
                && !ended.load(Ordering::Acquire)
            {
                events.failed(ordinal, queue, error);
            }
        };
        // No stream gets there: the call comes when it fails, or ends.
        self.device().notify(stream, Seq(u64::MAX), Box::new(failed));
    }

    /// See [`crate::queue_table::QueueTable::position`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn position(&self, queue: u32, seq: Seq) -> Result<Option<(StreamId, Seq)>> {
        self.hosted.queues().position(QueueId(queue), seq)
    }

    /// Puts memory behind a range, if the lease has room for it.
    ///
    /// # Errors
    /// `acc_error_out_of_memory`; `acc_error_invalid_argument` for a range that the program may not map.
    pub(crate) fn map(&mut self, start: u64, len: u64) -> Result<()> {
        let (device, start) = (self.hosted.device(), self.check(start, len)?);
        self.memory.check_map(start, len, |stream, seq| device.reached(stream, seq).unwrap_or(false))?;
        device.map(start, len)?;
        self.memory.mapped(start, len);
        Ok(())
    }

    /// Gives memory back in a stream's order.
    ///
    /// # Errors
    /// `acc_error_invalid_argument` for what is not mapped; those of the device.
    pub(crate) fn unmap(&mut self, stream: StreamId, start: u64, len: u64) -> Result<Seq> {
        let (device, start) = (self.hosted.device(), self.check(start, len)?);
        self.memory.check_unmap(start, len, |stream, seq| device.reached(stream, seq).unwrap_or(false))?;
        let seq = device.unmap(stream, start, len)?;
        self.memory.leaves(start, len, stream, seq);
        Ok(seq)
    }

    /// Bytes that can still be mapped, as far as the lease goes.
    pub(crate) fn memory_free(&self) -> u64 {
        self.memory.left().min(self.device().memory_free())
    }

    /// Keeps what a function of the program stands for.
    ///
    /// # Errors
    /// When there are too many.
    pub(crate) fn name_function(&mut self, function: u32, handle: Result<FunctionHandle>) -> Result<()> {
        if self.functions.len() >= FUNCTIONS_MAX {
            return Err(invalid(format!("a program named more than {FUNCTIONS_MAX} functions")));
        }
        self.functions.insert(function, handle);
        Ok(())
    }

    /// A function that was named before.
    ///
    /// # Errors
    /// When it was not, or could not be found.
    pub(crate) fn function(&self, function: u32) -> Result<FunctionHandle> {
        match self.functions.get(&function) {
            Some(handle) => handle.clone(),
            None => Err(invalid(format!("function {function} was never named"))),
        }
    }

    /// Address of a variable of the program.
    ///
    /// # Errors
    /// Those of the device; when there are too many.
    pub(crate) fn global(&mut self, spec: &GlobalSpec) -> Result<DevicePtr> {
        if self.globals.len() >= GLOBALS_MAX {
            return Err(invalid(format!("a program asked for more than {GLOBALS_MAX} variables")));
        }
        let address = self.device().global(spec)?;
        self.globals.insert(address.0, spec.len);
        Ok(address)
    }

    /// Whether a range of addresses is one that the program may name.
    ///
    /// # Errors
    /// `acc_error_invalid_argument` if it is not.
    pub(crate) fn check(&self, start: u64, len: u64) -> Result<DevicePtr> {
        let (base, size) = self.device().addresses();
        let inside = |from: u64, size: u64| {
            start >= from && start.checked_add(len).is_some_and(|end| end <= from.saturating_add(size))
        };
        if inside(base.0, size)
            || self.globals.range(..=start).next_back().is_some_and(|(&from, &size)| inside(from, size))
        {
            return Ok(DevicePtr(start));
        }
        Err(Error::new(ErrorCode::InvalidArgument, format!("{len} bytes at {} are not the device's", DevicePtr(start)))
            .remedy("check the device pointers that the program passes to acc routines"))
    }
}

fn invalid(cause: String) -> Error {
    Error::new(ErrorCode::InvalidArgument, cause)
}
