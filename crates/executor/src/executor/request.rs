//! Requests and effects of the core.

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

/// Queries of the core while it decides. An implementation neither blocks nor changes any state.
pub trait Facts {
    /// Whether a stream has reached a position.
    fn reached(&self, device: u32, stream: StreamId, seq: Seq) -> bool;

    /// Returns the number of copies in whose bytes have not all arrived.
    fn incoming(&self) -> usize;
}

/// Work to do for a command, now. For a request that names an answer, the driver then passes the outcome to the core.
#[derive(Debug)]
pub enum Request<'a> {
    /// No more work.
    Done,
    /// Keeps the program, and replies with the clock.
    Start { ticket: u64, program: Box<ProgramSpec> },
    /// Starts a device. Answer: [`super::ExecutorCore::opened`].
    Open { device: u32, ticket: u64, place: Option<AddressRange> },
    /// Ends a device, if it exists, and replies.
    Close { device: u32, ticket: u64 },
    /// Maps memory at a range. Answer: [`super::ExecutorCore::mapped`].
    Map { device: u32, ticket: u64, start: DevicePtr, len: u64 },
    /// Keeps GPU code.
    Image(Image),
    /// Resolves a function. Answer: [`super::ExecutorCore::named`].
    Function { device: u32, function: u32, spec: Box<FunctionSpec> },
    /// Resolves a variable. Answer: [`super::ExecutorCore::found`].
    Global { device: u32, ticket: u64, spec: Box<GlobalSpec> },
    /// Creates the stream of a queue. Answer: [`super::ExecutorCore::stream_made`]. The core then needs the command again.
    MakeStream { device: u32, queue: QueueId },
    /// Enqueues an operation in a stream. Answer: [`super::ExecutorCore::put`]. Until then the core accepts the command again.
    Put { device: u32, stream: StreamId, operation: Operation<'a> },
    /// Discards the eager bytes of a copy in that has failed.
    Discard { transfer: TransferId, len: u64 },
    /// Abandons a push that has failed, and notifies the target.
    Abandon { push: Push<'a> },
    /// Replies once all positions are reached, see [`super::ExecutorCore::places`].
    Wait { ticket: u64 },
    /// Replies whether all positions are reached.
    Test { ticket: u64 },
    /// Replies with the bytes that can still be mapped, at most `left`.
    Memory { device: u32, ticket: u64, left: u64 },
    /// Replies with the clock.
    Clock { ticket: u64 },
    /// Replies with the link's counters.
    Stats { ticket: u64 },
    /// Expects a pushed transfer, or refuses it if `place` is an error.
    Expect { transfer: TransferId, from: PeerId, len: u64, place: Result<CopyTarget> },
}

/// An operation of a stream. Its ranges belong to the device.
#[derive(Debug)]
pub enum Operation<'a> {
    /// Frees memory.
    Unmap { start: DevicePtr, len: u64 },
    /// Writes bytes.
    Store { dst: DevicePtr, bytes: &'a [u8] },
    /// Receives a transfer from the program.
    CopyIn { dst: DevicePtr, len: u64, transfer: TransferId, eager: bool },
    /// Sends bytes to the program: in an event, or on a bulk lane.
    CopyOut { src: DevicePtr, len: u64, transfer: TransferId, in_event: bool },
    /// Copies within the device.
    Copy { dst: DevicePtr, src: DevicePtr, len: u64 },
    /// Launches a region.
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
    /// The transfer's number.
    pub transfer: TransferId,
    /// The receiver.
    pub to: PeerId,
    /// Bytes.
    pub len: u64,
    /// Directions to the target executor; `None` for the program.
    pub to_executor: Option<Directions<'a>>,
}

/// The target of bytes of another device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyTarget {
    /// The device.
    pub device: u32,
    /// The first byte.
    pub dst: DevicePtr,
    /// The position of the target that precedes the copy.
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
    /// Replies to a command.
    Reply { ticket: u64, value: u64, extra: u64 },
    /// Reports that a command failed.
    ReplyFailed { ticket: u64, error: Error },
    /// Reports that a queue, or all of them with [`super::ALL`], has failed.
    Failed { device: u32, queue: u32, error: Error },
    /// Returns credit for read commands.
    Credit { bytes: u64 },
    /// Returns credit for a stream once it has reached a position, or at once without one.
    GiveBack { device: u32, after: Option<(StreamId, Seq)>, step: Step },
    /// Reports that a queue has a stream now, whose failure the driver must report.
    Watch { device: u32, queue: QueueId, stream: StreamId },
}
