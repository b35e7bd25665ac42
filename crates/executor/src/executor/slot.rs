//! One device of the session: its queues, and the functions and variables that the program has named.

use super::request::Effect;
use crate::limits::{Limits, MappedRanges};
use crate::queue_table::{ByNumber, Carrier, Queue, QueueTable};
use crate::window::Window;
use accord_device::FunctionHandle;
use accord_types::{DevicePtr, Error, ErrorCode, QueueId, Result, Seq, StreamId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most functions that a program may name on a device.
const FUNCTIONS_MAX: usize = 1 << 20;
/// Most bytes of their specifications, which the device keeps.
const FUNCTIONS_BYTES_MAX: usize = 256 << 20;
/// Most variables that a program may request on a device.
const GLOBALS_MAX: usize = 1 << 20;
/// Highest number of a program's queue.
const PROGRAM_QUEUE_MAX: u32 = i32::MAX.unsigned_abs();

/// A started device.
pub(super) struct Slot {
    pub(super) ordinal: u32,
    /// The range from which the program allocates.
    pub(super) addresses: (DevicePtr, u64),
    queues: QueueTable,
    /// The unfinished operations of streams.
    windows: HashMap<StreamId, Window, ByNumber>,
    /// The ranges that the program has mapped.
    pub(super) memory: MappedRanges,
    functions: HashMap<u32, Result<FunctionHandle>, ByNumber>,
    /// Bytes of the functions' specifications.
    functions_bytes: usize,
    /// Variables of the program outside of the device's range.
    globals: BTreeMap<u64, u64>,
}

/// A queue, or what is missing for it.
pub(super) enum Found {
    Queue(Arc<Queue>),
    /// A stream.
    Nothing,
}

impl Slot {
    pub(super) fn new(ordinal: u32, addresses: (DevicePtr, u64), limits: &Limits) -> Self {
        Self {
            ordinal,
            addresses,
            queues: QueueTable::new(limits.streams),
            windows: HashMap::default(),
            memory: MappedRanges::new(limits.memory),
            functions: HashMap::default(),
            functions_bytes: 0,
            globals: BTreeMap::new(),
        }
    }

    /// Returns a queue of the program, or what is missing for it.
    ///
    /// # Errors
    /// Returns an error if the program has too many queues, or may not use this number.
    pub(super) fn queue(&mut self, queue: QueueId, effects: &mut Vec<Effect>) -> Result<Found> {
        if queue.0 > PROGRAM_QUEUE_MAX && queue != QueueId::SYNC {
            return Err(invalid(format!("{} is no queue of a program", queue.0)));
        }
        Ok(Found::Queue(match self.queues.carrier(queue)? {
            Carrier::Known(known) => known,
            Carrier::New => return Ok(Found::Nothing),
            // Every queue that shares the stream reports its failure.
            Carrier::Shared(stream) => {
                effects.push(Effect::Watch { device: self.ordinal, queue, stream });
                self.queues.add(queue, stream)
            }
            Carrier::Failed(error) => self.no_stream(queue, error, effects),
        }))
    }

    /// Records the stream of a queue.
    pub(super) fn stream_made(&mut self, queue: QueueId, stream: StreamId) {
        self.queues.add(queue, stream);
    }

    /// Records that a queue could not get a stream, and fails it.
    pub(super) fn no_stream(&mut self, queue: QueueId, error: Error, effects: &mut Vec<Effect>) -> Arc<Queue> {
        effects.push(Effect::Failed { device: self.ordinal, queue: queue.0, error: error.clone() });
        self.queues.add_failed(queue, error)
    }

    /// Records that an operation of a queue was enqueued, or why it was not. A failure is reported to the program and fails the queue.
    ///
    /// # Errors
    /// Returns an error if the program exceeds its credit. `cost` is the operation's.
    pub(super) fn settle(
        &mut self,
        id: QueueId,
        queue: &Queue,
        cost: u64,
        outcome: Result<Seq>,
        effects: &mut Vec<Effect>,
    ) -> Result<()> {
        queue.count_one();
        let failed = queue.check().is_err();
        match outcome {
            _ if failed => {}
            Ok(seq) => queue.advance(seq),
            Err(error) => {
                queue.fail(error.clone());
                effects.push(Effect::Failed { device: self.ordinal, queue: id.0, error });
            }
        }
        if let Some(step) = self.windows.entry(queue.stream()).or_default().charge(id, cost)? {
            // A stream that has failed is done with all operations.
            let after = queue.check().is_ok().then(|| (queue.stream(), queue.last()));
            effects.push(Effect::GiveBack { device: self.ordinal, after, step });
        }
        Ok(())
    }

    /// Returns the position, see [`QueueTable::position`].
    ///
    /// # Errors
    /// Returns the errors of [`QueueTable::position`].
    pub(super) fn position(&self, queue: QueueId, seq: Seq) -> Result<Option<(StreamId, Seq)>> {
        self.queues.position(queue, seq)
    }

    /// Checks that one more function of so many bytes may be named. Each has a number of its own, because the device keeps every function that it resolves.
    ///
    /// # Errors
    /// Returns an error if the number was used before, or there are too many functions.
    pub(super) fn check_function(&mut self, function: u32, bytes: usize) -> Result<()> {
        if self.functions.contains_key(&function) {
            return Err(invalid(format!("function {function} was named before")));
        }
        if self.functions.len() >= FUNCTIONS_MAX {
            return Err(invalid(format!("a program named more than {FUNCTIONS_MAX} functions")));
        }
        if self.functions_bytes + bytes > FUNCTIONS_BYTES_MAX {
            return Err(invalid(format!("a program named functions by more than {FUNCTIONS_BYTES_MAX} bytes")));
        }
        self.functions_bytes += bytes;
        Ok(())
    }

    /// Keeps the handle of a function.
    pub(super) fn name_function(&mut self, function: u32, handle: Result<FunctionHandle>) {
        self.functions.insert(function, handle);
    }

    /// Returns the handle of a function that was named before.
    ///
    /// # Errors
    /// Returns an error if the function was not named, or could not be resolved.
    pub(super) fn function(&self, function: u32) -> Result<FunctionHandle> {
        match self.functions.get(&function) {
            Some(handle) => handle.clone(),
            None => Err(invalid(format!("function {function} was never named"))),
        }
    }

    /// Checks that one more variable may be requested.
    ///
    /// # Errors
    /// Returns an error if there are too many variables.
    pub(super) fn check_globals(&self) -> Result<()> {
        if self.globals.len() >= GLOBALS_MAX {
            return Err(invalid(format!("a program asked for more than {GLOBALS_MAX} variables")));
        }
        Ok(())
    }

    /// A variable of the program is at this address.
    pub(super) fn found_global(&mut self, address: DevicePtr, len: u64) {
        self.globals.insert(address.0, len);
    }

    /// Checks that the program may use a range of addresses.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if it may not.
    pub(super) fn check(&self, start: u64, len: u64) -> Result<DevicePtr> {
        let (base, size) = self.addresses;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_descriptions_are_bounded() {
        let mut slot = Slot::new(0, (DevicePtr(0), 0), &Limits::default());
        for function in 0..4 {
            slot.check_function(function, FUNCTIONS_BYTES_MAX / 4).unwrap();
            slot.name_function(function, Ok(FunctionHandle(function)));
        }
        assert!(slot.check_function(4, 1).unwrap_err().cause().contains("by more than 268435456 bytes"));
        assert!(slot.check_function(3, 0).unwrap_err().cause().contains("function 3 was named before"));
        slot.check_function(4, 0).unwrap();
    }
}
