//! One device of the session: its queues, and what of it the program has named.

use super::arrivals::IncomingStream;
use super::events::Events;
use accord_device::{Device, FunctionHandle};
use accord_types::{DevicePtr, Error, ErrorCode, QueueId, Result, Seq, StreamId, streams_max};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Queues that a program may have on a device.
const QUEUES_MAX: usize = 1 << 16;
/// Functions that a program may name on a device.
const FUNCTIONS_MAX: usize = 1 << 20;

/// A started device.
pub(super) struct Slot {
    pub(super) device: Arc<dyn Device>,
    pub(super) incoming: IncomingStream,
    ordinal: u32,
    queues: HashMap<u32, Queue>,
    /// Streams of program queues, for those that get none of their own.
    shared: Vec<StreamId>,
    /// Most of those.
    streams_max: usize,
    functions: HashMap<u32, Result<FunctionHandle>>,
    /// Variables of the program, outside of the device's own range.
    globals: Vec<(u64, u64)>,
    /// The program ends the device: its streams' failures are no news.
    ended: Arc<AtomicBool>,
}

/// A queue of the program.
struct Queue {
    stream: StreamId,
    /// Operations that the program has put in.
    count: u64,
    /// Position of the last one in the stream.
    last: Seq,
    /// An operation could not even be put in.
    failed: Option<Error>,
}

impl Slot {
    pub(super) fn new(device: Arc<dyn Device>, ordinal: u32, stream_quota: u32) -> Self {
        Self {
            device,
            incoming: IncomingStream::default(),
            ordinal,
            queues: HashMap::new(),
            shared: Vec::new(),
            streams_max: streams_max(stream_quota),
            functions: HashMap::new(),
            globals: Vec::new(),
            ended: Arc::default(),
        }
    }

    /// Says nothing more about its streams.
    pub(super) fn forget(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Ends the device.
    pub(super) fn end(&self) {
        self.forget();
        self.device.shutdown();
    }

    /// Puts an operation into a queue; what goes wrong is told to the program and fails the queue.
    ///
    /// # Errors
    /// When the program has too many queues.
    pub(super) fn operate(
        &mut self,
        events: &Arc<Events>,
        queue: u32,
        put: impl FnOnce(&Self, StreamId) -> Result<Seq>,
    ) -> Result<()> {
        let stream = self.queue(events, queue)?;
        let failed = self.queues.get(&queue).and_then(|state| state.failed.clone());
        let outcome = match failed {
            Some(_) => None,
            None => Some(put(self, stream)),
        };
        if let Some(state) = self.queues.get_mut(&queue) {
            state.count += 1;
            match outcome {
                Some(Ok(seq)) => state.last = seq,
                Some(Err(error)) => {
                    state.failed = Some(error.clone());
                    events.failed(self.ordinal, queue, error);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// The stream of a queue, made at its first use.
    fn queue(&mut self, events: &Arc<Events>, queue: u32) -> Result<StreamId> {
        if let Some(state) = self.queues.get(&queue) {
            return Ok(state.stream);
        }
        if self.queues.len() >= QUEUES_MAX {
            return Err(invalid(format!("a program has more than {QUEUES_MAX} queues on a device")));
        }
        let id = QueueId(queue);
        let own = queue >= QueueId::INCOMING.0 || self.shared.len() < self.streams_max;
        let (stream, failed) = if own {
            match self.device.create_stream(id) {
                Ok(stream) => {
                    self.watch(events, queue, stream);
                    if queue < QueueId::INCOMING.0 {
                        self.shared.push(stream);
                    }
                    (stream, None)
                }
                Err(error) => (StreamId(u32::MAX), Some(error)),
            }
        } else {
            // Sharing a stream only adds order.
            match self.shared.get(queue as usize % self.shared.len().max(1)) {
                Some(&stream) => (stream, None),
                // Those that there should be have failed.
                None => (StreamId(u32::MAX), Some(invalid("no stream is left".to_owned()))),
            }
        };
        if let Some(error) = &failed {
            events.failed(self.ordinal, queue, error.clone());
        }
        self.queues.insert(queue, Queue { stream, count: 0, last: Seq(0), failed });
        Ok(stream)
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
        self.device.notify(stream, Seq(u64::MAX), Box::new(failed));
    }

    /// Where a queue is now, in its stream; none if nothing was ever put in.
    ///
    /// # Errors
    /// When the queue has failed, or the program names a position that it never filled.
    pub(super) fn position(&self, queue: u32, seq: Seq) -> Result<Option<(StreamId, Seq)>> {
        let Some(state) = self.queues.get(&queue) else {
            return if seq.0 == 0 { Ok(None) } else { Err(unknown_position()) };
        };
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        if seq.0 > state.count {
            return Err(unknown_position());
        }
        Ok(Some((state.stream, state.last)))
    }

    /// Keeps what a function of the program stands for.
    ///
    /// # Errors
    /// When there are too many.
    pub(super) fn name_function(&mut self, function: u32, handle: Result<FunctionHandle>) -> Result<()> {
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
    pub(super) fn function(&self, function: u32) -> Result<FunctionHandle> {
        match self.functions.get(&function) {
            Some(handle) => handle.clone(),
            None => Err(invalid(format!("function {function} was never named"))),
        }
    }

    /// A variable of the program is at this address.
    pub(super) fn add_global(&mut self, start: DevicePtr, len: u64) {
        self.globals.push((start.0, len));
    }

    /// Whether a range of addresses is one that the program may name.
    ///
    /// # Errors
    /// `acc_error_invalid_argument` if it is not.
    pub(super) fn check(&self, start: u64, len: u64) -> Result<DevicePtr> {
        let (base, size) = self.device.addresses();
        let inside = |from: u64, size: u64| {
            start >= from && start.checked_add(len).is_some_and(|end| end <= from.saturating_add(size))
        };
        if inside(base.0, size) || self.globals.iter().any(|&(from, size)| inside(from, size)) {
            return Ok(DevicePtr(start));
        }
        Err(Error::new(ErrorCode::InvalidArgument, format!("{len} bytes at {} are not the device's", DevicePtr(start)))
            .remedy("check the device pointers that the program passes to acc routines"))
    }
}

fn unknown_position() -> Error {
    Error::new(ErrorCode::ImplementationDefined, "a program waits for what it never put in")
}

fn invalid(cause: String) -> Error {
    Error::new(ErrorCode::InvalidArgument, cause)
}
