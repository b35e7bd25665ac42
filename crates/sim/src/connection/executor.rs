//! An executor: the real core over simulated devices, whose streams run their operations in order.

use super::actor::{Actor, Block, Chunk, LANES};
use super::frames::Frame;
use super::script::{CELL, DEVICE_BASE, HOST_CELLS};
use super::streams::{Device, Notice, Wait, Work, crashed};
use super::world::World;
use accord_device::FunctionHandle;
use accord_executor::executor::{Effect, Operation, Request, StreamPosition};
use accord_fabric::frame::{self, Command, Event, FRAME_MAX, STREAM_WINDOW, operation_cost};
use accord_types::{ArgBlock, DevicePtr, Error, Result, Seq, StreamId, TransferId};

/// Bytes of a device's address range.
const ADDRESSES: u64 = (HOST_CELLS * CELL) as u64;
/// Most open operations of a stream, in bytes, for a program that keeps to its window.
const OPEN_MAX: u64 = STREAM_WINDOW + 2 * FRAME_MAX as u64;

pub(super) fn at(address: DevicePtr) -> usize {
    usize::try_from(address.0 - DEVICE_BASE).unwrap_or(0)
}

pub(super) fn size(len: u64) -> usize {
    usize::try_from(len).unwrap_or(0)
}

/// The outcome of a command.
enum Step {
    Handled,
    /// The command must be handled again now.
    Again,
    /// The command's stream is full.
    Full,
}

impl World {
    /// Opens the program's devices, as if its first commands had arrived.
    pub(super) fn open_devices(&mut self, devices: u32) {
        let mut program = Vec::new();
        frame::encode_program(&mut program, &accord_fabric::ProgramSpec::default());
        let mut commands = vec![(Command::Start { ticket: 0, trace: false, emulate_gpu: false }, program)];
        for device in 0..devices {
            let mut function = Vec::new();
            let spec = accord_types::FunctionSpec {
                object: accord_types::ObjectSpec { path: String::new(), build_id: String::new(), executable: true },
                offset: 0,
                name: "region".to_owned(),
                kernel: None,
            };
            frame::encode_function(&mut function, &spec);
            commands.push((Command::Open { device, ticket: 0, start: 0, len: 0 }, Vec::new()));
            commands.push((Command::Function { device, function: 1, offset: 0, executable: true }, function));
        }
        for (command, payload) in commands {
            let done = self.command(command, &payload, 0);
            if !matches!(done, Ok(Step::Handled)) {
                self.violation(format!("{command:?} is not done"));
            }
        }
        // These replies answer no query of the program.
        self.executor.core.effects().for_each(drop);
    }

    /// Runs one step of the reader of commands.
    pub(super) fn run_commands(&mut self) {
        if self.cut {
            return;
        }
        if let Some((command, payload, frame)) = self.executor.pending.take() {
            let done = self.command(command, &payload, frame);
            match done {
                Ok(Step::Handled) => {
                    self.executor.core.handled(frame);
                    self.act_for_executor();
                }
                Ok(again) => {
                    self.executor.pending = Some((command, payload, frame));
                    if matches!(again, Step::Full) {
                        return self.block(Actor::Commands, Block::Progress);
                    }
                }
                Err(error) => return self.end_session(&error),
            }
            return self.schedule(Actor::Commands);
        }
        match self.executor.reader.take::<Command>() {
            Ok(Some(frame)) => {
                self.executor.pending = Some((frame.record, frame.payload.to_vec(), frame.length));
                self.schedule(Actor::Commands);
            }
            Ok(None) => {
                let now = self.queue.now();
                let here = &mut **self;
                if !super::lane::read(&mut here.command, now, &mut here.executor.reader) {
                    return self.block(Actor::Commands, Block::Commands);
                }
                self.unblock(Block::CommandRoom);
                self.schedule(Actor::Commands);
            }
            Err(error) => self.end_session(&error),
        }
    }

    pub(super) fn send_event(&mut self, event: &Event, payload: &[u8]) {
        self.maybe_lie();
        self.send_as_it_is(event, payload);
    }

    pub(super) fn send_as_it_is(&mut self, event: &Event, payload: &[u8]) {
        let mut bytes = Vec::new();
        if let Err(error) = frame::put(&mut bytes, event, &[payload]) {
            return self.violation(format!("an event can't be sent: {error:?}"));
        }
        self.send_bytes(bytes);
    }

