//! The decisions of an executor: it consumes commands and their outcomes, and produces requests and effects. Without I/O or clock.
//!
//! A command that requests something impossible fails its queue. A peer that breaks the protocol loses the session: that is the meaning of all errors of
//! this module's functions.

mod request;
mod slot;

pub use request::{CopyTarget, Effect, Facts, Operation, Push, Request, StreamPosition};

use crate::images::ReceivedImages;
use crate::limits::Limits;
use crate::queue_table::{ByNumber, Queue};
use accord_device::FunctionHandle;
use accord_fabric::ProgramSpec;
use accord_fabric::frame::{self, CREDIT_STEP, Command, operation_cost};
use accord_fabric::peer::PeerId;
use accord_fabric::route::Directions;
use accord_fabric::transfer::TRANSFERS_MAX;
use accord_types::{
    AddressRange, ArgBlock, DevicePtr, Error, ErrorCode, FloatControl, LaunchDims, QueueId, Result, Seq, SessionId,
    StreamId, TransferId,
};
use slot::{Found, Slot};
use std::collections::HashMap;
use std::sync::Arc;

/// All devices, or all queues, in [`Effect::Failed`].
pub const ALL: u32 = u32::MAX;

/// Space for [`ArgBlock::relative`].
pub type Words = [u64; ArgBlock::RELATIVE_WORDS_MAX];

/// The executor of one session.
pub struct ExecutorCore {
    session: SessionId,
    limits: Limits,
    /// Copies out up to this size travel inside an event.
    in_event_max: u64,
    started: bool,
    arriving: ReceivedImages,
    slots: HashMap<u32, Slot, ByNumber>,
    /// The operation that is being enqueued.
    putting: Option<PendingOperation>,
    /// Bytes of handled commands whose credit was not returned yet.
    uncredited: u64,
    effects: Vec<Effect>,
}

/// An operation that is being enqueued.
struct PendingOperation {
    device: u32,
    id: QueueId,
    queue: Arc<Queue>,
    cost: u64,
    /// The range that the operation frees.
    unmaps: Option<(DevicePtr, u64)>,
}

impl ExecutorCore {
    /// Creates the core for a session whose lease has these limits. Copies out of at most `in_event_max` bytes are sent inside
    /// an event.
    pub fn new(session: SessionId, limits: Limits, in_event_max: u64) -> Self {
        Self {
            session,
            limits,
            in_event_max,
            started: false,
            arriving: ReceivedImages::default(),
            slots: HashMap::default(),
            putting: None,
            uncredited: 0,
            effects: Vec::new(),
        }
    }

