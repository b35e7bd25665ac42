//! Commands of a command lane, and how many of them may be under way.
//!
//! A record has a fixed size and holds numbers only; bytes and text are the frame's payload.
//! Devices are named by their ordinal on the executor's node. Nothing here is trusted:
//! whoever takes a record checks devices, addresses and lengths against what it owns.

use crate::peer::PeerId;
use rkyv::{Archive, Deserialize, Serialize};

/// Bytes of commands that a program may have in flight.
pub const CREDIT_WINDOW: u64 = 1 << 20;
/// An executor gives credit back in steps of at least this many bytes.
pub const CREDIT_STEP: u64 = CREDIT_WINDOW / 8;

/// Bytes of operations that a program may have put into the queues of one stream and that are not done, each counted by
/// [`operation_cost`]. So an executor that reads commands need never wait for a stream, and commands for other queues go on.
pub const STREAM_WINDOW: u64 = 512 << 10;
/// An executor gives credit for a stream back in steps of at least this many bytes.
pub const STREAM_STEP: u64 = STREAM_WINDOW / 4;
/// Copies between devices of different processes that a program may have an executor push, and as many that it may have it expect,
/// while they are not over. So what a target or a source remembers of them is bounded, and who wants more waits.
pub const EXCHANGE_WINDOW: u32 = 16 << 10;
/// An executor says that copies are over in steps of at least so many.
pub const EXCHANGE_STEP: u32 = EXCHANGE_WINDOW / 8;
/// What the smallest operation counts.
const OPERATION_COST_MIN: u64 = 1 << 10;

/// What an operation whose frame has this length counts in its stream's window.
pub fn operation_cost(frame: usize) -> u64 {
    (frame as u64).max(OPERATION_COST_MIN)
}

/// What a program asks of an executor. Operations that name a queue are counted there, from 1.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// First of all. Payload: the program, see [`super::encode_program`].
    Start {
        /// Sends a reply.
        ticket: u64,
        /// Report every launch and copy.
        trace: bool,
        /// See [`crate::ProgramSpec`].
        emulate_nvidia: bool,
    },
    /// Starts a device, whose memory is to lie in this range: no other device of the session has addresses there. Without a length it may lie
    /// anywhere. Reply: first address and length of the range that it has.
    Open { device: u32, ticket: u64, start: u64, len: u64 },
    /// Ends a device. Reply: nothing.
    Close { device: u32, ticket: u64 },
    /// Puts memory behind a range. With a ticket there is a reply, and a failure is that of this range only; with ticket 0
    /// there is none, and it is the device's.
    Map { device: u32, ticket: u64, start: u64, len: u64 },
    /// Operation: gives memory back.
    Unmap { device: u32, queue: u32, start: u64, len: u64 },
    /// Operation: writes the payload.
    Store { device: u32, queue: u32, dst: u64 },
    /// Operation: takes a transfer's bytes from a bulk lane.
    CopyIn {
        device: u32,
        queue: u32,
        dst: u64,
        len: u64,
        transfer: u64,
        /// The bytes come without being asked for by [`crate::ControlMessage::Ready`].
        eager: bool,
    },
    /// Operation: sends bytes, in [`super::Event::Data`] or as a transfer on a bulk lane.
    CopyOut { device: u32, queue: u32, src: u64, len: u64, transfer: u64 },
    /// Operation: copies within the device.
    Copy { device: u32, queue: u32, dst: u64, src: u64, len: u64 },
    /// A piece of GPU code, whose whole encoding is `len` bytes; pieces come in order, one image after the other, and
    /// before the device that is to run it is opened, or before its first function or variable is named. Payload: the
    /// bytes from `offset`.
    Image { offset: u64, len: u64 },
    /// Names a function for later launches. Payload: its texts, see [`super::encode_function`].
    Function { device: u32, function: u32, offset: u64, executable: bool },
    /// Operation: runs a region. Payload: one bit per slot in 64-bit words, then the argument block.
    Launch {
        device: u32,
        queue: u32,
        function: u32,
        gangs: u32,
        workers: u32,
        vector: u32,
        slots: u32,
        /// [`accord_types::FloatControl::to_wire`] of the thread that launches it.
        float_control: u32,
    },
    /// Reply: address of a global variable. Payload: its texts, see [`super::encode_global`].
    Global { device: u32, ticket: u64, offset: u64, len: u64, executable: bool },
    /// Operation: waits for another queue of the device.
    WaitQueue { device: u32, queue: u32, other: u32, seq: u64 },
    /// Reply once all positions in the payload are reached.
    Wait { ticket: u64 },
    /// Reply: whether all positions in the payload are reached.
    Test { ticket: u64 },
    /// Reply: bytes that can still be mapped.
    Memory { device: u32, ticket: u64 },
    /// Reply: the node's clock in nanoseconds.
    Clock { ticket: u64 },
    /// Reply: nothing; its payload holds [`crate::stats::Counters`].
    Stats { ticket: u64 },
    /// Operation: sends bytes to another device of the session once the other side is ready, and
    /// is done when they have landed. Payload: [`crate::route::Directions`]; empty for the program.
    Push { device: u32, queue: u32, src: u64, len: u64, transfer: u64, to: PeerId },
    /// Takes a pushed transfer after what stands in the synchronous queue up to `seq`.
    Expect { device: u32, dst: u64, len: u64, transfer: u64, from: PeerId, seq: u64 },
    /// Operation of the source: copies to another device of the same executor, in the order of
    /// [`Command::Push`] and [`Command::Expect`] with target's synchronous queue at `seq`.
    Relay { device: u32, queue: u32, src: u64, target: u32, dst: u64, len: u64, seq: u64 },
}

impl Command {
    /// The device and the queue, if it is an operation of one.
    pub fn operation(&self) -> Option<(u32, u32)> {
        match *self {
            Self::Unmap { device, queue, .. }
            | Self::Store { device, queue, .. }
            | Self::CopyIn { device, queue, .. }
            | Self::CopyOut { device, queue, .. }
            | Self::Copy { device, queue, .. }
            | Self::Launch { device, queue, .. }
            | Self::WaitQueue { device, queue, .. }
            | Self::Push { device, queue, .. }
            | Self::Relay { device, queue, .. } => Some((device, queue)),
            _ => None,
        }
    }
}