    pub(super) fn send_bytes(&mut self, bytes: Vec<u8>) {
        let len = bytes.len();
        let Self { connections, at, random, queue, .. } = self;
        let arrives = connections[*at].events.put(random, queue.now(), bytes, len);
        self.arrive(arrives, Block::Events);
    }

    pub(super) fn send_error(&mut self, error: &Error, event: impl FnOnce(frame::Failure) -> Event) {
        let mut text = Vec::new();
        let failure = frame::encode_error(error, &mut text);
        self.send_event(&event(failure), &text);
    }

    fn reply(&mut self, ticket: u64, outcome: Result<u64>) {
        match outcome {
            Ok(value) => self.send_event(&Event::Reply { ticket, value, extra: 0 }, &[]),
            Err(error) => self.send_error(&error, |failure| Event::ReplyFailed { ticket, failure }),
        }
    }

    /// Carries out the core's requests for a command.
    fn command(&mut self, command: Command, payload: &[u8], frame: usize) -> Result<Step> {
        let mut words = [0; ArgBlock::RELATIVE_WORDS_MAX];
        let executor = &mut self.executor;
        match executor.core.handle(command, payload, frame, &mut words, &executor.devices)? {
            Request::MakeStream { device, queue } => {
                let made = executor.devices.0.get_mut(&device).map(|place| {
                    place.streams.push(super::streams::Stream::default());
                    place.streams.len() - 1
                });
                let number = made.unwrap_or(0);
                let stream = StreamId(u32::try_from(number).unwrap_or(0));
                executor.core.stream_made(device, queue, Ok(stream));
                self.begin(Actor::Stream(device, number), Frame::Stream);
                return Ok(Step::Again);
            }
            Request::Put { device, stream, operation } => {
                let space = executor.space;
                let number = stream.0 as usize;
                let put = match operation {
                    Operation::Push { src, push } => {
                        Work::Push(self.begin_push(push.transfer, push.to, at(src), size(push.len))?)
                    }
                    operation => work(operation),
                };
                let executor = &mut self.executor;
                let Some(place) = executor.devices.stream_mut(device, number) else {
                    self.violation(format!("an operation for {stream:?} of device {device}, which is not there"));
                    return Ok(Step::Handled);
                };
                if !place.failed && place.ops.len() >= space {
                    return Ok(Step::Full);
                }
                // As in the real executor, this precedes the check whether the stream has room.
                if let Work::CopyIn { transfer, len, eager: false, .. } = &put
                    && executor.ahead.put(*transfer, *len as u64, *transfer).is_some()
                {
                    self.ask_for(*transfer);
                }
                let executor = &mut self.executor;
                let place = executor.devices.stream_mut(device, number).filter(|place| !place.failed);
                let Some(place) = place else {
                    executor.core.put(Err(crashed()))?;
                    self.throw_away(put);
                    return Ok(Step::Handled);
                };
                let seq = place.put(put);
                let open = place.ops.len() as u64;
                executor.core.put(Ok(seq))?;
                if open > OPEN_MAX / operation_cost(0) {
                    self.violation(format!("{open} operations are in a stream"));
                }
                self.schedule(Actor::Stream(device, number));
            }
            Request::Discard { transfer, .. } => self.discard(transfer),
            Request::Wait { ticket } => {
                let mut wait = Wait { ticket, places: Vec::new(), failure: None };
                for place in executor.core.places(payload)? {
                    match place {
                        Ok(place) => wait.places.extend(place),
                        Err(error) => drop(wait.failure.get_or_insert(error)),
                    }
                }
                executor.waits.push(wait);
                self.answer_waits();
            }
            Request::Test { ticket } => {
                let devices = &executor.devices;
                let reached =
                    |place: Result<Option<StreamPosition>>| place?.map_or(Ok(true), |place| devices.reached(place));
                let all = executor.core.places(payload)?.try_fold(true, |all, place| Ok(all & reached(place)?));
                self.reply(ticket, all.map(u64::from));
            }
            Request::Open { device, ticket, .. } => {
                executor.devices.0.insert(device, Device::default());
                executor.core.opened(device, ticket, Ok((DevicePtr(DEVICE_BASE), ADDRESSES)));
            }
            Request::Close { device, ticket } => {
                self.close(device);
                self.reply(ticket, Ok(0));
            }
            Request::Function { device, function, .. } => {
                executor.core.named(device, function, Ok(FunctionHandle(function)));
            }
            // A push that is given up here has not begun.
            Request::Done | Request::Start { .. } | Request::Image(_) => {}
            Request::Abandon { push } => {
                // Without a route to the peer a real executor also ends the session.
                if let Ok(gone) = self.begin_push(push.transfer, push.to, 0, size(push.len)) {
                    self.drop_push(&gone);
                }
            }
            Request::Expect { transfer, from, len, place } => self.expect(transfer, from, len, place)?,
            other => self.violation(format!("{other:?} was not asked for")),
        }
        Ok(Step::Handled)
    }

