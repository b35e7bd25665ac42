//! A model of an executor, as docs/design/data-path.md describes it: whoever reads commands only puts them into streams, and
//! waits where one is full. A stream does one operation after the other.

use super::actor::{Actor, Block, Chunk, Happening, LANES};
use super::driver::PIECE;
use super::program::{DEVICE_BASE, SMALL};
use super::script::{CELL, mix};
use super::streams::Work;
use super::world::World;
use accord_fabric::frame::{self, CREDIT_STEP, Command, Event, Position, STREAM_STEP, operation_cost};
use accord_types::{Error, ErrorCode, QueueId, TransferId};

fn at(address: u64) -> usize {
    usize::try_from(address - DEVICE_BASE).unwrap_or(0)
}

fn size(len: u64) -> usize {
    usize::try_from(len).unwrap_or(0)
}

impl World {
    /// One step of the reader of commands.
    pub(super) fn run_commands(&mut self) {
        if self.cut {
            return;
        }
        if let Some((command, payload, cost)) = self.executor.pending.take() {
            if let Some(command) = self.command(command, &payload, cost) {
                self.executor.pending = Some((command, payload, cost));
                return self.block(Actor::Commands, Block::Progress);
            }
            return self.schedule(Actor::Commands);
        }
        match self.executor.reader.take::<Command>() {
            Ok(Some(frame)) => {
                self.executor.pending = Some((frame.record, frame.payload.to_vec(), operation_cost(frame.length)));
                self.executor.uncredited += frame.length as u64;
                if self.executor.uncredited >= CREDIT_STEP {
                    let bytes = std::mem::take(&mut self.executor.uncredited);
                    self.send_event(&Event::Credit { bytes }, &[]);
                }
                self.schedule(Actor::Commands);
            }
            Ok(None) => {
                if !super::lane::read(&mut self.command, self.queue.now(), &mut self.executor.reader) {
                    return self.block(Actor::Commands, Block::Commands);
                }
                self.unblock(Block::CommandRoom);
                self.schedule(Actor::Commands);
            }
            Err(error) => self.violation(format!("a command can't be read: {error:?}")),
        }
    }

    fn send_event(&mut self, event: &Event, payload: &[u8]) {
        let mut bytes = Vec::new();
        if let Err(error) = frame::put(&mut bytes, event, &[payload]) {
            return self.violation(format!("an event can't be sent: {error:?}"));
        }
        let len = bytes.len();
        let arrives = self.events.put(&mut self.random, self.queue.now(), bytes, len);
        self.queue.add(arrives, Happening::Arrive(Block::Events));
    }

    fn reply(&mut self, ticket: u64, outcome: Option<u64>) {
        match outcome {
            Some(value) => self.send_event(&Event::Reply { ticket, value, extra: 0 }, &[]),
            None => {
                let mut text = Vec::new();
                let failure = frame::encode_error(&crashed(), &mut text);
                self.send_event(&Event::ReplyFailed { ticket, failure }, &text);
            }
        }
    }

    /// Does a command. Given back if its stream is full.
    fn command(&mut self, command: Command, payload: &[u8], cost: u64) -> Option<Command> {
        let (device, queue, work) = match command {
            Command::Launch { device, queue, gangs, workers, vector, .. } => {
                let salt = vector.to_le_bytes()[0];
                (device, queue, Work::Kernel { cell: gangs as usize, from: workers as usize, salt, until: None })
            }
            Command::Store { device, queue, dst } => {
                (device, queue, Work::Store { dst: at(dst), bytes: payload.to_vec() })
            }
            Command::CopyIn { device, queue, dst, len, transfer, eager } => {
                let transfer = TransferId(transfer);
                let work =
                    Work::CopyIn { dst: at(dst), len: size(len), transfer, eager, asked: false, bytes: Vec::new() };
                (device, queue, work)
            }
            Command::CopyOut { device, queue, src, len, transfer } => {
                let transfer = TransferId(transfer);
                (device, queue, Work::CopyOut { src: at(src), len: size(len), transfer, lane: None, at: 0 })
            }
            Command::WaitQueue { device, queue, other, seq } => {
                (device, queue, Work::WaitQueue { other: QueueId(other), seq })
            }
            Command::Wait { ticket } => {
                let positions = frame::positions(payload).map(Iterator::collect).unwrap_or_default();
                self.executor.waits.push((ticket, positions));
                self.answer_waits();
                return None;
            }
            Command::Test { ticket } => {
                let positions: Vec<_> = frame::positions(payload).map(Iterator::collect).unwrap_or_default();
                let reached = self.reached(&positions).map(u64::from);
                self.reply(ticket, reached);
                return None;
            }
            Command::Close { device, ticket } => {
                self.close(device);
                self.reply(ticket, Some(0));
                return None;
            }
            _ => return None,
        };
        let room = self.executor.room;
        let open = self.executor.devices.get_mut(&device).filter(|device| !device.closed);
        let Some(place) = open else {
            self.throw_away(&work);
            return None;
        };
        let queue = QueueId(queue);
        let number = place.queue(queue).stream;
        let stream = &mut place.streams[number];
        if stream.failed {
            place.queue(queue).last += 1;
            self.throw_away(&work);
            return None;
        }
        if stream.ops.len() >= room {
            return Some(command);
        }
        stream.ops.push_back((queue, work, cost));
        place.queue(queue).last += 1;
        self.schedule(Actor::Stream(device, number));
        None
    }

