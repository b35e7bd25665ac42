//! The command lane: puts what the program asks for into the devices' streams.
//!
//! A command that asks for something impossible fails its queue. A peer that does not speak the
//! protocol loses the session.

use crate::Work;
use crate::arrivals::{Destination, due_after};
use crate::copies::{FromLane, INLINE_MAX, ToDevice, ToEvent, ToLane};
use crate::copy::{End, copy_here};
use crate::events::ALL;
use crate::hosted::Hosted;
use crate::images::Arriving;
use crate::session::Session;
use crate::slot::Slot;
use crate::waits::Wait;
use accord_fabric::frame::{self, CREDIT_STEP, Command, Event, FrameReader, operation_cost};
use accord_fabric::handshake::FROM_PROGRAM;
use accord_fabric::stats::LinkStats;
use accord_fabric::transfer::{Outbox, TRANSFERS_MAX};
use accord_fabric::transport::{Lane, PeerAddress};
use accord_fabric::{ProgramSpec, clock};
use accord_types::{ArgBlock, DevicePtr, Error, ErrorCode, LaunchDims, QueueId, Result, Seq, StreamId, TransferId};
use std::collections::HashMap;
use std::sync::Arc;

/// Serves the command lane until it ends, and the session with it.
pub(crate) fn serve(session: &Arc<Session>, lane: &dyn Lane) {
    let mut commands = Commands {
        session,
        work: None,
        arriving: Arriving::default(),
        waiting: None,
        slots: HashMap::new(),
        uncredited: 0,
    };
    if let Err(error) = commands.run(lane) {
        // The program is told why, if it still listens.
        session.events.failed(ALL, ALL, error);
    }
    // What happens to streams from here on is no news; lanes end before devices do.
    commands.slots.values().for_each(Slot::forget);
    session.end();
}

struct Commands<'a> {
    session: &'a Arc<Session>,
    work: Option<Work>,
    arriving: Arriving,
    /// The wait that came last; nothing has come after it.
    waiting: Option<Wait>,
    slots: HashMap<u32, Slot>,
    /// Bytes of commands that the program does not know to be done with.
    uncredited: u64,
}