    /// Sends the core's events.
    fn act_for_executor(&mut self) {
        let effects: Vec<_> = self.executor.core.effects().collect();
        for effect in effects {
            match effect {
                Effect::Reply { ticket, value, extra } => self.send_event(&Event::Reply { ticket, value, extra }, &[]),
                Effect::ReplyFailed { ticket, error } => self.reply(ticket, Err(error)),
                Effect::Failed { device, queue, error } => {
                    self.send_error(&error, |failure| Event::Failed { device, queue, failure });
                }
                Effect::Credit { bytes } => self.send_event(&Event::Credit { bytes }, &[]),
                Effect::GiveBack { device, after, step } => match after {
                    Some((stream, seq)) => self.notify(device, stream, seq, Notice::GiveBack(step)),
                    None => self.handle_notice(device, Notice::GiveBack(step), true),
                },
                Effect::Watch { device, queue, stream } => {
                    self.notify(device, stream, Seq(u64::MAX), Notice::Watch(queue));
                }
            }
        }
    }

    pub(super) fn notify(&mut self, device: u32, stream: StreamId, seq: Seq, notice: Notice) {
        let Some(place) = self.executor.devices.stream_mut(device, stream.0 as usize) else {
            return self.notify_end(device, notice);
        };
        place.notices.push((seq, notice));
        self.notify_due(device, stream.0 as usize);
    }

    pub(super) fn notify_due(&mut self, device: u32, stream: usize) {
        let due = self.executor.devices.stream_mut(device, stream).map(super::streams::Stream::due);
        due.into_iter().flatten().for_each(|(notice, reached)| self.handle_notice(device, notice, reached));
    }

    fn handle_notice(&mut self, device: u32, notice: Notice, reached: bool) {
        match notice {
            Notice::GiveBack(step) => {
                step.done(|queue, bytes| self.send_event(&Event::Done { device, queue: queue.0, bytes }, &[]));
            }
            Notice::Watch(queue) => {
                self.send_error(&crashed(), |failure| Event::Failed { device, queue: queue.0, failure });
            }
            Notice::Due(transfer) => self.due(transfer, if reached { Ok(()) } else { Err(crashed()) }),
        }
    }

    /// Handles a notice whose device has ended, which its program knows.
    fn notify_end(&mut self, device: u32, notice: Notice) {
        if matches!(notice, Notice::Due(_)) {
            self.handle_notice(device, notice, false);
        }
    }

    pub(super) fn answer_waits(&mut self) {
        for mut wait in std::mem::take(&mut self.executor.waits) {
            let (devices, failure) = (&self.executor.devices, &mut wait.failure);
            wait.places.retain(|place| match devices.reached(*place) {
                Ok(reached) => !reached,
                Err(error) => {
                    failure.get_or_insert(error);
                    false
                }
            });
            if wait.places.is_empty() {
                self.reply(wait.ticket, wait.failure.map_or(Ok(0), Err));
            } else {
                self.executor.waits.push(wait);
            }
        }
    }

    pub(super) fn throw_away(&mut self, work: Work) {
        match work {
            Work::CopyIn { transfer, eager, .. } => {
                let asked = eager || self.executor.ahead.turn(transfer).is_none();
                let (here, all) = self.executor.kept.remove(&transfer).unwrap_or_default();
                drop(here);
                if asked && !all {
                    self.discard(transfer);
                    self.executor.owed.extend((!eager).then_some(transfer));
                }
                self.copied(transfer);
            }
            Work::CopyOut { lane: Some(lane), transfer, .. } => {
                let gone = Chunk { transfer, bytes: Vec::new(), last: true };
                self.put_from(lane, gone);
                self.from_acquired[lane] = false;
            }
            Work::Push(push) if self.is_sent(&push) => self.executor.lingering.push(push),
            Work::Push(push) => self.drop_push(&push),
            Work::Incoming(incoming) => self.drop_incoming(&incoming),
            _ => {}
        }
    }