    /// Whether all positions are reached; none if a queue has failed.
    fn reached(&self, positions: &[Position]) -> Option<bool> {
        let mut all = true;
        for &position in positions {
            all &= self.executor.devices.get(&position.device)?.reached(position)?;
        }
        Some(all)
    }

    fn answer_waits(&mut self) {
        for (ticket, positions) in std::mem::take(&mut self.executor.waits) {
            match self.reached(&positions) {
                Some(false) => self.executor.waits.push((ticket, positions)),
                Some(true) => self.reply(ticket, Some(0)),
                None => self.reply(ticket, None),
            }
        }
    }

    fn throw_away(&mut self, work: &Work) {
        match work {
            Work::CopyIn { transfer, .. } => {
                self.executor.unwanted.insert(*transfer);
                // Somebody has to take what stands on the lanes.
                self.schedule(Actor::Stream(0, 0));
            }
            Work::CopyOut { lane: Some(lane), transfer, .. } => {
                let gone = Chunk { transfer: *transfer, bytes: Vec::new(), last: true };
                self.put_from(*lane, gone);
                self.from_lent[*lane] = false;
            }
            _ => {}
        }
    }

    fn close(&mut self, device: u32) {
        let Some(place) = self.executor.devices.get_mut(&device) else { return };
        place.closed = true;
        let dropped: Vec<_> = place.streams.iter_mut().flat_map(|stream| stream.ops.drain(..)).collect();
        dropped.iter().for_each(|(_, work, _)| self.throw_away(work));
        self.unblock(Block::Progress);
    }

    /// Bytes that nobody wants leave their lanes.
    fn take_unwanted(&mut self) {
        let mut taken = true;
        while std::mem::take(&mut taken) {
            for lane in 0..LANES {
                let front = self.to[lane].front(self.queue.now()).map(|chunk| chunk.transfer);
                if front.is_some_and(|transfer| self.executor.unwanted.contains(&transfer)) {
                    self.to[lane].take(self.queue.now());
                    taken = true;
                    self.unblock(Block::ToRoom);
                    self.unblock(Block::To);
                }
            }
        }
    }

    fn put_from(&mut self, lane: usize, chunk: Chunk) {
        let bytes = chunk.bytes.len();
        let arrives = self.from[lane].put(&mut self.random, self.queue.now(), chunk, bytes);
        self.queue.add(arrives, Happening::Arrive(Block::From(lane)));
    }

    /// One step of a stream.
    pub(super) fn run_stream(&mut self, device: u32, stream: usize) {
        let actor = Actor::Stream(device, stream);
        if self.cut {
            return;
        }
        self.take_unwanted();
        // Whoever is stepped looks at the lanes: somebody is, when bytes come.
        let Some(place) = self.executor.devices.get_mut(&device) else { return };
        let Some((queue, mut work, cost)) = place.streams[stream].ops.pop_front() else {
            return self.block(actor, Block::To);
        };
        match self.work(device, &mut work) {
            Ok(true) => self.done(device, stream, queue, cost),
            Ok(false) => {
                if let Some(place) = self.executor.devices.get_mut(&device) {
                    place.streams[stream].ops.push_front((queue, work, cost));
                }
                self.await_progress(actor, device, stream);
            }
            Err(()) => self.fail(device, stream),
        }
    }

    /// The stream goes on when something has changed on which its first operation hangs.
    fn await_progress(&mut self, actor: Actor, device: u32, stream: usize) {
        let place = self.executor.devices.get(&device);
        match place.and_then(|place| place.streams[stream].ops.front()) {
            Some((_, Work::Kernel { until: Some(until), .. }, _)) => self.schedule_at(actor, *until),
            Some((_, Work::CopyIn { .. }, _)) => self.block(actor, Block::To),
            Some((_, Work::CopyOut { .. }, _)) => self.block(actor, Block::FromRoom),
            Some((_, Work::WaitQueue { .. }, _)) => self.block(actor, Block::Progress),
            _ => self.schedule(actor),
        }
    }

