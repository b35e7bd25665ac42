//! Threads of the program, and their memory.

use super::actor::Actor;
use super::frames::Frame;
use super::op::Op;
use super::script::{CELL, DEVICE_BASE, READ_ONLY, SMALL, end};
use super::world::{HEARS_WITHIN, Task, World};
use accord_client::connection::{
    AppendDecision, AwaitedEvent, Bytes, Changed, Completion, CopyIn, CopyLine, CopyOut, Flush, MayStall, Need, Reply,
    Unchanged, WaitId,
};
use accord_device::image::Image;
use accord_fabric::frame::{Command, Position};
use accord_runtime::ports::Part;
use accord_types::{DevicePtr, Error, ErrorCode, HostRange, QueueId, Result, TransferId};

/// Bytes of GPU code.
const IMAGE: usize = 60_000;

fn thread_of(actor: Actor) -> usize {
    match actor {
        Actor::Program(thread) => thread,
        _ => 0,
    }
}

/// Returns the address range of a thread's cells.
fn cells(thread: usize, cell: usize, count: usize) -> HostRange {
    HostRange { start: ((thread + 1) << 20) + cell * CELL, len: count * CELL }
}

fn device_cells(cell: usize) -> DevicePtr {
    DevicePtr(DEVICE_BASE + (cell * CELL) as u64)
}

/// Returns the encoded GPU code.
fn image() -> Result<Vec<u8>> {
    let mut text = b".version 6.0 //".to_vec();
    text.resize(IMAGE, b'.');
    Image { objects: vec![text], functions: Vec::new(), variables: Vec::new() }.encode()
}

impl World {
    fn place(range: HostRange) -> (usize, std::ops::Range<usize>) {
        let start = range.start & 0xf_ffff;
        ((range.start >> 20) - 1, start..start + range.len)
    }

    /// Returns the program's memory, for its own threads.
    pub(super) fn host(&self, range: HostRange) -> &[u8] {
        let (thread, bytes) = Self::place(range);
        &self.threads[thread].memory[bytes]
    }

    /// Reads the program's memory as threads of the connection do.
    pub(super) fn read_host(&mut self, range: HostRange) -> &[u8] {
        if self.threads[Self::place(range).0].closed {
            self.violation(format!("{range:?} is read after the end of the device"));
        }
        self.host(range)
    }

    /// Writes the program's memory as threads of the connection do.
    pub(super) fn write_host(&mut self, range: HostRange, bytes: &[u8]) {
        let (thread, place) = Self::place(range);
        if self.threads[thread].closed {
            self.violation(format!("{range:?} is written after the end of the device"));
        }
        self.threads[thread].memory[place].copy_from_slice(bytes);
    }

    /// Handles a failed call: the program shuts its devices down and reuses its memory.
    pub(super) fn failed(&mut self, actor: Actor, task: &mut Task, error: Error) {
        self.hears(thread_of(actor));
        let thread = &mut self.threads[thread_of(actor)];
        // After a loss, further calls may fail.
        if thread.error.is_none() {
            thread.error = Some(error);
            thread.ops.truncate(thread.next);
            thread.ops.extend(end(thread.devices.len()));
        }
        task.stack.clear();
        self.after(actor, task, Frame::Script, None);
    }

    /// Ends a thread of the program.
    fn over(&mut self, actor: Actor) {
        self.hears(thread_of(actor));
        let thread = &mut self.threads[thread_of(actor)];
        (thread.ended, thread.closed) = (true, true);
    }

    /// Checks that a loss was noticed in time.
    fn hears(&mut self, index: usize) {
        let (now, thread) = (self.queue.now(), &self.threads[index]);
        if let Some(lost) = self.connections[thread.devices[thread.on].0].lost_at
            && now > lost.max(thread.started_last) + HEARS_WITHIN + self.stopped
        {
            self.violation(format!("thread {index} heard of a loss at {lost} us after {now} us only"));
        }
    }

    /// Starts the next call.
    pub(super) fn script(&mut self, actor: Actor, task: &mut Task) {
        if let Some(Err(error)) = task.outcome.take() {
            return self.failed(actor, task, error);
        }
        let thread = &mut self.threads[thread_of(actor)];
        let Some(op) = thread.ops.get(thread.next).cloned() else { return self.over(actor) };
        thread.next += 1;
        self.after(actor, task, Frame::Do(op), None);
    }

    pub(super) fn call(&mut self, actor: Actor, task: &mut Task, op: Op) {
        let called = match task.outcome.take() {
            Some(Err(error)) => Err(error),
            _ => self.try_call(actor, task, op),
        };
        if let Err(error) = called {
            self.failed(actor, task, error);
        }
    }

