//! What the core wants done, and what it wants said.

use crate::window::Step;
use accord_device::FunctionHandle;
use accord_device::image::Image;
use accord_fabric::ProgramSpec;
use accord_fabric::peer::PeerId;
use accord_fabric::route::Directions;
use accord_types::{
    AddressRange, ArgBlock, DevicePtr, Error, FloatControl, FunctionSpec, GlobalSpec, LaunchDims, QueueId, Result, Seq,
    StreamId, TransferId,
};

/// Queries of the core while it decides. An answer neither waits nor changes anything.
pub trait Facts {
    /// Whether a stream has got to a position.
    fn reached(&self, device: u32, stream: StreamId, seq: Seq) -> bool;

    /// Copies in whose bytes have not all come.
    fn incoming(&self) -> usize;
}

/// Work to do for a command, now. Requests that name an answer wait for it: the driver gives the core their outcome.
#[derive(Debug)]
pub enum Request<'a> {
    /// Nothing more.
    Done,
    /// Keeps the program; replies with the clock.
    Start { ticket: u64, program: Box<ProgramSpec> },
    /// Starts a device. Answer: [`super::ExecutorCore::opened`].
    Open { device: u32, ticket: u64, place: Option<AddressRange> },
    /// Ends a device, if it is there, and replies.
    Close { device: u32, ticket: u64 },
    /// Puts memory behind a range. Answer: [`super::ExecutorCore::mapped`].
    Map { device: u32, ticket: u64, start: DevicePtr, len: u64 },
    /// Keeps GPU code.
    Image(Image),
    /// Looks a function up. Answer: [`super::ExecutorCore::named`].
    Function { device: u32, function: u32, spec: Box<FunctionSpec> },
    /// Looks a variable up. Answer: [`super::ExecutorCore::found`].
    Global { device: u32, ticket: u64, spec: Box<GlobalSpec> },
    /// Makes the stream of a queue. Answer: [`super::ExecutorCore::stream_made`]; then the core is given the command again.
    MakeStream { device: u32, queue: QueueId },
    /// Puts an operation into a stream. Answer: [`super::ExecutorCore::put`]. Until then the command may be given again.
    Put { device: u32, stream: StreamId, operation: Operation<'a> },
    /// A copy in comes to nothing: its bytes, which come unasked, are thrown away.
    Discard { transfer: TransferId, len: u64 },
    /// A push comes to nothing: the other side is told.
    Abandon { push: Push<'a> },
    /// Replies once all positions are reached, see [`super::ExecutorCore::places`].
    Wait { ticket: u64 },
    /// Replies whether they are.
    Test { ticket: u64 },
    /// Replies with the bytes that can still be mapped, at most `left`.
    Memory { device: u32, ticket: u64, left: u64 },
    /// Replies with the clock.
    Clock { ticket: u64 },
    /// Replies with what was counted.
    Stats { ticket: u64 },
    /// Takes a pushed transfer, if there is a place for it.
    Expect { transfer: TransferId, from: PeerId, len: u64, place: Result<CopyTarget> },
}

/// An operation of a stream. Its ranges are the device's.
#[derive(Debug)]
pub enum Operation<'a> {
    /// Gives memory back.
    Unmap { start: DevicePtr, len: u64 },
    /// Writes bytes.
    Store { dst: DevicePtr, bytes: &'a [u8] },
    /// Takes a transfer from the program.
    CopyIn { dst: DevicePtr, len: u64, transfer: TransferId, eager: bool },
    /// Sends bytes to the program: in an event, or on a bulk lane.
    CopyOut { src: DevicePtr, len: u64, transfer: TransferId, in_event: bool },
    /// Copies within the device.
    Copy { dst: DevicePtr, src: DevicePtr, len: u64 },
    /// Runs a region.
    Launch { function: FunctionHandle, dims: LaunchDims, control: FloatControl, block: ArgBlock<'a> },
    /// Waits for another stream.
    WaitStream { other: StreamId, seq: Seq },
    /// Sends bytes to another device of the session.
    Push { src: DevicePtr, push: Push<'a> },
    /// Copies to another device of this executor.
    Relay { src: DevicePtr, len: u64, target: CopyTarget },
}

/// A transfer to another device of the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Push<'a> {
    /// Its number.
    pub transfer: TransferId,
    /// The receiver.
    pub to: PeerId,
    /// Bytes.
    pub len: u64,
    /// Directions to it; `None` for the program.
    pub to_executor: Option<Directions<'a>>,
}

/// The target of bytes of another device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyTarget {
    /// The device.
    pub device: u32,
    /// First byte.
    pub dst: DevicePtr,
    /// The position that precedes it there.
    pub after: Option<(StreamId, Seq)>,
}

/// A position in a stream that a wait is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPosition {
    /// The device.
    pub device: u32,
    /// The stream.
    pub stream: StreamId,
    /// The position.
    pub seq: Seq,
}

/// A message to the program, now or after an event.
#[derive(Debug)]
pub enum Effect {
    /// Answers a command.
    Reply { ticket: u64, value: u64, extra: u64 },
    /// Says that it could not be done.
    ReplyFailed { ticket: u64, error: Error },
    /// Says that a queue, or more with [`super::ALL`], has failed.
    Failed { device: u32, queue: u32, error: Error },
    /// Commands were read.
    Credit { bytes: u64 },
    /// Credit for a stream, when it has got to a position; at once without one.
    GiveBack { device: u32, after: Option<(StreamId, Seq)>, step: Step },
    /// A queue has a stream now: the stream's driver reports when it fails.
    Watch { device: u32, queue: QueueId, stream: StreamId },
}
