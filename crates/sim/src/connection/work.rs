//! The operations of a simulated executor's streams.

use super::actor::{Actor, Block, Chunk, LANES};
use super::lane::PIECE;
use super::script::{CELL, mix};
use super::streams::Work;
use super::world::World;
use accord_executor::executor::StreamPosition;
use accord_fabric::frame::Event;

impl World {
    /// Runs one step of a stream.
    pub(super) fn run_stream(&mut self, device: u32, stream: usize) {
        let actor = Actor::Stream(device, stream);
        if self.cut {
            return;
        }
        let Some(place) = self.executor.devices.stream_mut(device, stream) else { return };
        let Some(mut work) = place.ops.pop_front() else { return };
        match self.work(device, &mut work) {
            Ok(true) => self.done(device, stream),
            Ok(false) => {
                if let Some(place) = self.executor.devices.stream_mut(device, stream) {
                    place.ops.push_front(work);
                }
                self.await_progress(actor, device, stream);
            }
            Err(()) => self.fail(device, stream),
        }
    }

    /// Schedules the stream for when the condition of its first operation may have changed.
    fn await_progress(&mut self, actor: Actor, device: u32, stream: usize) {
        let place = self.executor.devices.stream_mut(device, stream);
        match place.and_then(|place| place.ops.front()) {
            Some(&Work::Kernel { until: Some(until), .. }) => self.schedule_at(actor, until),
            Some(Work::CopyIn { .. }) => self.block(actor, Block::To),
            Some(Work::CopyOut { .. }) => self.block(actor, Block::FromRoom),
            Some(Work::WaitStream { .. }) => self.block(actor, Block::Progress),
            Some(Work::Push(push)) => {
                let block = Block::Push(push.transfer);
                self.block(actor, block);
                self.block(actor, Block::PeerLane);
            }
            Some(Work::Incoming(incoming)) => {
                let block = Block::PeerBytes(incoming.from);
                self.block(actor, block);
            }
            _ => self.schedule(actor),
        }
    }

    fn done(&mut self, device: u32, stream: usize) {
        if let Some(place) = self.executor.devices.stream_mut(device, stream) {
            place.done += 1;
        }
        self.notify_due(device, stream);
        self.unblock(Block::Progress);
        self.answer_waits();
        self.schedule(Actor::Stream(device, stream));
    }

    fn fail(&mut self, device: u32, stream: usize) {
        self.executor.crashed.insert(device);
        let Some(place) = self.executor.devices.stream_mut(device, stream) else { return };
        place.failed = true;
        let dropped: Vec<_> = place.ops.drain(..).collect();
        dropped.into_iter().for_each(|work| self.throw_away(work));
        self.notify_due(device, stream);
        self.unblock(Block::Progress);
        self.answer_waits();
    }

    /// Runs one step of an operation. Returns whether it is done, or an error if it crashes.
    fn work(&mut self, device: u32, work: &mut Work) -> Result<bool, ()> {
        let now = self.queue.now();
        match work {
            Work::Kernel { cell, from, salt, until } => {
                let Some(until) = *until else {
                    let long = match self.random.within(0..1_000) {
                        0..2 if self.executor.gets_stuck => 3_000_000,
                        0..50 => 30_000,
                        _ => 300,
                    };
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
                let Some(place) = self.executor.devices.0.get_mut(&device) else { return Ok(true) };
                let value = mix(place.memory[*cell * CELL], place.memory[*from * CELL], *salt);
                place.memory[*cell * CELL..][..CELL].fill(value);
                Ok(true)
            }
            Work::Store { dst, bytes } => {
                if let Some(place) = self.executor.devices.0.get_mut(&device) {
                    place.memory[*dst..][..bytes.len()].copy_from_slice(bytes);
                }
                Ok(true)
            }
            Work::CopyIn { dst, len, transfer, eager, bytes } => {
                if !*eager && self.executor.ahead.turn(*transfer).is_some() {
                    self.send_ready(*transfer);
                }
                // From here on the operation takes its bytes from the lanes itself.
                let (here, mut all) = self.executor.kept.remove(transfer).unwrap_or_default();
                bytes.extend(here);
                for lane in 0..LANES {
                    while self.to[lane].front(now).is_some_and(|chunk| chunk.transfer == *transfer) {
                        let chunk = self.to[lane].take(now);
                        all |= chunk.as_ref().is_some_and(|chunk| chunk.last);
                        bytes.extend(chunk.map(|chunk| chunk.bytes).unwrap_or_default());
                        self.unblock(Block::ToRoom);
                        self.unblock(Block::To);
                    }
                }
                let (transfer, complete) = (*transfer, bytes.len() >= *len);
                if !complete && !all {
                    return Ok(false);
                }
                self.copied(transfer);
                if !complete {
                    // The sender has given up, and the program knows why.
                    return Err(());
                }
                if let Some(place) = self.executor.devices.0.get_mut(&device) {
                    place.memory[*dst..][..*len].copy_from_slice(bytes);
                }
                Ok(true)
            }
            Work::CopyOut { src, len, transfer, lane, at, in_event } => {
                let Some(place) = self.executor.devices.0.get(&device) else { return Ok(true) };
                let bytes = place.memory[*src..][..*len].to_vec();
                if *in_event {
                    self.send_event(&Event::Data { transfer: transfer.0 }, &bytes);
                    return Ok(true);
                }
                let free = || (0..LANES).find(|&lane| !self.from_acquired[lane]);
                let Some(index) = lane.or_else(free) else { return Ok(false) };
                *lane = Some(index);
                self.from_acquired[index] = true;
                while self.from[index].space() > 0 {
                    let end = (*at + PIECE).min(*len);
                    let chunk = Chunk { transfer: *transfer, bytes: bytes[*at..end].to_vec(), last: end == *len };
                    self.put_from(index, chunk);
                    *at = end;
                    if end == *len {
                        self.from_acquired[index] = false;
                        self.unblock(Block::FromRoom);
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Work::Push(push) => self.push_step(device, push),
            Work::Incoming(incoming) => Ok(self.incoming_step(device, incoming)),
            Work::WaitStream { other, seq } => {
                let place = StreamPosition { device, stream: *other, seq: *seq };
                // As in the real executor, the wait fails if the other stream failed.
                self.executor.devices.reached(place).map_err(drop)
            }
        }
    }
}