    fn try_call(&mut self, actor: Actor, task: &mut Task, op: Op) -> Result<()> {
        let index = thread_of(actor);
        let (device, now) = (self.device(index), self.now());
        match op {
            Op::Switch(on) => {
                self.turn(index, on);
                let connection = self.threads[index].devices[on].0;
                self.on(connection, |world| world.begin(actor, Frame::Script));
                return Ok(());
            }
            Op::HasFailed => {
                if !self.has_crashed(index) {
                    self.violation("a comparison does not say that it differs".to_owned());
                }
                self.after(actor, task, Frame::Script, None);
                return Ok(());
            }
            Op::Between { queue, device: from, to, at, cells } => {
                // If the source queue can't push, the target must not be ordered to wait.
                self.machine.last(device, queue)?;
                self.transfers += 1;
                let (source, transfer) = (self.threads[index].on, TransferId(self.transfers));
                let expect = Op::Expect { source, queue, device: from, to, at, cells, transfer };
                self.turn(index, to);
                let connection = self.threads[index].devices[to].0;
                self.after(actor, task, Frame::Turn(connection, expect), None);
                return Ok(());
            }
            Op::Pause(time) => {
                self.threads[index].started_last = self.queue.now() + time;
                task.stack.push(Frame::Script);
                self.schedule_at(actor, self.queue.now() + time);
                return Ok(());
            }
            Op::HostWrite { host, value } => {
                self.threads[index].memory[host * CELL..][..CELL].fill(value);
                self.after(actor, task, Frame::Script, None);
                return Ok(());
            }
            Op::Check { host, expected } => {
                let found = self.host(cells(index, host, 1));
                // A crashed device leaves operations undone, and the program learns of it when it uses the queue.
                if found != [expected; CELL] && !self.has_crashed(index) {
                    let why =
                        format!("call {}: cell {host} has {found:?} instead of {expected}", self.threads[index].next);
                    self.violation(why);
                }
                self.after(actor, task, Frame::Script, None);
                return Ok(());
            }
            Op::Wait(ref queues) => return self.ask(actor, task, queues, false),
            Op::Test(queue) => return self.ask(actor, task, &[queue], true),
            Op::Lie(false_claim) => {
                task.stack.push(Frame::Script);
                return self.false_claim(actor, task, device, false_claim);
            }
            Op::Shutdown => return self.shutdown(actor, task),
            _ => {}
        }
        let need = match op {
            Op::Kernel { queue, .. }
            | Op::CopyIn { queue, .. }
            | Op::CopyOut { queue, .. }
            | Op::CopyChanged { queue, .. }
            | Op::Compare { queue, .. }
            | Op::WaitQueue { queue, .. } => Need::Operation(device, queue),
            Op::Push { queue, .. } => Need::Push(device, queue),
            Op::Expect { .. } => Need::Expect,
            _ => Need::Command,
        };
        if let AppendDecision::After(want) = self.machine.space(need)? {
            let id = self.machine.wait(want, actor);
            self.act();
            task.stack.push(Frame::Do(op));
            self.after(actor, task, Frame::Wait(id), Some(Frame::Flush));
            return Ok(());
        }
        task.stack.push(Frame::Script);
        let flush = match op {
            Op::Kernel { queue, cell, from, salt } => {
                let number = |index: usize| u32::try_from(index).unwrap_or(0);
                let command = Command::Launch {
                    device,
                    queue: queue.0,
                    function: 1,
                    gangs: number(cell),
                    workers: number(from),
                    vector: salt.into(),
                    slots: 0,
                    float_control: 0,
                };
                self.machine.operate((device, queue), MayStall::Yes, &command, &[], now)?;
                self.machine.flush_after(queue)
            }
            Op::CopyIn { queue, device: to, host, cells: count, now: at_once } => {
                let src = cells(index, host, count);
                return self.copy_in(actor, task, queue, device_cells(to), src, at_once);
            }
            Op::CopyOut { queue, device: from, host, cells: count } => {
                let dst = cells(index, host, count);
                self.copy_out((device, queue), device_cells(from), dst.len, dst, Completion::Write)?
            }
            Op::CopyChanged { queue, device: from, places } => {
                let parts = places.iter().enumerate();
                let parts = parts.map(|(at, &(host, _))| Part { at: at * CELL, dst: cells(index, host, 1) });
                let sent: Vec<_> = places.iter().flat_map(|&(_, value)| [value; CELL]).collect();
                let changed = Changed::new(&sent, &parts.collect::<Vec<_>>(), None);
                let dst = changed.range();
                self.copy_out((device, queue), device_cells(from), sent.len(), dst, Completion::Changed(changed))?
            }
            Op::Compare { queue, device: from, host, cells: count, differs } => {
                self.threads[index].differs |= differs;
                let dst = cells(index, host, count);
                let compare = Completion::Compare(Unchanged::new(dst, dst));
                self.copy_out((device, queue), device_cells(from), dst.len, dst, compare)?
            }
            Op::Expect { source, queue, device: from, to, at, cells, transfer } => {
                let (connection, _) = self.threads[index].devices[source];
                let (dst, len) = (device_cells(at).0, (cells * CELL) as u64);
                let seq = self.machine.last(device, QueueId::SYNC)?.0;
                // Both ends name the current lane between them.
                let here = self.peer(self.at);
                let towards = self.on(connection, |world| world.machine.on_lane_to(here));
                let from_peer = self.peer(connection).on_lane(towards.lane());
                let command = Command::Expect { device, dst, len, transfer: transfer.0, from: from_peer, seq };
                self.machine.put(&command, &[], now)?;
                self.turn(index, source);
                task.stack.pop();
                let push = Op::Push { queue, device: from, to, cells, transfer, lane: towards.lane() };
                // The target waits for the push, so the commands are flushed first.
                self.after(actor, task, Frame::Turn(connection, push), Some(Frame::Flush));
                return Ok(());
            }
            Op::Push { queue, device: from, to, cells, transfer, lane } => {
                let (src, len, to) = (device_cells(from).0, (cells * CELL) as u64, self.threads[index].devices[to].0);
                let to = self.peer(to).on_lane(lane);
                let command = Command::Push { device, queue: queue.0, src, len, transfer: transfer.0, to };
                let pushed = self.machine.push((device, queue), &command, &[b"there h1"], now);
                if let Err(error) = pushed {
                    task.stack.pop();
                    task.stack.push(Frame::Failed(error));
                }
                self.machine.flush_after(queue)
            }
            Op::WaitQueue { queue, other } => {
                if self.machine.wait_queue(device, queue, other, now)? {
                    self.machine.flush_after(queue)
                } else {
                    Flush::Later
                }
            }
            Op::Image => {
                let image = image()?;
                let command = Command::Image { offset: 0, len: image.len() as u64 };
                self.machine.put(&command, &[&image], now)?;
                self.machine.flush_with_wait()
            }
            _ => Flush::Later,
        };
        self.flush_as(task, flush);
        self.schedule(actor);
        Ok(())
    }

