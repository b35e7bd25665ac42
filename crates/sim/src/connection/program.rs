//! Threads of the program, and their memory.

use super::actor::Actor;
use super::frames::Frame;
use super::script::{CELL, DEVICE_BASE, Op, SMALL};
use super::world::{Task, World};
use accord_client::connection::{Bytes, CopyIn, CopyOut, Flush, Landing, MayStall, Room, Want, Way};
use accord_device::image::Image;
use accord_fabric::frame::{Command, Position};
use accord_types::{DevicePtr, Error, ErrorCode, HostRange, QueueId, Result, TransferId};

/// Bytes of GPU code.
const IMAGE: usize = 60_000;

fn thread_of(actor: Actor) -> usize {
    match actor {
        Actor::Program(thread) => thread,
        _ => 0,
    }
}

/// Where a thread's cells are.
fn cells(thread: usize, cell: usize, count: usize) -> HostRange {
    HostRange { start: ((thread + 1) << 20) + cell * CELL, len: count * CELL }
}

fn device_cells(cell: usize) -> DevicePtr {
    DevicePtr(DEVICE_BASE + (cell * CELL) as u64)
}

/// As it is on the way.
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

    /// The program's memory, as threads of the connection read it.
    pub(super) fn host(&self, range: HostRange) -> &[u8] {
        let (thread, bytes) = Self::place(range);
        &self.threads[thread].memory[bytes]
    }

    /// As they write it.
    pub(super) fn write_host(&mut self, range: HostRange, bytes: &[u8]) {
        let (thread, place) = Self::place(range);
        if self.threads[thread].closed {
            self.violation(format!("{range:?} is written after the end of the device"));
        }
        self.threads[thread].memory[place].copy_from_slice(bytes);
    }

    /// Ends a thread of the program.
    pub(super) fn over(&mut self, actor: Actor, error: Option<Error>) {
        let now = self.queue.now();
        let thread = &mut self.threads[thread_of(actor)];
        thread.ended = Some(now);
        thread.closed = error.is_none();
        thread.error = error;
    }

    /// The next call.
    pub(super) fn script(&mut self, actor: Actor, task: &mut Task) {
        if let Some(Err(error)) = task.outcome.take() {
            return self.over(actor, Some(error));
        }
        let thread = &mut self.threads[thread_of(actor)];
        let Some(op) = thread.ops.get(thread.next).cloned() else { return self.over(actor, None) };
        thread.next += 1;
        self.after(actor, task, Frame::Do(op), None);
    }

    pub(super) fn call(&mut self, actor: Actor, task: &mut Task, op: Op) {
        let called = match task.outcome.take() {
            Some(Err(error)) => Err(error),
            _ => self.try_call(actor, task, op),
        };
        if let Err(error) = called {
            task.stack.clear();
            self.over(actor, Some(error));
        }
    }

    fn try_call(&mut self, actor: Actor, task: &mut Task, op: Op) -> Result<()> {
        let index = thread_of(actor);
        let (device, now) = (Self::device(index), self.now());
        match op {
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
                // What has crashed leaves its work undone, and the program hears of it when it uses the queue.
                if found != [expected; CELL] && !self.executor.has_crashed(device) {
                    let why =
                        format!("call {}: cell {host} has {found:?} instead of {expected}", self.threads[index].next);
                    self.violation(why);
                }
                self.after(actor, task, Frame::Script, None);
                return Ok(());
            }
            Op::Wait(ref queues) => return self.ask(actor, task, queues, false),
            Op::Test(queue) => return self.ask(actor, task, &[queue], true),
            Op::Lie(lie) => {
                task.stack.push(Frame::Script);
                return self.lie(actor, task, device, lie);
            }
            Op::Shutdown => return self.shutdown(actor, task),
            _ => {}
        }
        let queue = match op {
            Op::Kernel { queue, .. }
            | Op::CopyIn { queue, .. }
            | Op::CopyOut { queue, .. }
            | Op::WaitQueue { queue, .. } => Some((device, queue)),
            _ => None,
        };
        if let Room::After(want) = self.machine.room(queue)? {
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
                self.transfers += 1;
                let copy = CopyOut {
                    device,
                    queue,
                    src: device_cells(from),
                    len: dst.len as u64,
                    dst,
                    transfer: TransferId(self.transfers),
                    landing: Landing::Write,
                };
                self.machine.copy_out(copy, now)?;
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

    fn copy_in(
        &mut self,
        actor: Actor,
        task: &mut Task,
        queue: QueueId,
        dst: DevicePtr,
        src: HostRange,
        at_once: bool,
    ) -> Result<()> {
        let (device, now) = (Self::device(thread_of(actor)), self.now());
        if src.len <= SMALL && (at_once || !self.machine.is_landing(device, queue, src)?) {
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
            && let Some(lane) = self.try_lend(Way::Eager)
        {
            let send = Frame::Send { lane, transfer, bytes: Bytes::Host(src), at: 0 };
            task.stack.extend([Frame::Return(lane), send]);
            self.after(actor, task, Frame::FlushWithoutWaiting, None);
            return Ok(());
        }
        let stage = at_once && src.len <= 4 * CELL;
        let bytes = if stage { Bytes::Staged(self.host(src).to_vec()) } else { Bytes::Host(src) };
        let sent = (at_once && !stage).then(|| self.machine.wait(Want::Sent(transfer), actor));
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
        let (device, now) = (Self::device(thread_of(actor)), self.now());
        let command = |ticket| if test { Command::Test { ticket } } else { Command::Wait { ticket } };
        let asked = self.machine.ask_positions(device, queues, command, actor, now)?;
        match asked {
            None => task.stack.push(Frame::Script),
            Some((id, positions)) => {
                task.stack.extend([
                    Frame::Asked { positions: positions.to_vec(), test },
                    Frame::Wait(id),
                    Frame::Flush,
                ]);
            }
        }
        self.schedule(actor);
        Ok(())
    }

    pub(super) fn asked(&mut self, actor: Actor, task: &mut Task, positions: Vec<Position>, test: bool) {
        match task.outcome.take() {
            Some(Ok(reply)) if test && reply.value == 0 => self.after(actor, task, Frame::Script, None),
            Some(Ok(_)) => match self.machine.reach(&positions) {
                Ok(copies) => self.after(actor, task, Frame::Landed { copies, at: 0, positions }, None),
                Err(error) => self.over(actor, Some(error)),
            },
            Some(Err(error)) => self.over(actor, Some(error)),
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
            let first = self.machine.is_open(copy).then(|| Frame::Wait(self.machine.wait(Want::Landed(copy), actor)));
            self.act();
            return self.after(actor, task, Frame::Landed { copies, at: at + 1, positions }, first);
        }
        task.outcome = None;
        match self.machine.outcome(&copies).and_then(|()| self.machine.landed_until(&positions)) {
            Ok(()) => self.after(actor, task, Frame::Script, None),
            Err(error) => self.over(actor, Some(error)),
        }
    }

    fn shutdown(&mut self, actor: Actor, task: &mut Task) -> Result<()> {
        let device = Self::device(thread_of(actor));
        let over = Error::new(ErrorCode::DeviceShutdown, "the device was shut down");
        let copies = self.machine.close(device, &over);
        let id = self.machine.ask(|ticket| Command::Close { device, ticket }, &[], actor, self.now())?;
        self.act();
        task.stack.extend([Frame::Ended { copies, at: 0 }, Frame::Wait(id)]);
        self.after(actor, task, Frame::Flush, None);
        Ok(())
    }

    /// What was being written when the device was ended has to come to its end.
    pub(super) fn ended(&mut self, actor: Actor, task: &mut Task, copies: Vec<TransferId>, at: usize) {
        if let Some(Err(error)) = task.outcome.take()
            && self.machine.check().is_ok()
        {
            self.violation(format!("a device does not end: {error:?}"));
        }
        let Some(&copy) = copies.get(at) else { return self.after(actor, task, Frame::Over, None) };
        let first = self.machine.is_open(copy).then(|| Frame::Wait(self.machine.wait(Want::Landed(copy), actor)));
        self.act();
        self.after(actor, task, Frame::Ended { copies, at: at + 1 }, first);
    }
}
