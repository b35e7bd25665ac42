//! One device of the session: its queues, and what of it the program has named.

use super::request::Effect;
use crate::limits::{Limits, MappedRanges};
use crate::queue_table::{ByNumber, Carrier, Queue, QueueTable};
use crate::window::Window;
use accord_device::FunctionHandle;
use accord_types::{DevicePtr, Error, ErrorCode, QueueId, Result, Seq, StreamId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Functions that a program may name on a device.
const FUNCTIONS_MAX: usize = 1 << 20;
/// Bytes of what it says of them, which the device keeps.
const FUNCTIONS_BYTES_MAX: usize = 256 << 20;
/// Variables that a program may ask for on a device.
const GLOBALS_MAX: usize = 1 << 20;
/// Highest number of a queue of the program's own.
const PROGRAM_QUEUE_MAX: u32 = i32::MAX.unsigned_abs();

/// A started device.
pub(super) struct Slot {
    pub(super) ordinal: u32,
    /// The range whose contents the program hands out.
    pub(super) addresses: (DevicePtr, u64),
    queues: QueueTable,
    /// What of its operations is not done.
    windows: HashMap<StreamId, Window, ByNumber>,
    /// The ranges that the program has mapped.
    pub(super) memory: MappedRanges,
    functions: HashMap<u32, Result<FunctionHandle>, ByNumber>,
    /// Bytes of what was said of them.
    functions_bytes: usize,
    /// Variables of the program, outside of the device's own range.
    globals: BTreeMap<u64, u64>,
}

/// A queue, or what it lacks.
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

    /// A queue of the program.
    ///
    /// # Errors
    /// Returns an error if the program has too many, or names none of its own.
    pub(super) fn queue(&mut self, queue: QueueId, effects: &mut Vec<Effect>) -> Result<Found> {
        if queue.0 > PROGRAM_QUEUE_MAX && queue != QueueId::SYNC {
            return Err(invalid(format!("{} is no queue of a program", queue.0)));
        }
        Ok(Found::Queue(match self.queues.carrier(queue)? {
            Carrier::Known(known) => known,
            Carrier::New => return Ok(Found::Nothing),
            // Every queue that shares the stream gets its failure.
            Carrier::Shared(stream) => {
                effects.push(Effect::Watch { device: self.ordinal, queue, stream });
                self.queues.add(queue, stream)
            }
            Carrier::Failed(error) => self.no_stream(queue, error, effects),
        }))
    }

    /// A queue has its stream.
    pub(super) fn stream_made(&mut self, queue: QueueId, stream: StreamId) {
        self.queues.add(queue, stream);
    }

    /// A queue has none, and takes nothing.
    pub(super) fn no_stream(&mut self, queue: QueueId, error: Error, effects: &mut Vec<Effect>) -> Arc<Queue> {
        effects.push(Effect::Failed { device: self.ordinal, queue: queue.0, error: error.clone() });
        self.queues.add_failed(queue, error)
    }

    /// An operation of a queue was put in, or could not be; what goes wrong is told to the program and fails the queue.
    ///
    /// # Errors
    /// Returns an error if the program goes on without credit. `cost` is the operation's.
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
            // A stream that has failed is done with all of it.
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

    /// Whether one more function may be named, by so many bytes. Each has a number of its own: the device keeps all that it is asked for.
    ///
    /// # Errors
    /// Returns an error if it was named before, or there are too many.
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

    /// Keeps what a function of the program stands for.
    pub(super) fn name_function(&mut self, function: u32, handle: Result<FunctionHandle>) {
        self.functions.insert(function, handle);
    }

    /// A function that was named before.
    ///
    /// # Errors
    /// Returns an error if it was not, or could not be found.
    pub(super) fn function(&self, function: u32) -> Result<FunctionHandle> {
        match self.functions.get(&function) {
            Some(handle) => handle.clone(),
            None => Err(invalid(format!("function {function} was never named"))),
        }
    }

    /// Whether one more variable may be asked for.
    ///
    /// # Errors
    /// Returns an error if there are too many.
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

    /// Whether a range of addresses is one that the program may name.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if it is not.
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
    fn what_is_said_of_functions_is_bounded() {
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