    /// Decodes a command into a request. `frame` is the length of its frame; `words` is space for decoded arguments.
    ///
    /// # Errors
    /// Returns an error if the program breaks the protocol, which ends the session.
    pub fn handle<'a>(
        &mut self,
        command: Command,
        payload: &'a [u8],
        frame: usize,
        words: &'a mut Words,
        facts: &impl Facts,
    ) -> Result<Request<'a>> {
        if let Some((device, queue)) = command.operation() {
            let place = (device, QueueId(queue), operation_cost(frame));
            return self.operation(command, (payload, words), place, facts);
        }
        match command {
            Command::Start { ticket, trace, emulate_gpu } => {
                if self.started {
                    return Err(broken("a second start"));
                }
                let program = frame::decode_program(payload)?;
                self.started = true;
                let program = Box::new(ProgramSpec { emulate_gpu, trace, ..program });
                Ok(Request::Start { ticket, program })
            }
            Command::Open { device, ticket, start, len } => {
                Ok(self.open((device, ticket), AddressRange { start: DevicePtr(start), len }))
            }
            Command::Close { device, ticket } => {
                self.slots.remove(&device);
                Ok(Request::Close { device, ticket })
            }
            Command::Map { device, ticket, start, len } => Ok(self.map((device, ticket), start, len, facts)),
            Command::Image { offset, len } => {
                if !self.started {
                    return Err(broken("GPU code before the start"));
                }
                Ok(self.arriving.take(payload, offset, len)?.map_or(Request::Done, Request::Image))
            }
            Command::Function { device, function, offset, executable } => {
                let spec = frame::decode_function(payload, offset, executable)?;
                let Some(slot) = self.slots.get_mut(&device) else { return Ok(Request::Done) };
                slot.check_function(function, payload.len())?;
                Ok(Request::Function { device, function, spec: Box::new(spec) })
            }
            Command::Global { device, ticket, offset, len, executable } => {
                let spec = frame::decode_global(payload, offset, len, executable)?;
                match self.slot(device).and_then(Slot::check_globals) {
                    Ok(()) => Ok(Request::Global { device, ticket, spec: Box::new(spec) }),
                    Err(error) => Ok(self.refuse(ticket, error)),
                }
            }
            Command::Wait { ticket } => Ok(Request::Wait { ticket }),
            Command::Test { ticket } => Ok(Request::Test { ticket }),
            Command::Memory { device, ticket } => match self.slot(device) {
                Ok(slot) => Ok(Request::Memory { device, ticket, left: slot.memory.left() }),
                Err(error) => Ok(self.refuse(ticket, error)),
            },
            Command::Clock { ticket } => Ok(Request::Clock { ticket }),
            Command::Stats { ticket } => Ok(Request::Stats { ticket }),
            Command::Expect { device, dst, len, transfer, from, seq } => {
                let place = self.copy_target(device, dst, len, seq);
                Ok(Request::Expect { transfer: TransferId(transfer), from, len, place })
            }
            _ => Err(broken("a command that is none")),
        }
    }

    /// Records that a command was handled and its requests carried out.
    pub fn handled(&mut self, frame: usize) {
        self.uncredited += frame as u64;
        if self.uncredited >= CREDIT_STEP {
            self.effects.push(Effect::Credit { bytes: std::mem::take(&mut self.uncredited) });
        }
    }

    /// Returns the effects, in their order.
    pub fn effects(&mut self) -> impl Iterator<Item = Effect> + '_ {
        self.effects.drain(..)
    }

    /// Returns the positions in streams of a wait or a test; `None` for a queue without operations.
    ///
    /// # Errors
    /// Returns an error if the payload is no list of positions.
    pub fn places<'a>(
        &'a self,
        payload: &'a [u8],
    ) -> Result<impl Iterator<Item = Result<Option<StreamPosition>>> + 'a> {
        let of = |position: frame::Position| {
            let found = self.slot(position.device)?.position(position.queue, position.seq);
            let found = found.map_err(|error| error.queue(position.queue))?;
            Ok(found.map(|(stream, seq)| StreamPosition { device: position.device, stream, seq }))
        };
        Ok(frame::positions(payload)?.map(of))
    }

    /// Records that a device has started with these addresses, or has failed to.
    pub fn opened(&mut self, device: u32, ticket: u64, outcome: Result<(DevicePtr, u64)>) {
        match outcome {
            Ok(addresses) => {
                self.slots.insert(device, Slot::new(device, addresses, &self.limits));
                self.reply(ticket, addresses.0.0, addresses.1);
            }
            Err(error) => self.effects.push(Effect::ReplyFailed { ticket, error }),
        }
    }

    /// A range was mapped, or could not be.
    pub fn mapped(&mut self, (device, ticket): (u32, u64), start: DevicePtr, len: u64, outcome: Result<()>) {
        if outcome.is_ok()
            && let Some(slot) = self.slots.get_mut(&device)
        {
            slot.memory.mapped(start, len);
        }
        match (ticket, outcome) {
            (0, Ok(())) => {}
            (0, Err(error)) => self.effects.push(Effect::Failed { device, queue: ALL, error }),
            (ticket, Ok(())) => self.reply(ticket, 0, 0),
            (ticket, Err(error)) => self.effects.push(Effect::ReplyFailed { ticket, error }),
        }
    }

    /// Records the handle of a function.
    pub fn named(&mut self, device: u32, function: u32, handle: Result<FunctionHandle>) {
        if let Some(slot) = self.slots.get_mut(&device) {
            slot.name_function(function, handle);
        }
    }

    /// Records the address of a variable.
    pub fn found(&mut self, device: u32, ticket: u64, len: u64, address: Result<DevicePtr>) {
        match address {
            Ok(address) => {
                if let Some(slot) = self.slots.get_mut(&device) {
                    slot.found_global(address, len);
                }
                self.reply(ticket, address.0, 0);
            }
            Err(error) => self.effects.push(Effect::ReplyFailed { ticket, error }),
        }
    }

    /// A queue's stream was made, or could not be.
    pub fn stream_made(&mut self, device: u32, queue: QueueId, stream: Result<StreamId>) {
        let Some(slot) = self.slots.get_mut(&device) else { return };
        match stream {
            Ok(stream) => {
                slot.stream_made(queue, stream);
                self.effects.push(Effect::Watch { device, queue, stream });
            }
            Err(error) => drop(slot.no_stream(queue, error, &mut self.effects)),
        }
    }

    /// Records that the operation of [`Request::Put`] was enqueued, or why it was not.
    ///
    /// # Errors
    /// Returns an error if the program exceeds its credit.
    pub fn put(&mut self, outcome: Result<Seq>) -> Result<()> {
        let Some(PendingOperation { device, id, queue, cost, unmaps }) = self.putting.take() else { return Ok(()) };
        let Some(slot) = self.slots.get_mut(&device) else { return Ok(()) };
        if let (Some((start, len)), Ok(seq)) = (unmaps, &outcome) {
            slot.memory.leaves(start, len, queue.stream(), *seq);
        }
        slot.settle(id, &queue, cost, outcome, &mut self.effects)
    }

    fn reply(&mut self, ticket: u64, value: u64, extra: u64) {
        self.effects.push(Effect::Reply { ticket, value, extra });
    }

    fn refuse<'a>(&mut self, ticket: u64, error: Error) -> Request<'a> {
        self.effects.push(Effect::ReplyFailed { ticket, error });
        Request::Done
    }

    fn slot(&self, device: u32) -> Result<&Slot> {
        self.slots.get(&device).ok_or_else(not_open)
    }

    fn open<'a>(&mut self, (device, ticket): (u32, u64), place: AddressRange) -> Request<'a> {
        if !self.started {
            return self.refuse(ticket, broken("a device before the start"));
        }
        if let Err(error) = self.limits.check_device(self.session, device) {
            return self.refuse(ticket, error);
        }
        match self.slots.get(&device).map(|slot| slot.addresses) {
            Some((base, len)) => {
                self.reply(ticket, base.0, len);
                Request::Done
            }
            None if place.len == 0 => Request::Open { device, ticket, place: None },
            None if place.is_proper() => Request::Open { device, ticket, place: Some(place) },
            None => {
                let cause = format!("{} addresses from {} are no place for a device's memory", place.len, place.start);
                self.refuse(ticket, Error::new(ErrorCode::InvalidArgument, cause))
            }
        }
    }

    fn map<'a>(&mut self, (device, ticket): (u32, u64), start: u64, len: u64, facts: &impl Facts) -> Request<'a> {
        let checked = self.slots.get_mut(&device).ok_or_else(not_open).and_then(|slot| {
            let start = slot.check(start, len)?;
            slot.memory.check_map(start, len, |stream, seq| facts.reached(device, stream, seq))?;
            Ok(start)
        });
        match checked {
            Ok(start) => Request::Map { device, ticket, start, len },
            Err(error) => {
                self.mapped((device, ticket), DevicePtr(start), len, Err(error));
                Request::Done
            }
        }
    }

    /// Returns the target of bytes from another device, after the operations of the synchronous queue up to `seq`.
    fn copy_target(&self, device: u32, dst: u64, len: u64, seq: u64) -> Result<CopyTarget> {
        let slot = self.slot(device)?;
        let dst = slot.check(dst, len)?;
        Ok(CopyTarget { device, dst, after: slot.position(QueueId::SYNC, Seq(seq))? })
    }

    /// A command that is an operation of a queue.
    fn operation<'a>(
        &mut self,
        command: Command,
        (payload, words): (&'a [u8], &'a mut Words),
        (device, id, cost): (u32, QueueId, u64),
        facts: &impl Facts,
    ) -> Result<Request<'a>> {
        let in_event_max = self.in_event_max;
        // Bytes arrive, or another executor waits, even if the operation fails.
        let otherwise = Self::otherwise(&command, payload, facts)?;
        let relayed = match command {
            Command::Relay { target, dst, len, seq, .. } => Some(self.copy_target(target, dst, len, seq)),
            _ => None,
        };
        let Some(slot) = self.slots.get_mut(&device) else {
            self.effects.push(Effect::Failed { device, queue: id.0, error: not_open() });
            return Ok(otherwise);
        };
        let Found::Queue(queue) = slot.queue(id, &mut self.effects)? else {
            return Ok(Request::MakeStream { device, queue: id });
        };
        let built = queue.check().and_then(|()| match command {
            Command::CopyOut { src, len, transfer, .. } => {
                let (src, transfer) = (slot.check(src, len)?, TransferId(transfer));
                Ok(Some(Operation::CopyOut { src, len, transfer, in_event: len <= in_event_max }))
            }
            // If the other queue has no operation, this one need not wait.
            Command::WaitQueue { other, seq, .. } => {
                Ok(slot.position(QueueId(other), Seq(seq))?.map(|(other, seq)| Operation::WaitStream { other, seq }))
            }
            _ => build(slot, command, (payload, words), relayed, facts).map(Some),
        });
        match built {
            Ok(Some(operation)) => {
                let unmaps = match operation {
                    Operation::Unmap { start, len } => Some((start, len)),
                    _ => None,
                };
                let stream = queue.stream();
                self.putting = Some(PendingOperation { device, id, queue, cost, unmaps });
                Ok(Request::Put { device, stream, operation })
            }
            Ok(None) => {
                slot.settle(id, &queue, cost, Ok(queue.last()), &mut self.effects)?;
                Ok(Request::Done)
            }
            Err(error) => {
                slot.settle(id, &queue, cost, Err(error), &mut self.effects)?;
                Ok(otherwise)
            }
        }
    }

    /// Returns the work to do if an operation is not enqueued.
    fn otherwise<'a>(command: &Command, payload: &'a [u8], facts: &impl Facts) -> Result<Request<'a>> {
        match *command {
            Command::CopyIn { transfer, len, eager, .. } => {
                if facts.incoming() >= TRANSFERS_MAX {
                    return Err(broken(&format!("more than {TRANSFERS_MAX} transfers at a time")));
                }
                Ok(if eager { Request::Discard { transfer: TransferId(transfer), len } } else { Request::Done })
            }
            Command::Push { len, transfer, to, .. } => Ok(Request::Abandon { push: push(transfer, to, len, payload)? }),
            _ => Ok(Request::Done),
        }
    }
}

