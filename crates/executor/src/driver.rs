//! The command lane: reads commands, and carries out the core's requests on the session's devices and lanes.

use crate::config::Work;
use crate::copies::{FromLane, ToEvent, ToLane};
use crate::copy::{End, copy_here};
use crate::executor::{CopyTarget, Effect, ExecutorCore, Facts, Operation, Push, Request, Words};
use crate::hosted::Hosted;
use crate::incoming_transfers::{Destination, due_after};
use crate::push::ToPeer;
use crate::session::{Session, over};
use crate::waits::{Wait, Waited};
use crate::window::Step;
use accord_device::{CopySink, CopySource, Device, MovesWhen};
use accord_fabric::ProgramSpec;
use accord_fabric::clock;
use accord_fabric::frame::{Command, Event, FrameReader, PAYLOAD_MAX};
use accord_fabric::peer::PeerId;
use accord_fabric::stats::LinkStats;
use accord_fabric::transfer::Pushing;
use accord_fabric::transport::Lane;
use accord_types::short_lock::assert_none_held;
use accord_types::{AddressRange, ArgBlock, Error, ErrorCode, Result, Seq, StreamId, TransferId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Copies out up to this size travel inside an event.
const IN_EVENT_MAX: u64 = PAYLOAD_MAX as u64;

/// Serves the command lane until it ends, and then ends the session.
pub(crate) fn serve(session: &Arc<Session>) {
    let Some(lane) = session.link.records() else { return };
    let mut driver = Driver {
        core: ExecutorCore::new(session.config.session, session.config.limits.clone(), IN_EVENT_MAX),
        world: World { session, devices: HashMap::new() },
        work: None,
        waiting: None,
    };
    if let Err(error) = driver.run(lane) {
        session.events.over(error);
    }
    // Streams' failures are no longer reported; lanes end before devices do.
    driver.world.devices.values().for_each(Started::forget);
    session.end();
}

struct Driver<'a> {
    core: ExecutorCore,
    world: World<'a>,
    work: Option<Work>,
    /// The latest wait, while no command has followed it.
    waiting: Option<Wait>,
}

/// The state that the core's decisions depend on.
struct World<'a> {
    session: &'a Arc<Session>,
    devices: HashMap<u32, Started>,
}

/// A started device.
struct Started {
    hosted: Arc<Hosted>,
    /// Whether the program has ended the device, so that its streams' failures are not reported.
    ended: Arc<AtomicBool>,
}