    fn copy_out(
        &mut self,
        (device, queue): (u32, QueueId),
        src: DevicePtr,
        len: usize,
        dst: HostRange,
        completion: Completion,
    ) -> Result<Flush> {
        self.transfers += 1;
        let transfer = TransferId(self.transfers);
        let (copy, now) = (CopyOut { device, queue, src, len: len as u64, dst, transfer, completion }, self.now());
        self.machine.copy_out(copy, now)?;
        Ok(self.machine.flush_after(queue))
    }

    /// Switches a thread to another of its devices.
    fn turn(&mut self, index: usize, on: usize) {
        let now = self.queue.now();
        let thread = &mut self.threads[index];
        thread.on = on;
        thread.started_last = now;
    }

    /// Notes that the switch is complete. Flushing the previous connection may have taken long.
    pub(super) fn turned(&mut self, actor: Actor) {
        self.threads[thread_of(actor)].started_last = self.queue.now();
    }

    /// Returns read-only cells of the thread's memory.
    pub(super) fn read_only(actor: Actor) -> HostRange {
        cells(thread_of(actor), READ_ONLY, 3)
    }

    pub(super) fn copy_in(
        &mut self,
        actor: Actor,
        task: &mut Task,
        queue: QueueId,
        dst: DevicePtr,
        src: HostRange,
        at_once: bool,
    ) -> Result<()> {
        let (device, now) = (self.device(thread_of(actor)), self.now());
        if src.len <= SMALL && (at_once || !self.machine.is_being_written(device, queue, src)?) {
            let bytes = self.host(src).to_vec();
            let command = Command::Store { device, queue: queue.0, dst: dst.0 };
            self.machine.operate((device, queue), MayStall::No, &command, &[&bytes], now)?;
            let flush = self.machine.flush_after(queue);
            self.flush_as(task, flush);
            self.schedule(actor);
            return Ok(());
        }
        self.transfers += 1;
        let transfer = TransferId(self.transfers);
        let copy = CopyIn { device, queue, dst, src, now: at_once, transfer, streams: self.streams };
        let plan = self.machine.copy_in(&copy, now)?;
        if plan.direct
            && let Some(lane) = self.try_acquire(CopyLine::Eager)
        {
            let send = Frame::Send { lane, transfer, bytes: Bytes::Host(src), at: 0 };
            task.stack.extend([Frame::Return(lane), send]);
            self.after(actor, task, Frame::FlushWithoutWaiting, None);
            return Ok(());
        }
        let stage = at_once && src.len <= 4 * CELL;
        let bytes = if stage { Bytes::Staged(self.host(src).to_vec()) } else { Bytes::Host(src) };
        let sent = (at_once && !stage).then(|| self.machine.wait(AwaitedEvent::Sent(transfer), actor));
        self.machine.queue_copy(plan, bytes, sent);
        match sent {
            Some(id) => task.stack.extend([Frame::Wait(id), Frame::Flush]),
            None => {
                let flush = self.machine.flush_soon();
                self.flush_as(task, flush);
            }
        }
        self.act();
        self.schedule(actor);
        Ok(())
    }