    /// Continues pushes that were sent entirely and whose device has ended.
    pub(super) fn end_lingering(&mut self) {
        for mut push in std::mem::take(&mut self.executor.lingering) {
            if self.push_step(u32::MAX, &mut push) == Ok(false) {
                self.executor.lingering.push(push);
            }
        }
    }

    /// Requests the bytes of a copy in, which leave their lane as they arrive.
    fn ask_for(&mut self, transfer: TransferId) {
        self.executor.kept.insert(transfer, (Vec::new(), false));
        self.send_ready(transfer);
    }

    pub(super) fn send_ready(&mut self, transfer: TransferId) {
        let Self { connections, at, random, queue, .. } = self;
        let arrives = connections[*at].control.put(random, queue.now(), transfer, 1);
        self.arrive(arrives, Block::Control);
    }

    /// Ends a copy in, and requests the next ones.
    pub(super) fn copied(&mut self, transfer: TransferId) {
        self.executor.ahead.over(transfer);
        while let Some(next) = self.executor.ahead.next_to_ask() {
            self.ask_for(next);
        }
    }

    /// Has a transfer's bytes discarded on arrival.
    fn discard(&mut self, transfer: TransferId) {
        self.executor.unwanted.insert(transfer);
        self.schedule(Actor::Discards);
    }

    fn close(&mut self, device: u32) {
        let Some(place) = self.executor.devices.0.remove(&device) else { return };
        self.executor.closes += 1;
        for stream in place.streams {
            stream.ops.into_iter().for_each(|work| self.throw_away(work));
            stream.notices.into_iter().for_each(|(_, notice)| self.notify_end(device, notice));
        }
        self.unblock(Block::Progress);
        self.answer_waits();
    }

    /// Takes unwanted bytes off their lanes, and bytes that were requested before their turn.
    pub(super) fn run_discards(&mut self) {
        let now = self.queue.now();
        let mut taken = true;
        while std::mem::take(&mut taken) {
            for lane in 0..LANES {
                let Some(transfer) = self.to[lane].front(now).map(|chunk| chunk.transfer) else { continue };
                let unwanted = self.executor.unwanted.contains(&transfer);
                if !unwanted && !self.executor.kept.contains_key(&transfer) {
                    continue;
                }
                let Some(chunk) = self.to[lane].take(now) else { continue };
                if chunk.last {
                    self.executor.owed.remove(&transfer);
                }
                if let Some((bytes, all)) = self.executor.kept.get_mut(&transfer) {
                    bytes.extend(chunk.bytes);
                    *all |= chunk.last;
                }
                taken = true;
                self.unblock(Block::ToRoom);
                self.unblock(Block::To);
            }
        }
        let kept = self.executor.kept.values().map(|(bytes, _)| bytes.len() as u64).sum::<u64>();
        if kept > self.executor.ahead.bytes() {
            self.violation(format!("{kept} bytes are kept, and {} were asked for", self.executor.ahead.bytes()));
        }
        self.block(Actor::Discards, Block::To);
    }

    pub(super) fn put_from(&mut self, lane: usize, chunk: Chunk) {
        let bytes = chunk.bytes.len();
        let Self { connections, at, random, queue, .. } = self;
        let arrives = connections[*at].from[lane].put(random, queue.now(), chunk, bytes);
        self.arrive(arrives, Block::From(lane));
    }
}

/// Converts an operation of the core to one of a simulated stream.
fn work(operation: Operation<'_>) -> Work {
    match operation {
        Operation::Store { dst, bytes } => Work::Store { dst: at(dst), bytes: bytes.to_vec() },
        Operation::CopyIn { dst, len, transfer, eager } => {
            Work::CopyIn { dst: at(dst), len: size(len), transfer, eager, bytes: Vec::new() }
        }
        Operation::CopyOut { src, len, transfer, in_event } => {
            Work::CopyOut { src: at(src), len: size(len), transfer, lane: None, at: 0, in_event }
        }
        Operation::Launch { dims, .. } => {
            let salt = dims.vector.to_le_bytes()[0];
            Work::Kernel { cell: dims.gangs as usize, from: dims.workers as usize, salt, until: None }
        }
        Operation::WaitStream { other, seq } => Work::WaitStream { other, seq },
        // The simulated programs enqueue no other operations.
        _ => Work::Store { dst: 0, bytes: Vec::new() },
    }
}
