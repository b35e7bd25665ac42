//! False commands of a program. The executor refuses them, and all else continues as if they were never sent. Bytes
//! that break the protocol end the session, which every end notices.

use super::actor::Actor;
use super::frames::Frame;
use super::op::FalseCommand;
use super::script::{CELL, DEVICE_BASE};
use super::world::{Task, World};
use accord_client::connection::{Flush, MayStall};
use accord_fabric::frame::{self, Command, Position};
use accord_fabric::peer::PeerId;
use accord_types::{DevicePtr, Error, QueueId, Result, Seq};

/// The first queue that is used for false commands only.
const QUEUES: u32 = 1_000;
/// A device that the lease does not include.
const NO_DEVICE: u32 = 77;
/// More bytes than exist.
const HUGE: u64 = 1 << 60;
/// A position beyond every enqueued operation.
const NEVER: u64 = 1 << 40;

impl World {
    /// Sends one false command.
    pub(super) fn false_claim(
        &mut self,
        actor: Actor,
        task: &mut Task,
        device: u32,
        false_claim: FalseCommand,
    ) -> Result<()> {
        self.transfers += 1;
        match false_claim {
            FalseCommand::Operation(which) => {
                let queue = QueueId(QUEUES + which);
                let (command, payload) = operation(which, device, queue.0, self.transfers);
                // The queue fails with the first false operation.
                let now = self.now();
                let _ = self.machine.operate((device, queue), MayStall::No, &command, &[payload], now);
                let flush = self.machine.flush_after(queue);
                self.flush_as(task, flush);
                self.schedule(actor);
            }
            FalseCommand::Copy => {
                let (queue, dst) = (QueueId(QUEUES + FalseCommand::OPERATIONS), DevicePtr(DEVICE_BASE - CELL as u64));
                let src = Self::read_only(actor);
                // The queue fails with the first false operation.
                if self.copy_in(actor, task, queue, dst, src, true).is_err() {
                    self.schedule(actor);
                }
            }
            FalseCommand::Question(which) => {
                let mut positions = Vec::new();
                frame::put_position(&mut positions, Position { device, queue: QueueId(3), seq: Seq(NEVER) });
                let payload: &[u8] = if which < 2 { &positions } else { &[] };
                let now = self.now();
                let id = self.machine.ask(|ticket| question(which, device, ticket), &[payload], actor, now)?;
                task.stack.extend([Frame::Refused(false_claim), Frame::Wait(id), Frame::Flush]);
                self.schedule(actor);
            }
            FalseCommand::Protocol(which) => {
                let (command, payload) = breach(which, device);
                let now = self.now();
                self.machine.put(&command, &[payload], now)?;
                self.broken = true;
                self.flush_as(task, Flush::Now);
                self.schedule(actor);
            }
            FalseCommand::Garbage => {
                // Sent between two frames, where the executor certainly detects it.
                if self.unsent.is_empty() && !self.write_locked {
                    let garbage: Vec<_> = (0..512).flat_map(|_| self.random.number().to_le_bytes()).collect();
                    self.unsent.extend(garbage);
                    self.broken = true;
                }
                self.flush_as(task, Flush::Now);
                self.schedule(actor);
            }
        }
        Ok(())
    }

    /// Handles the reply to a false command.
    pub(super) fn refused(&mut self, actor: Actor, task: &mut Task, false_claim: FalseCommand) {
        if let Some(Ok(reply)) = task.outcome.take() {
            return self.violation(format!("{false_claim:?} is answered with {reply:?}"));
        }
        self.back(actor, task);
    }

    /// Ends the session of a program that broke the protocol, with a message.
    pub(super) fn end_session(&mut self, error: &Error) {
        if !self.broken {
            return self.violation(format!("the executor ends the session: {error:?}"));
        }
        self.send_error(error, |failure| frame::Event::Failed { device: u32::MAX, queue: u32::MAX, failure });
        self.cut_now();
    }
}

/// Returns an operation that is refused.
fn operation(which: u32, device: u32, queue: u32, transfer: u64) -> (Command, &'static [u8]) {
    let (src, dst, len) = (DEVICE_BASE, DEVICE_BASE, HUGE);
    let launch = |function, slots| Command::Launch {
        device,
        queue,
        function,
        gangs: 1,
        workers: 1,
        vector: 1,
        slots,
        float_control: 0,
    };
    let to = PeerId::PROGRAM;
    match which % FalseCommand::OPERATIONS {
        0 => (Command::Store { device, queue, dst: DEVICE_BASE - 4 }, &[9; 8]),
        1 => (Command::Store { device, queue, dst: u64::MAX }, &[9; 8]),
        2 => (Command::CopyOut { device, queue, src, len, transfer }, &[]),
        3 => (Command::CopyIn { device, queue, dst, len, transfer, eager: true }, &[]),
        4 => (Command::CopyIn { device, queue, dst, len, transfer, eager: false }, &[]),
        5 => (Command::Copy { device, queue, dst, src, len }, &[]),
        6 => (launch(99, 0), &[]),
        7 => (launch(1, 1_000), &[]),
        8 => (Command::Unmap { device, queue, start: DEVICE_BASE, len: 16 }, &[]),
        9 => (Command::WaitQueue { device, queue, other: 3, seq: NEVER }, &[]),
        10 => (Command::Relay { device, queue, src, target: NO_DEVICE, dst, len: 16, seq: 0 }, &[]),
        11 => (Command::Relay { device, queue, src, target: device, dst, len: 16, seq: NEVER }, &[]),
        _ => (Command::Push { device, queue, src, len, transfer, to }, &[]),
    }
}

/// Returns a query that is refused.
fn question(which: u32, device: u32, ticket: u64) -> Command {
    match which % FalseCommand::QUESTIONS {
        0 => Command::Wait { ticket },
        1 => Command::Test { ticket },
        2 => Command::Open { device: NO_DEVICE, ticket, start: 0, len: 0 },
        3 => Command::Memory { device: NO_DEVICE, ticket },
        4 => Command::Map { device, ticket, start: DEVICE_BASE - 16, len: 32 },
        5 => Command::Map { device, ticket, start: DEVICE_BASE, len: HUGE },
        _ => Command::Map { device: NO_DEVICE, ticket, start: DEVICE_BASE, len: 16 },
    }
}

/// Returns a command that ends the session.
fn breach(which: u32, device: u32) -> (Command, &'static [u8]) {
    match which % FalseCommand::BREACHES {
        0 => (Command::Start { ticket: 0, trace: false, emulate_gpu: false }, &[]),
        1 => (Command::Store { device, queue: 0x8000_0000, dst: DEVICE_BASE }, &[1]),
        2 => (Command::Store { device, queue: QueueId::INCOMING.0, dst: DEVICE_BASE }, &[1]),
        3 => (Command::Image { offset: 5, len: 9 }, &[1]),
        4 => (Command::Function { device, function: 2, offset: 0, executable: true }, &[7]),
        _ => (Command::Wait { ticket: 0 }, &[1, 2, 3]),
    }
}