    fn ask(&mut self, actor: Actor, task: &mut Task, queues: &[QueueId], test: bool) -> Result<()> {
        let (device, now) = (self.device(thread_of(actor)), self.now());
        let asked = if test {
            self.machine.test_positions(device, queues, actor, now)?
        } else {
            self.machine.await_positions(device, queues, actor, now)?
        };
        // A first reply starts the loop.
        task.outcome = Some(Ok(Reply { value: 1, ..Reply::default() }));
        let (positions, replies) = (asked.positions.to_vec(), asked.replies.to_vec());
        self.asked(actor, task, positions, test, replies);
        if asked.ahead && asked.replies.is_empty() {
            let flush = self.machine.flush_with_wait();
            self.flush_as(task, flush);
        }
        Ok(())
    }

    /// Handles a reply, and waits for the rest.
    pub(super) fn asked(
        &mut self,
        actor: Actor,
        task: &mut Task,
        positions: Vec<Position>,
        test: bool,
        mut left: Vec<WaitId>,
    ) {
        match task.outcome.take() {
            Some(Ok(reply)) if test && reply.value == 0 => self.after(actor, task, Frame::Script, None),
            Some(Ok(_)) if !left.is_empty() => {
                let next = Frame::Wait(left.remove(0));
                task.stack.extend([Frame::Asked { positions, test, left }, next, Frame::Flush]);
                self.schedule(actor);
            }
            Some(Ok(_)) => match self.machine.reach(&positions) {
                Ok(copies) => self.after(actor, task, Frame::Landed { copies, at: 0, positions }, None),
                Err(error) => self.failed(actor, task, error),
            },
            Some(Err(error)) => {
                left.into_iter().for_each(|id| self.machine.give_up(id));
                self.act();
                self.failed(actor, task, error);
            }
            None => self.violation("a wait has ended without an outcome".to_owned()),
        }
    }

    pub(super) fn landed(
        &mut self,
        actor: Actor,
        task: &mut Task,
        copies: Vec<TransferId>,
        at: usize,
        positions: Vec<Position>,
    ) {
        if let Some(&copy) = copies.get(at) {
            let first =
                self.machine.is_open(copy).then(|| Frame::Wait(self.machine.wait(AwaitedEvent::Landed(copy), actor)));
            self.act();
            return self.after(actor, task, Frame::Landed { copies, at: at + 1, positions }, first);
        }
        task.outcome = None;
        match self.machine.outcome(&copies).and_then(|()| self.machine.landed_until(&positions)) {
            Ok(()) => self.after(actor, task, Frame::Script, None),
            Err(error) => self.failed(actor, task, error),
        }
    }

    fn shutdown(&mut self, actor: Actor, task: &mut Task) -> Result<()> {
        let device = self.device(thread_of(actor));
        let over = Error::new(ErrorCode::DeviceShutdown, "the device was shut down");
        self.machine.close(device, &over);
        let now = self.now();
        let id = self.machine.ask(|ticket| Command::Close { device, ticket }, &[], actor, now)?;
        self.act();
        task.stack.extend([Frame::Ended, Frame::Wait(id)]);
        self.after(actor, task, Frame::Flush, None);
        Ok(())
    }

    /// Handles the reply to a device's shutdown: waits until no thread reads or writes the program's memory.
    pub(super) fn ended(&mut self, actor: Actor, task: &mut Task) {
        if let Some(Err(error)) = task.outcome.take()
            && self.machine.check().is_ok()
        {
            self.violation(format!("a device does not end: {error:?}"));
        }
        let device = self.device(thread_of(actor));
        let left = self.machine.wait_for_memory(device, None, &actor);
        self.act();
        self.let_go(actor, task, left);
    }

    /// Waits for each in turn, then continues with the next device.
    pub(super) fn let_go(&mut self, actor: Actor, task: &mut Task, mut left: Vec<WaitId>) {
        task.outcome = None;
        match left.pop() {
            Some(id) => self.after(actor, task, Frame::LetGo { left }, Some(Frame::Wait(id))),
            None => self.after(actor, task, Frame::Script, None),
        }
    }
}