impl Started {
    /// Stops reports on the device's streams.
    fn forget(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

impl Facts for World<'_> {
    fn reached(&self, device: u32, stream: StreamId, seq: Seq) -> bool {
        self.device(device).and_then(|device| device.reached(stream, seq)).unwrap_or(false)
    }

    fn incoming(&self) -> usize {
        self.session.link.inbox().len()
    }
}

impl Driver<'_> {
    fn run(&mut self, lane: &dyn Lane) -> Result<()> {
        let mut reader = FrameReader::default();
        let mut words = [0; ArgBlock::RELATIVE_WORDS_MAX];
        loop {
            while let Some(frame) = reader.take::<Command>()? {
                while !self.step(frame.record, frame.payload, frame.length, &mut words)? {}
                LinkStats::add(&self.world.session.link.stats().command_received, frame.length as u64);
                self.core.handled(frame.length);
                for effect in self.core.effects() {
                    self.world.act(effect);
                }
            }
            if let Some(wait) = self.waiting.take() {
                wait.spin_then_notify(self.world.session, lane);
            }
            match reader.fill(|bytes| lane.read(bytes)) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::new(ErrorCode::DeviceUnavailable, error.to_string())),
            }
        }
    }

    /// Carries out the core's requests for one command. Returns `false` if the core needs the command again.
    fn step(&mut self, command: Command, payload: &[u8], frame: usize, words: &mut Words) -> Result<bool> {
        let (core, world) = (&mut self.core, &self.world);
        let events = &world.session.events;
        match core.handle(command, payload, frame, words, world)? {
            Request::Done => {}
            Request::MakeStream { device, queue } => {
                let made = world.device(device).and_then(|device| device.create_stream(queue));
                core.stream_made(device, queue, made);
                return Ok(false);
            }
            Request::Put { device, stream, operation } => core.put(world.put(device, stream, operation)?)?,
            // Dropping the copy discards the bytes.
            Request::Discard { transfer, len } => drop(FromLane::eager(world.session.link.inbox(), transfer, len)),
            // Dropping the push notifies the target.
            Request::Abandon { push } => drop(world.push(push)?),
            Request::Start { ticket, program } => {
                self.work = Some(Work { program: *program, images: Arc::default() });
                events.reply(ticket, clock::monotonic_ns(), 0);
            }
            Request::Open { device, ticket, place } => {
                let opened = self.open(device, place);
                self.core.opened(device, ticket, opened);
            }
            Request::Close { device, ticket } => {
                self.close(device);
                events.reply(ticket, 0, 0);
            }
            Request::Map { device, ticket, start, len } => {
                let done = world.hosted(device).and_then(|hosted| {
                    hosted.device().map(start, len).inspect_err(|error| hosted.counters().failed(error))?;
                    hosted.counters().mapped(len);
                    Ok(())
                });
                core.mapped((device, ticket), start, len, done);
            }
            Request::Image(image) => {
                if let Some(work) = &self.work {
                    work.images.add(image);
                }
            }
            Request::Function { device, function, spec } => {
                let handle = world.device(device).and_then(|device| device.function(&spec));
                core.named(device, function, handle);
            }
            Request::Global { device, ticket, spec } => {
                let address = world.device(device).and_then(|device| device.global(&spec));
                core.found(device, ticket, spec.len, address);
            }
            Request::Wait { ticket } => self.wait(ticket, payload)?,
            Request::Test { ticket } => {
                let done = self.test(payload)?;
                self.world.session.pass_on_printed();
                events.reply_done(ticket, done.map(u64::from));
            }
            Request::Memory { device, ticket, left } => {
                let free = world.device(device).map(|device| left.min(device.memory_free()));
                events.reply_done(ticket, free);
            }
            Request::Clock { ticket } => events.reply(ticket, clock::monotonic_ns(), 0),
            Request::Stats { ticket } => {
                let mut counters = Vec::new();
                world.session.link.stats().read().encode(&mut counters);
                world.session.peers.stats.read().encode(&mut counters);
                events.send(&Event::Reply { ticket, value: 0, extra: 0 }, &counters);
            }
            Request::Expect { transfer, from, len, place } => world.expect(transfer, from, len, place)?,
        }
        Ok(true)
    }

    fn open(&mut self, device: u32, place: Option<AddressRange>) -> Result<(accord_types::DevicePtr, u64)> {
        let session = self.world.session;
        let work = self.work.as_ref().ok_or_else(gone)?;
        let ProgramSpec { trace, .. } = work.program;
        let events = session.events.clone();
        let output = Arc::new(move |descriptor, bytes: &[u8]| events.output(descriptor, bytes));
        let start = session.begin_start(device)?;
        let started = session.config.devices.create(work, device, place, output, &start);
        session.end_start(&start);
        let started = started.inspect_err(|error| session.uses.failed(device, error))?;
        if trace {
            started.trace(session.events.clone());
        }
        let addresses = started.addresses();
        if !session.keep(&started) {
            started.shutdown();
            return Err(over());
        }
        // The core tracks the program's queues; this entry only has the stream for incoming copies.
        let counters = session.uses.started(device, &started);
        let hosted = Arc::new(Hosted::new(started, 0, counters));
        self.world.devices.insert(device, Started { hosted, ended: Arc::default() });
        Ok(addresses)
    }

    fn close(&mut self, device: u32) {
        let session = self.world.session;
        if let Some(started) = self.world.devices.remove(&device) {
            started.forget();
            started.hosted.rooms().end();
            started.hosted.device().shutdown();
            started.hosted.counters().unmapped_all();
            session.release(started.hosted.device());
        }
        session.pass_on_printed();
        session.events.flush_spans();
    }

    /// Replies once all positions are reached.
    fn wait(&mut self, ticket: u64, payload: &[u8]) -> Result<()> {
        let world = &self.world;
        let mut wait = Wait::new(ticket, world.session)?;
        for place in self.core.places(payload)? {
            wait.add(place.and_then(|place| {
                place.map(|place| Ok((world.device(place.device)?.clone(), place.stream, place.seq))).transpose()
            }));
        }
        // Only one wait at a time is polled.
        if let Some(before) = self.waiting.take() {
            before.notify_later(world.session);
        }
        if wait.is_for_looking() {
            self.waiting = Some(wait);
        } else {
            wait.notify_later(world.session);
        }
        Ok(())
    }

    fn test(&self, payload: &[u8]) -> Result<Result<bool>> {
        let reached = |place: Result<Option<crate::executor::StreamPosition>>| match place? {
            Some(place) => self.world.device(place.device)?.reached(place.stream, place.seq),
            None => Ok(true),
        };
        let all = self.core.places(payload)?.try_fold(true, |all, place| Ok(all & reached(place)?));
        Ok(all)
    }
}

