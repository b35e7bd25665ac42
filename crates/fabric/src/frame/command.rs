//! Commands of a command lane, and the credit that bounds them.
//!
//! A record has a fixed size and holds numbers only; bytes and text are the frame's payload. Devices are named by their
//! ordinal on the executor's node. The executor trusts no field: it checks devices, addresses and lengths against what
//! it owns.

use crate::peer::PeerId;
use rkyv::{Archive, Deserialize, Serialize};

/// Most bytes of commands that a program may have in flight.
pub const CREDIT_WINDOW: u64 = 1 << 20;
/// Least bytes of credit that an executor returns at once.
pub const CREDIT_STEP: u64 = CREDIT_WINDOW / 8;

/// Most bytes of unfinished operations that a program may have in the queues of one stream, each counted by
/// [`operation_cost`]. With this bound an executor that reads commands never waits for a stream, and other queues
/// continue.
pub const STREAM_WINDOW: u64 = 512 << 10;
/// Least bytes of a stream's credit that an executor returns at once.
pub const STREAM_STEP: u64 = STREAM_WINDOW / 4;
/// Most unfinished copies between devices of different processes that an executor pushes for a program, and as many that
/// it expects. This bounds the state at both ends; further copies block.
pub const EXCHANGE_WINDOW: u32 = 16 << 10;
/// Least finished copies that an executor reports at once.
pub const EXCHANGE_STEP: u32 = EXCHANGE_WINDOW / 8;
/// The cost of the smallest operation.
const OPERATION_COST_MIN: u64 = 1 << 10;

/// Returns the cost in its stream's window of an operation with a frame of this length.
pub fn operation_cost(frame: usize) -> u64 {
    (frame as u64).max(OPERATION_COST_MIN)
}

/// A program's command to an executor. Operations of one queue are numbered from 1.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// The first command. Payload: the program, see [`super::encode_program`].
    Start {
        /// The ticket of the reply.
        ticket: u64,
        /// Whether every launch and copy is reported.
        trace: bool,
        /// See [`crate::ProgramSpec::emulate_gpu`].
        emulate_gpu: bool,
    },
    /// Starts a device whose memory is in this range, which no other device of the session uses. With length 0 the executor
    /// chooses the range. Reply: first address and length of the range.
    Open { device: u32, ticket: u64, start: u64, len: u64 },
    /// Ends a device. Reply: no value.
    Close { device: u32, ticket: u64 },
    /// Maps memory at a range. With a ticket the executor replies, and a failure concerns this range only. With ticket 0 it
    /// does not reply, and a failure is the device's.
    Map { device: u32, ticket: u64, start: u64, len: u64 },
    /// Operation: frees memory.
    Unmap { device: u32, queue: u32, start: u64, len: u64 },
    /// Operation: writes the payload to `dst`.
    Store { device: u32, queue: u32, dst: u64 },
    /// Operation: receives a transfer from a bulk lane.
    CopyIn {
        device: u32,
        queue: u32,
        dst: u64,
        len: u64,
        transfer: u64,
        /// Whether the bytes are sent without waiting for [`crate::ControlMessage::Ready`].
        eager: bool,
    },
    /// Operation: sends bytes, in [`super::Event::Data`] or as a transfer on a bulk lane.
    CopyOut { device: u32, queue: u32, src: u64, len: u64, transfer: u64 },
    /// Operation: copies within the device.
    Copy { device: u32, queue: u32, dst: u64, src: u64, len: u64 },
    /// A piece of GPU code whose whole encoding has `len` bytes. Payload: the bytes from `offset`. Pieces come in order, one
    /// image after the other. An image precedes the opening of a device that runs it, or the naming of its first function
    /// or variable.
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
    /// Operation: waits for operation `seq` of another queue of the device.
    WaitQueue { device: u32, queue: u32, other: u32, seq: u64 },
    /// Replies once all positions in the payload are reached.
    Wait { ticket: u64 },
    /// Reply: whether all positions in the payload are reached.
    Test { ticket: u64 },
    /// Reply: bytes that can still be mapped.
    Memory { device: u32, ticket: u64 },
    /// Reply: the node's clock in nanoseconds.
    Clock { ticket: u64 },
    /// Reply: no value; its payload holds [`crate::stats::Counters`].
    Stats { ticket: u64 },
    /// Operation: sends bytes to another device of the session once the target is ready. It is done once they have landed.
    /// Payload: [`crate::route::Directions`]; empty if the target is the program.
    Push { device: u32, queue: u32, src: u64, len: u64, transfer: u64, to: PeerId },
    /// Receives a pushed transfer once the device's synchronous queue has reached `seq`.
    Expect { device: u32, dst: u64, len: u64, transfer: u64, from: PeerId, seq: u64 },
    /// Operation of the source: copies to another device of the same executor. It is ordered after `seq` of the target's
    /// synchronous queue, as a [`Command::Push`] with a [`Command::Expect`] is.
    Relay { device: u32, queue: u32, src: u64, target: u32, dst: u64, len: u64, seq: u64 },
}

impl Command {
    /// Returns the device and the queue of an operation, or `None` for other commands.
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