    fn done(&mut self, device: u32, stream: usize, queue: QueueId, cost: u64) {
        if let Some(place) = self.executor.devices.get_mut(&device) {
            place.queue(queue).done += 1;
            let done = &mut place.streams[stream].done;
            *done.entry(queue).or_default() += cost;
            if done.values().sum::<u64>() >= STREAM_STEP {
                for (queue, bytes) in std::mem::take(done) {
                    self.send_event(&Event::Done { device, queue: queue.0, bytes }, &[]);
                }
            }
        }
        self.unblock(Block::Progress);
        self.answer_waits();
        self.schedule(Actor::Stream(device, stream));
    }

    fn fail(&mut self, device: u32, stream: usize) {
        self.executor.crashed.insert(device);
        let Some(place) = self.executor.devices.get_mut(&device) else { return };
        place.streams[stream].failed = true;
        let dropped: Vec<_> = place.streams[stream].ops.drain(..).collect();
        let queues = place.queues.iter().filter(|(_, queue)| queue.stream == stream).map(|(id, _)| *id);
        let queues: Vec<_> = queues.collect();
        dropped.iter().for_each(|(_, work, _)| self.throw_away(work));
        for queue in queues {
            let mut text = Vec::new();
            let failure = frame::encode_error(&crashed(), &mut text);
            self.send_event(&Event::Failed { device, queue: queue.0, failure }, &text);
        }
        self.unblock(Block::Progress);
        self.answer_waits();
        self.schedule(Actor::Stream(device, stream));
    }

    /// One step of an operation. Whether it is done; an error if it crashes.
    fn work(&mut self, device: u32, work: &mut Work) -> Result<bool, ()> {
        let now = self.queue.now();
        match work {
            Work::Kernel { cell, from, salt, until } => {
                let Some(until) = *until else {
                    let long = if self.random.chance(5) { 30_000 } else { 300 };
                    *until = Some(now + self.random.within(0..long));
                    return Ok(false);
                };
                if now < until {
                    return Ok(false);
                }
                self.executor.kernels += 1;
                if self.executor.crash == Some(self.executor.kernels) {
                    return Err(());
                }
                let Some(place) = self.executor.devices.get_mut(&device) else { return Ok(true) };
                let value = mix(place.memory[*cell * CELL], place.memory[*from * CELL], *salt);
                place.memory[*cell * CELL..][..CELL].fill(value);
                Ok(true)
            }
            Work::Store { dst, bytes } => {
                if let Some(place) = self.executor.devices.get_mut(&device) {
                    place.memory[*dst..][..bytes.len()].copy_from_slice(bytes);
                }
                Ok(true)
            }
            Work::CopyIn { dst, len, transfer, eager, asked, bytes } => {
                if !*eager && !std::mem::replace(asked, true) {
                    let arrives = self.control.put(&mut self.random, now, *transfer, 1);
                    self.queue.add(arrives, Happening::Arrive(Block::Control));
                }
                for lane in 0..LANES {
                    while self.to[lane].front(now).is_some_and(|chunk| chunk.transfer == *transfer) {
                        bytes.extend(self.to[lane].take(now).map(|chunk| chunk.bytes).unwrap_or_default());
                        self.unblock(Block::ToRoom);
                        self.unblock(Block::To);
                    }
                }
                if bytes.len() < *len {
                    return Ok(false);
                }
                if let Some(place) = self.executor.devices.get_mut(&device) {
                    place.memory[*dst..][..*len].copy_from_slice(bytes);
                }
                Ok(true)
            }
            Work::CopyOut { src, len, transfer, lane, at } => {
                let Some(place) = self.executor.devices.get(&device) else { return Ok(true) };
                let bytes = place.memory[*src..][..*len].to_vec();
                if *len <= SMALL {
                    self.send_event(&Event::Data { transfer: transfer.0 }, &bytes);
                    return Ok(true);
                }
                let free = || (0..LANES).find(|&lane| !self.from_lent[lane]);
                let Some(index) = lane.or_else(free) else { return Ok(false) };
                *lane = Some(index);
                self.from_lent[index] = true;
                while self.from[index].room() > 0 {
                    let end = (*at + PIECE).min(*len);
                    let chunk = Chunk { transfer: *transfer, bytes: bytes[*at..end].to_vec(), last: end == *len };
                    self.put_from(index, chunk);
                    *at = end;
                    if end == *len {
                        self.from_lent[index] = false;
                        self.unblock(Block::FromRoom);
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Work::WaitQueue { other, seq } => {
                let place = self.executor.devices.get(&device);
                let position = Position { device, queue: *other, seq: accord_types::Seq(*seq) };
                Ok(place.and_then(|place| place.reached(position)).unwrap_or(true))
            }
        }
    }
}

fn crashed() -> Error {
    Error::new(ErrorCode::Execution, "a region has crashed")
}