impl World<'_> {
    fn hosted(&self, device: u32) -> Result<&Arc<Hosted>> {
        self.devices.get(&device).map(|started| &started.hosted).ok_or_else(gone)
    }

    fn device(&self, device: u32) -> Result<&Arc<dyn Device>> {
        self.hosted(device).map(|hosted| hosted.device())
    }

    /// Enqueues an operation in its stream.
    ///
    /// # Errors
    /// Returns an error if the program breaks the protocol. The inner result is an error that fails the queue.
    fn put(&self, device: u32, stream: StreamId, operation: Operation<'_>) -> Result<Result<Seq>> {
        let session = self.session;
        let hosted = match self.hosted(device) {
            Ok(hosted) => hosted,
            Err(error) => return Ok(Err(error)),
        };
        let (device, counters) = (hosted.device(), hosted.counters());
        assert_none_held();
        Ok(match operation {
            Operation::Unmap { start, len } => {
                counters.unmapped(len);
                device.unmap(stream, start, len)
            }
            Operation::Store { dst, bytes } => {
                counters.copied_in(bytes.len() as u64);
                device.store(stream, dst, bytes)
            }
            Operation::CopyIn { dst, len, transfer, eager } => {
                counters.copied_in(len);
                let source = if eager {
                    FromLane::eager(session.link.inbox(), transfer, len)
                } else {
                    FromLane::asked(session.asking.start(&session.link, transfer, len)?)
                };
                device.copy_in(stream, dst, len, CopySource::new(source))
            }
            Operation::CopyOut { src, len, transfer, in_event: true } => {
                counters.copied_out(len);
                let sink = CopySink::when(MovesWhen::AtOnce, ToEvent::new(&session.events, transfer));
                device.copy_out(stream, src, len, sink)
            }
            Operation::CopyOut { src, len, transfer, in_event: false } => {
                counters.copied_out(len);
                // A program that waits for the queue waits for the transfer, too.
                let sink = ToLane::new(session.link.outbox(), transfer, len);
                device.copy_out(stream, src, len, CopySink::when(MovesWhen::Detached, sink))
            }
            Operation::Copy { dst, src, len } => device.copy(stream, dst, src, len),
            Operation::Launch { function, dims, control, block } => {
                device.launch_under(control, stream, function, dims, block)
            }
            Operation::WaitStream { other, seq } => device.wait_stream(stream, other, seq),
            Operation::Push { src, push } => {
                counters.copied_out(push.len);
                let same_host = session.local.as_ref().map(|local| local.peer(push.to));
                let (pushing, device) = (self.push(push)?.of((device.info().id, stream)), device.clone());
                let sink = ToPeer { pushing, device: device.clone(), len: push.len, same_host, node_name: None };
                device.copy_out(stream, src, push.len, CopySink::peer(sink))
            }
            Operation::Relay { src, len, target } => self.hosted(target.device).and_then(|to| {
                counters.copied_out(len);
                to.counters().copied_in(len);
                let (source, target_end) = (End { hosted, start: src }, End { hosted: to, start: target.dst });
                copy_here(stream, source, target_end, len, target.after)
            }),
        })
    }

    /// A push to another device of the session.
    fn push(&self, push: Push<'_>) -> Result<Pushing> {
        let (session, exchange) = (self.session, &self.session.exchange);
        match push.to_executor {
            None => session.link.push(exchange, push.transfer, push.len),
            Some(directions) => session.peers.link(push.to, directions)?.push(exchange, push.transfer, push.len),
        }
    }

    fn expect(&self, transfer: TransferId, from: PeerId, len: u64, place: Result<CopyTarget>) -> Result<()> {
        let exchange = &self.session.exchange;
        let place = place.and_then(|place| Ok((self.hosted(place.device)?, place)));
        match place {
            Ok((hosted, CopyTarget { dst, after, .. })) => {
                hosted.counters().copied_in(len);
                let same_host = self.session.local.as_ref().map(|local| local.peer(from));
                let destination = Destination::private(hosted, dst, len, same_host);
                exchange.expect(transfer, from, len, Arc::new(destination))?;
                // The transfer may be over long before its target memory is free.
                due_after(exchange, transfer, hosted, after, Waited::new(self.session)?);
            }
            Err(error) => {
                exchange.refuse(transfer, from, error.node(&self.session.config.node_name))?;
            }
        }
        Ok(())
    }

    /// Carries out an effect of the core.
    fn act(&self, effect: Effect) {
        let events = &self.session.events;
        match effect {
            Effect::Reply { ticket, value, extra } => events.reply(ticket, value, extra),
            Effect::ReplyFailed { ticket, error } => events.reply_failed(ticket, error),
            Effect::Failed { device, queue, error } => {
                if let Ok(hosted) = self.hosted(device) {
                    hosted.counters().failed(&error);
                }
                events.failed(device, queue, error);
            }
            Effect::Credit { bytes } => events.send(&Event::Credit { bytes }, &[]),
            Effect::GiveBack { device, after, step } => self.give_back(device, after, step),
            Effect::Watch { device, queue, stream } => {
                let Some(started) = self.devices.get(&device) else { return };
                let (events, ended, hosted) = (events.clone(), started.ended.clone(), Arc::downgrade(&started.hosted));
                let failed = move |outcome: Result<()>| {
                    let Err(error) = outcome else { return };
                    if let Some(hosted) = hosted.upgrade() {
                        hosted.counters().failed(&error);
                    }
                    if !ended.load(Ordering::Acquire) {
                        events.failed(device, queue.0, error);
                    }
                };
                // No stream reaches this position: the callback runs when the stream fails or ends.
                started.hosted.device().notify(stream, Seq(u64::MAX), Box::new(failed));
            }
        }
    }

    fn give_back(&self, device: u32, after: Option<(StreamId, Seq)>, step: Step) {
        let Some(started) = self.devices.get(&device) else { return };
        let (events, ended) = (self.session.events.clone(), started.ended.clone());
        let done = move |_| {
            step.done(|queue, bytes| {
                if !ended.load(Ordering::Acquire) {
                    events.send(&Event::Done { device, queue: queue.0, bytes }, &[]);
                }
            });
        };
        match after {
            Some((stream, seq)) => started.hosted.device().notify(stream, seq, Box::new(done)),
            None => done(Ok(())),
        }
    }
}

/// Returns the error of a missing device, though the core requests only existing ones.
fn gone() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "the device is not started")
}