/// An operation, checked.
fn build<'a>(
    slot: &mut Slot,
    command: Command,
    (payload, words): (&'a [u8], &'a mut Words),
    relayed: Option<Result<CopyTarget>>,
    facts: &impl Facts,
) -> Result<Operation<'a>> {
    match command {
        Command::Unmap { device, start, len, .. } => {
            let start = slot.check(start, len)?;
            slot.memory.check_unmap(start, len, |stream, seq| facts.reached(device, stream, seq))?;
            Ok(Operation::Unmap { start, len })
        }
        Command::Store { dst, .. } => {
            Ok(Operation::Store { dst: slot.check(dst, payload.len() as u64)?, bytes: payload })
        }
        Command::CopyIn { dst, len, transfer, eager, .. } => {
            Ok(Operation::CopyIn { dst: slot.check(dst, len)?, len, transfer: TransferId(transfer), eager })
        }
        Command::Copy { dst, src, len, .. } => {
            Ok(Operation::Copy { dst: slot.check(dst, len)?, src: slot.check(src, len)?, len })
        }
        Command::Launch { function, gangs, workers, vector, slots, float_control, .. } => {
            let block = ArgBlock::decode(payload, slots, words)
                .ok_or_else(|| broken("an argument block of impossible size"))?;
            let function = slot.function(function)?;
            let control = FloatControl::from_wire(float_control);
            Ok(Operation::Launch { function, dims: LaunchDims { gangs, workers, vector }, control, block })
        }
        Command::Push { src, len, transfer, to, .. } => {
            Ok(Operation::Push { src: slot.check(src, len)?, push: push(transfer, to, len, payload)? })
        }
        Command::Relay { src, len, .. } => {
            let target = relayed.unwrap_or_else(|| Err(not_open()))?;
            Ok(Operation::Relay { src: slot.check(src, len)?, len, target })
        }
        _ => Err(broken("a command that is none")),
    }
}

fn push(transfer: u64, to: PeerId, len: u64, payload: &[u8]) -> Result<Push<'_>> {
    let to_executor = match to {
        PeerId::PROGRAM => None,
        _ => Some(Directions::read(payload).ok_or_else(|| broken("a push that does not say where to"))?),
    };
    Ok(Push { transfer: TransferId(transfer), to, len, to_executor })
}

fn not_open() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "the device is not started")
}

pub(crate) fn broken(what: &str) -> Error {
    Error::new(ErrorCode::ImplementationDefined, format!("the program broke the protocol: {what}"))
        .remedy("install the same version on both sides")
}