impl Commands<'_> {
    fn run(&mut self, lane: &dyn Lane) -> Result<()> {
        let mut reader = FrameReader::default();
        loop {
            while let Some(frame) = reader.take::<Command>()? {
                let length = frame.length as u64;
                self.command(frame.record, frame.payload, frame.length)?;
                LinkStats::add(&self.session.stats.command_received, length);
                self.uncredited += length;
                if self.uncredited >= CREDIT_STEP {
                    self.session.events.send(&Event::Credit { bytes: self.uncredited }, &[]);
                    self.uncredited = 0;
                }
            }
            if let Some(wait) = self.waiting.take() {
                wait.look(self.session, lane);
            }
            match reader.fill(|bytes| lane.read(bytes)) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::new(ErrorCode::DeviceUnavailable, error.to_string())),
            }
        }
    }

    fn command(&mut self, command: Command, payload: &[u8], length: usize) -> Result<()> {
        let events = &self.session.events;
        match command {
            Command::Start { ticket, trace, emulate_nvidia, uid } => {
                if self.work.is_some() {
                    return Err(broken("a second start"));
                }
                let program = frame::decode_program(payload)?;
                let program = ProgramSpec { uid, emulate_nvidia, trace, ..program };
                self.work = Some(Work { program, images: Arc::default() });
                events.reply(ticket, clock::monotonic_ns(), 0);
            }
            Command::Open { device, ticket } => match self.open(device) {
                Ok((base, len)) => events.reply(ticket, base, len),
                Err(error) => events.reply_failed(ticket, error),
            },
            Command::Close { device, ticket } => {
                if let Some(slot) = self.slots.remove(&device) {
                    slot.end();
                    self.session.release(slot.device());
                }
                self.session.pass_on_printed();
                events.flush_spans();
                events.reply(ticket, 0, 0);
            }
            Command::Map { device, ticket, start, len } => {
                let done = match self.slots.get_mut(&device) {
                    Some(slot) => slot.map(start, len),
                    None => Err(not_open()),
                };
                match (ticket, done) {
                    (0, Ok(())) => {}
                    (0, Err(error)) => events.failed(device, ALL, error),
                    (ticket, done) => events.reply_done(ticket, done.map(|()| 0)),
                }
            }
            Command::Image { offset, len } => {
                let work = self.work.as_ref().ok_or_else(|| broken("GPU code before the start"))?;
                if let Some(image) = self.arriving.take(payload, offset, len)? {
                    work.images.add(image);
                }
            }
            Command::Function { device, function, offset, executable } => {
                let spec = frame::decode_function(payload, offset, executable)?;
                if let Some(slot) = self.slots.get_mut(&device) {
                    let handle = slot.device().function(&spec);
                    slot.name_function(function, handle)?;
                }
            }
            Command::Global { device, ticket, offset, len, executable } => {
                match self.global(device, payload, offset, len, executable)? {
                    Ok(address) => events.reply(ticket, address, 0),
                    Err(error) => events.reply_failed(ticket, error),
                }
            }
            Command::Wait { ticket } => self.wait(ticket, payload)?,
            Command::Test { ticket } => {
                let done = self.test(payload)?;
                self.session.pass_on_printed();
                events.reply_done(ticket, done.map(u64::from));
            }
            Command::Memory { device, ticket } => match self.slots.get(&device) {
                Some(slot) => events.reply(ticket, slot.memory_free(), 0),
                None => events.reply_failed(ticket, not_open()),
            },
            Command::Clock { ticket } => events.reply(ticket, clock::monotonic_ns(), 0),
            Command::Stats { ticket } => {
                let mut counters = Vec::new();
                self.session.stats.read().encode(&mut counters);
                self.session.peers.stats.read().encode(&mut counters);
                events.send(&Event::Reply { ticket, value: 0, extra: 0 }, &counters);
            }
            Command::Expect { device, dst, len, transfer, from, seq } => {
                self.expect(device, dst, len, TransferId(transfer), from, seq)?;
            }
            _ => self.operation(command, payload, operation_cost(length))?,
        }
        Ok(())
    }

    /// A command that is an operation of a queue.
    fn operation(&mut self, command: Command, payload: &[u8], cost: u64) -> Result<()> {
        let session = self.session;
        match command {
            Command::Unmap { device, queue, start, len } => {
                self.operate(device, (queue, cost), |slot, stream| slot.unmap(stream, start, len))
            }
            Command::Store { device, queue, dst } => self.operate(device, (queue, cost), |slot, stream| {
                slot.device().store(stream, slot.check(dst, payload.len() as u64)?, payload)
            }),
            Command::CopyIn { device, queue, dst, len, transfer, eager } => {
                let transfer = TransferId(transfer);
                if session.inbox.len() >= TRANSFERS_MAX {
                    return Err(broken(&format!("more than {TRANSFERS_MAX} transfers at a time")));
                }
                let source = if eager {
                    FromLane::eager(&session.inbox, transfer, len)
                } else {
                    FromLane::asked(&session.inbox, &session.control_sender, transfer, len)
                };
                // If the copy can't be put in, dropping the source throws the bytes away.
                self.operate(device, (queue, cost), |slot, stream| {
                    slot.device().copy_in(stream, slot.check(dst, len)?, len, Box::new(source))
                })
            }
            Command::CopyOut { device, queue, src, len, transfer } => {
                let transfer = TransferId(transfer);
                self.operate(device, (queue, cost), |slot, stream| {
                    let src = slot.check(src, len)?;
                    if len <= INLINE_MAX {
                        let sink = ToEvent::new(&session.events, transfer);
                        return slot.device().copy_out(stream, src, len, Box::new(sink));
                    }
                    let sink = ToLane::new(&session.outbox, transfer, len);
                    slot.device().copy_out(stream, src, len, Box::new(sink))
                })
            }
            Command::Copy { device, queue, dst, src, len } => self.operate(device, (queue, cost), |slot, stream| {
                slot.device().copy(stream, slot.check(dst, len)?, slot.check(src, len)?, len)
            }),
            Command::Launch { device, queue, function, gangs, workers, vector, slots } => {
                let dims = LaunchDims { gangs, workers, vector };
                self.operate(device, (queue, cost), |slot, stream| {
                    let mut words = [0; ArgBlock::RELATIVE_WORDS_MAX];
                    let block = arg_block(payload, slots, &mut words)?;
                    slot.device().launch(stream, slot.function(function)?, dims, block)
                })
            }
            Command::WaitQueue { device, queue, other, seq } => self.operate(device, (queue, cost), |slot, stream| {
                match slot.position(other, Seq(seq))? {
                    Some((other, last)) => slot.device().wait_stream(stream, other, last),
                    // Nothing to wait for: the queue stays where it is.
                    None => Ok(slot.position(queue, Seq(0))?.map_or(Seq(0), |(_, last)| last)),
                }
            }),
            Command::Push { device, queue, src, len, transfer, to } => {
                let transfer = TransferId(transfer);
                let outbox = self.way_to(to, payload)?;
                let pushing = session.exchange.push(transfer, to, len, outbox)?;
                let local = session.local.clone();
                self.operate(device, (queue, cost), |slot, stream| {
                    let sink = ToDevice { pushing, local, to, device: slot.device().clone(), len };
                    slot.device().copy_out(stream, slot.check(src, len)?, len, Box::new(sink))
                })
            }
            Command::Relay { device, queue, src, target, dst, len, seq } => {
                let to = self.relay_target(target, dst, len, seq);
                self.operate(device, (queue, cost), |slot, stream| {
                    let (hosted, start, after) = to?;
                    let source = End { hosted: &slot.hosted, start: slot.check(src, len)? };
                    copy_here(stream, source, End { hosted: &hosted, start }, len, after)
                })
            }
            _ => Err(broken("a command that is none")),
        }
    }

    fn operate(
        &mut self,
        device: u32,
        queue: (u32, u64),
        put: impl FnOnce(&mut Slot, StreamId) -> Result<Seq>,
    ) -> Result<()> {
        match self.slots.get_mut(&device) {
            Some(slot) => slot.operate(&self.session.events, queue, put),
            None => {
                self.session.events.failed(device, queue.0, not_open());
                Ok(())
            }
        }
    }

    fn open(&mut self, device: u32) -> Result<(u64, u64)> {
        let work = self.work.as_ref().ok_or_else(|| broken("a device before the start"))?;
        self.session.config.limits.check_device(self.session.config.session, device)?;
        if let Some(slot) = self.slots.get(&device) {
            let (base, len) = slot.device().addresses();
            return Ok((base.0, len));
        }
        let events = self.session.events.clone();
        let output = Arc::new(move |descriptor, bytes: &[u8]| events.output(descriptor, bytes));
        let started = self.session.config.devices.create(work, device, output)?;
        if work.program.trace {
            started.trace(self.session.events.clone());
        }
        let (base, len) = started.addresses();
        if !self.session.keep(&started) {
            started.shutdown();
            return Err(Error::new(ErrorCode::DeviceShutdown, "the session is over"));
        }
        self.slots.insert(device, Slot::new(started, device, &self.session.config.limits));
        Ok((base.0, len))
    }

    fn global(&mut self, device: u32, payload: &[u8], offset: u64, len: u64, executable: bool) -> Result<Result<u64>> {
        let spec = frame::decode_global(payload, offset, len, executable)?;
        let Some(slot) = self.slots.get_mut(&device) else { return Ok(Err(not_open())) };
        Ok(slot.global(&spec).map(|address| address.0))
    }

    /// Answers once all positions are reached.
    fn wait(&mut self, ticket: u64, payload: &[u8]) -> Result<()> {
        let mut wait = Wait::new(ticket);
        for position in frame::positions(payload)? {
            let place = self.position(position);
            wait.add(place.map(|found| found.map(|(slot, stream, last)| (slot.device().clone(), stream, last))));
        }
        // One at a time is looked for.
        if let Some(before) = self.waiting.take() {
            before.be_told(self.session);
        }
        if wait.is_for_looking() {
            self.waiting = Some(wait);
        } else {
            wait.be_told(self.session);
        }
        Ok(())
    }

    fn test(&self, payload: &[u8]) -> Result<Result<bool>> {
        let mut all = true;
        for position in frame::positions(payload)? {
            let reached = match self.position(position) {
                Ok(Some((slot, stream, last))) => slot.device().reached(stream, last),
                Ok(None) => Ok(true),
                Err(error) => Err(error),
            };
            match reached {
                Ok(reached) => all &= reached,
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(all))
    }

    fn position(&self, position: frame::Position) -> Result<Option<(&Slot, StreamId, Seq)>> {
        let slot = self.slots.get(&position.device).ok_or_else(not_open)?;
        let found = slot.position(position.queue.0, position.seq).map_err(|error| error.queue(position.queue))?;
        Ok(found.map(|(stream, last)| (slot, stream, last)))
    }

    /// The lanes to another peer of a copy.
    fn way_to(&self, to: u32, payload: &[u8]) -> Result<Arc<Outbox>> {
        if to == FROM_PROGRAM {
            return Ok(self.session.outbox.clone());
        }
        let address = std::str::from_utf8(payload).map_err(|_| broken("a push without an address"))?;
        self.session.peers.outbox(to, &PeerAddress::new(address))
    }

    fn expect(&mut self, device: u32, dst: u64, len: u64, transfer: TransferId, from: u32, seq: u64) -> Result<()> {
        let exchange = &self.session.exchange;
        let slot = self.slots.get(&device);
        let place = slot.ok_or_else(not_open).and_then(|slot| {
            let dst = slot.check(dst, len)?;
            Ok((slot, dst, slot.position(QueueId::SYNC.0, Seq(seq))?))
        });
        match place {
            Ok((slot, dst, before)) => {
                let destination = Destination { hosted: slot.hosted.clone(), dst, len };
                let placer = self.session.local.as_ref().map(|local| local.placer(from, slot.device(), dst, len));
                exchange.expect(transfer, from, len, Box::new(|arrival| destination.start(arrival)), placer)?;
                due_after(exchange, transfer, &slot.hosted, before);
            }
            Err(error) => {
                exchange.expect(transfer, from, len, Box::new(drop), None)?;
                exchange.due(transfer, Err(error.node(&self.session.config.node_name)));
            }
        }
        Ok(())
    }

    #[allow(clippy::type_complexity)]
    fn relay_target(
        &self,
        target: u32,
        dst: u64,
        len: u64,
        seq: u64,
    ) -> Result<(Arc<Hosted>, DevicePtr, Option<(StreamId, Seq)>)> {
        let slot = self.slots.get(&target).ok_or_else(not_open)?;
        Ok((slot.hosted.clone(), slot.check(dst, len)?, slot.position(QueueId::SYNC.0, Seq(seq))?))
    }
}

/// The argument block in a launch's payload.
fn arg_block<'a>(
    payload: &'a [u8],
    slots: u32,
    words: &'a mut [u64; ArgBlock::RELATIVE_WORDS_MAX],
) -> Result<ArgBlock<'a>> {
    ArgBlock::decode(payload, slots, words).ok_or_else(|| broken("an argument block of impossible size"))
}

fn not_open() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "the device is not started")
}

fn broken(what: &str) -> Error {
    Error::new(ErrorCode::ImplementationDefined, format!("the program broke the protocol: {what}"))
        .remedy("install the same version on both sides")
}
