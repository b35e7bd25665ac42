//! The threads of a connection, modelled on `libacc/client/src/remote`.

use super::actor::{Actor, Block, Chunk, LANES};
use super::frames::Frame;
use super::lane::PIECE;
use super::world::{Task, World};
use accord_client::connection::{
    Bytes, CopyLine, EAGER_LANES, Effect, Flush, FlusherStep, POLL_INTERVAL, Requested, WaitId, WaitStep, WatchStep,
};
use accord_fabric::frame::Event;
use accord_types::TransferId;
use std::ops::Range;
use std::time::Duration;

/// Returns the lanes of a kind of copy.
fn lanes(way: CopyLine) -> Range<usize> {
    match way {
        CopyLine::Eager => 0..EAGER_LANES,
        CopyLine::Asked => EAGER_LANES..LANES,
    }
}

fn free(way: CopyLine) -> Block {
    match way {
        CopyLine::Eager => Block::EagerLane,
        CopyLine::Asked => Block::AskedLane,
    }
}

fn jobs(way: CopyLine) -> Block {
    match way {
        CopyLine::Eager => Block::EagerJob,
        CopyLine::Asked => Block::AskedJob,
    }
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl World {
    /// Returns the time of the machine's clock.
    pub(super) fn now(&self) -> Duration {
        Duration::from_micros(self.queue.now())
    }

    /// Carries out the effects of the machine.
    pub(super) fn act(&mut self) {
        for effect in self.machine.take_effects() {
            match effect {
                Effect::Wake(actor) => self.wake(actor),
                Effect::WakeCopyThread(way) => self.unblock_one(jobs(way)),
                Effect::StartCopyThread(way) => {
                    let actor = Actor::Copy(self.copy_threads);
                    self.copy_threads += 1;
                    self.begin(actor, Frame::Copy(way));
                }
                Effect::WakeWatcher => self.wake(Actor::Watcher),
                Effect::WakeFlusher => self.wake_flusher(),
                // The actor that receives the bytes discards them.
                Effect::Discard(_) => {}
            }
        }
    }

    pub(super) fn wake_flusher(&mut self) {
        if self.tasks.contains_key(&Actor::Flusher) {
            self.wake(Actor::Flusher);
        } else {
            self.begin(Actor::Flusher, Frame::Flusher);
        }
    }

    /// Continues with `frame` after `first`, at once.
    pub(super) fn after(&mut self, actor: Actor, task: &mut Task, frame: Frame, first: Option<Frame>) {
        task.stack.push(frame);
        task.stack.extend(first);
        self.schedule(actor);
    }

    /// Continues with the frame below, if there is one.
    pub(super) fn back(&mut self, actor: Actor, task: &Task) {
        if !task.stack.is_empty() {
            self.schedule(actor);
        }
    }

    pub(super) fn flush_as(&mut self, task: &mut Task, flush: Flush) {
        match flush {
            Flush::Now => task.stack.push(Frame::Flush),
            Flush::Later => {}
            Flush::WakeFlusher => self.wake_flusher(),
        }
    }

    /// Borrows a free lane for a kind of copy.
    pub(super) fn try_acquire(&mut self, way: CopyLine) -> Option<usize> {
        let lane = lanes(way).find(|&lane| !self.to_acquired[lane])?;
        self.to_acquired[lane] = true;
        Some(lane)
    }

    pub(super) fn give_back(&mut self, lane: usize) {
        self.to_acquired[lane] = false;
        self.unblock(if lane < EAGER_LANES { Block::EagerLane } else { Block::AskedLane });
    }

    pub(super) fn run(&mut self, actor: Actor, task: &mut Task, frame: Frame) {
        match frame {
            Frame::Script => self.script(actor, task),
            Frame::Do(op) => self.call(actor, task, op),
            Frame::Failed(error) => self.failed(actor, task, error),
            Frame::Flush => {
                if self.write_locked {
                    task.stack.push(Frame::Flush);
                    return self.block(actor, Block::WriteLock);
                }
                self.write_locked = true;
                let rounds = if self.unsent.is_empty() { 1 } else { 2 };
                self.after(actor, task, Frame::Write { rounds }, None);
            }
            Frame::FlushWithoutWaiting => self.flush_without_waiting(actor, task),
            Frame::Write { rounds } => self.write(actor, task, rounds),
            Frame::Wait(id) => self.wait(actor, task, id),
            Frame::Read { waiter, fill } => self.read(actor, task, waiter, fill),
            Frame::HandOver => {
                self.machine.hand_over();
                self.act();
                self.back(actor, task);
            }
            Frame::Land { transfer, bytes, begun, half } => self.land(actor, task, transfer, bytes, begun, half),
            Frame::Asked { positions, test, left } => self.asked(actor, task, positions, test, left),
            Frame::Landed { copies, at, positions } => self.landed(actor, task, copies, at, positions),
            Frame::Ended => self.ended(actor, task),
            Frame::LetGo { left } => self.let_go(actor, task, left),
            Frame::Refused(false_claim) => self.refused(actor, task, false_claim),
            Frame::Flusher => self.flusher(actor, task),
            Frame::Watcher => self.watcher(actor, task),
            Frame::Doze => {
                task.stack.push(Frame::Watcher);
                self.park(actor, Some(self.queue.now() + us(POLL_INTERVAL)));
            }
            Frame::Control => self.control(actor, task),
            Frame::Bulk(lane) => self.bulk(actor, task, lane),
            Frame::BulkRead { lane, bytes } => self.bulk_read(actor, task, lane, bytes),
            Frame::Copy(way) => self.copies(actor, task, way),
            Frame::CopyLane { way, job } => match self.try_acquire(way) {
                None if !self.cut => {
                    task.stack.push(Frame::CopyLane { way, job });
                    self.block(actor, free(way));
                }
                lane => {
                    self.machine.has_lane(way);
                    self.act();
                    let lane = lane.unwrap_or(usize::MAX);
                    let first = (way == CopyLine::Eager).then_some(Frame::FlushWithoutWaiting);
                    self.after(actor, task, Frame::CopySend { way, job, lane }, first);
                }
            },
            Frame::CopySend { way, job, lane } => {
                let bytes = match &job.bytes {
                    Bytes::Host(range) => Bytes::Host(*range),
                    Bytes::Staged(bytes) => Bytes::Staged(bytes.clone()),
                    Bytes::Gone(len) => Bytes::Gone(*len),
                };
                let send = Frame::Send { lane, transfer: job.transfer, bytes, at: 0 };
                self.after(actor, task, Frame::CopyEnd { way, job, lane }, Some(send));
            }
            Frame::CopyEnd { way, job, lane } => {
                if lane < LANES {
                    self.give_back(lane);
                }
                let outcome = self.machine.check();
                self.machine.sent(way, job, outcome);
                self.act();
                self.after(actor, task, Frame::Copy(way), None);
            }
            Frame::Send { lane, transfer, bytes, at } => self.send(actor, task, lane, transfer, bytes, at),
            Frame::Return(lane) => {
                self.give_back(lane);
                self.back(actor, task);
            }
            Frame::Turn(connection, op) => {
                self.turned(actor);
                self.on(connection, |world| world.begin(actor, Frame::Do(op)));
            }
            Frame::Commands | Frame::Discards | Frame::Stream | Frame::Peer => {}
        }
    }

    /// Sends the rest of the taken bytes, then bytes that were appended.
    fn write(&mut self, actor: Actor, task: &mut Task, rounds: u32) {
        if rounds == 0 || !self.take_unsent() {
            self.write_locked = false;
            self.unblock(Block::WriteLock);
            return self.back(actor, task);
        }
        if self.cut {
            self.write_locked = false;
            self.unblock(Block::WriteLock);
            self.lose("sending commands failed");
            return self.back(actor, task);
        }
        if !self.send_commands() {
            task.stack.push(Frame::Write { rounds });
            return self.block(actor, Block::CommandRoom);
        }
        let rounds = rounds - u32::from(self.unsent.is_empty());
        self.after(actor, task, Frame::Write { rounds }, None);
    }

    fn flush_without_waiting(&mut self, actor: Actor, task: &mut Task) {
        let mut left = self.write_locked;
        while !left && !self.cut && self.take_unsent() {
            left = !self.send_commands();
        }
        if left {
            let now = self.now();
            self.machine.leave_to_flusher(now);
            self.act();
        }
        self.back(actor, task);
    }

    /// Whether there are bytes to send, after taking new frames if all earlier bytes were sent.
    fn take_unsent(&mut self) -> bool {
        let here = &mut **self;
        !here.unsent.is_empty() || matches!(here.machine.take_frames(&mut here.unsent), Ok(true))
    }

    /// Sends as many bytes as the lane has room for. Returns `false` without room.
    fn send_commands(&mut self) -> bool {
        let n = self.command.space().min(self.unsent.len());
        if n == 0 {
            return false;
        }
        let bytes: Vec<u8> = self.unsent.drain(..n).collect();
        let Self { connections, at, random, queue, .. } = self;
        let arrives = connections[*at].command.put(random, queue.now(), bytes, n);
        self.arrive(arrives, Block::Commands);
        true
    }

    fn wait(&mut self, actor: Actor, task: &mut Task, id: WaitId) {
        match self.machine.turn(id) {
            WaitStep::Done(outcome) => {
                task.outcome = Some(outcome);
                self.back(actor, task);
            }
            WaitStep::Read => {
                task.stack.push(Frame::Wait(id));
                self.after(actor, task, Frame::HandOver, Some(Frame::Read { waiter: Some(id), fill: false }));
            }
            WaitStep::Sleep => {
                task.stack.push(Frame::Wait(id));
                self.park(actor, None);
            }
        }
    }

    /// Reads the bytes that have arrived on the event lane, if any.
    fn take_bytes(&mut self) -> bool {
        let now = self.queue.now();
        let here = &mut **self;
        super::lane::read(&mut here.events, now, &mut here.reader)
    }

    /// Handles one event, or reads. A waiter reads until it is done; other callers stop once all received events are
    /// handled.
    fn read(&mut self, actor: Actor, task: &mut Task, waiter: Option<WaitId>, fill: bool) {
        if fill {
            if self.take_bytes() {
                return self.after(actor, task, Frame::Read { waiter, fill: false }, None);
            }
            if self.cut {
                self.lose("the executor closed the connection");
                return self.back(actor, task);
            }
            task.stack.push(Frame::Read { waiter, fill });
            return self.block(actor, Block::Events);
        }
        if waiter.is_some_and(|id| self.machine.is_done(id)) {
            return self.back(actor, task);
        }
        let false_commands = self.executor.false_commands;
        let frame = match self.reader.take::<Event>() {
            Ok(frame) => frame.map(|frame| (frame.record, frame.payload.to_vec())),
            Err(error) if false_commands => {
                self.lose(error.cause());
                return self.back(actor, task);
            }
            Err(error) => return self.violation(format!("an event can't be read: {error:?}")),
        };
        match frame {
            // The watcher stops reading without waiting for more.
            None if waiter.is_none() => self.back(actor, task),
            None => self.after(actor, task, Frame::Read { waiter, fill: true }, None),
            Some((Event::Data { transfer }, bytes)) => {
                let land = Frame::Land { transfer: TransferId(transfer), bytes, begun: None, half: false };
                self.after(actor, task, Frame::Read { waiter, fill: false }, Some(land));
            }
            Some((event, payload)) => {
                if let Err(error) = self.machine.event(event, &payload, |error| error) {
                    self.lose(error.cause());
                }
                self.act();
                self.after(actor, task, Frame::Read { waiter, fill: false }, None);
            }
        }
    }

    fn flusher(&mut self, actor: Actor, task: &mut Task) {
        let now = self.now();
        let step = self.machine.flusher(now);
        let pause = match step {
            FlusherStep::End => return,
            FlusherStep::Park => {
                task.stack.push(Frame::Flusher);
                return self.park(actor, None);
            }
            FlusherStep::Flush(pause) => {
                task.stack.push(Frame::Flusher);
                task.stack.push(Frame::Flush);
                us(pause)
            }
            FlusherStep::Sleep(pause) => {
                task.stack.push(Frame::Flusher);
                us(pause)
            }
        };
        self.schedule_at(actor, self.queue.now() + pause);
    }

    fn watcher(&mut self, actor: Actor, task: &mut Task) {
        let step = self.machine.watcher();
        self.act();
        match step {
            WatchStep::End => {}
            WatchStep::Look => {
                task.stack.push(Frame::Doze);
                // Reads what has arrived, without waiting for more.
                if self.machine.try_read() {
                    self.take_bytes();
                    task.stack.extend([Frame::HandOver, Frame::Read { waiter: None, fill: false }]);
                }
                self.schedule(actor);
            }
            WatchStep::Read => {
                task.stack.extend([Frame::Watcher, Frame::HandOver]);
                self.after(actor, task, Frame::Read { waiter: None, fill: true }, None);
            }
            WatchStep::Park => {
                task.stack.push(Frame::Watcher);
                self.park(actor, None);
            }
        }
    }

    fn control(&mut self, actor: Actor, task: &mut Task) {
        let now = self.queue.now();
        let Some(transfer) = self.control.take(now) else {
            if self.cut {
                return self.lose("the executor closed the connection");
            }
            task.stack.push(Frame::Control);
            return self.block(actor, Block::Control);
        };
        // The queue of the transfer may have failed meanwhile; then no transfer begins.
        let _: Requested = self.machine.requested(transfer);
        self.act();
        self.after(actor, task, Frame::Control, None);
    }

    fn copies(&mut self, actor: Actor, task: &mut Task, way: CopyLine) {
        if self.machine.check().is_err() {
            return;
        }
        match self.machine.take_copy(way) {
            Some(job) => self.after(actor, task, Frame::CopyLane { way, job }, None),
            None => {
                task.stack.push(Frame::Copy(way));
                self.block(actor, jobs(way));
            }
        }
    }

    /// Sends the next piece of a transfer, with the memory's contents of that time.
    fn send(&mut self, actor: Actor, task: &mut Task, lane: usize, transfer: TransferId, bytes: Bytes, at: usize) {
        if self.cut || lane >= LANES {
            self.lose("sending failed");
            return self.back(actor, task);
        }
        let all = match &bytes {
            Bytes::Host(range) => self.read_host(*range).to_vec(),
            Bytes::Staged(bytes) => bytes.clone(),
            // The end of the transfer reports that its bytes are lost.
            Bytes::Gone(_) => Vec::new(),
        };
        if self.to[lane].space() == 0 {
            task.stack.push(Frame::Send { lane, transfer, bytes, at });
            return self.block(actor, Block::ToRoom);
        }
        let end = (at + PIECE).min(all.len());
        let chunk = Chunk { transfer, bytes: all[at..end].to_vec(), last: end == all.len() };
        let Self { connections, at: here, random, queue, .. } = self;
        let arrives = connections[*here].to[lane].put(random, queue.now(), chunk, end - at);
        self.arrive(arrives, Block::To);
        if end == all.len() {
            return self.back(actor, task);
        }
        self.after(actor, task, Frame::Send { lane, transfer, bytes, at: end }, None);
    }
}
