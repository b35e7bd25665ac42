//! Actors, and the conditions that they wait for.

use accord_client::connection::{ASKED_LANES, EAGER_LANES};
use accord_types::TransferId;

/// Number of bulk lanes.
pub(super) const LANES: usize = EAGER_LANES + ASKED_LANES;

/// A lane between two executors, from the view of one of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PeerLane {
    /// The connection of the other executor.
    pub(super) other: usize,
    /// The lane's number among all that the two executors have had in its direction.
    pub(super) number: u32,
}

/// An actor at a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Actor {
    Program(usize),
    Flusher,
    Watcher,
    Control,
    Bulk(usize),
    Copy(usize),
    /// Reads the executor's commands.
    Commands,
    /// Discards unwanted bytes.
    Discards,
    Stream(u32, usize),
    /// Reads bytes that another connection's executor pushes.
    PeerBytes(PeerLane),
    /// Reads a target's control messages about pushes to it.
    PeerControl(PeerLane),
    /// Informs a target that the bytes of a transfer will not arrive.
    PeerAborts(PeerLane),
}

/// A condition at a connection that an actor waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Block {
    WriteLock,
    CommandRoom,
    Commands,
    Events,
    Control,
    /// Bytes on a lane to the executor, or room on it.
    To,
    ToRoom,
    From(usize),
    FromRoom,
    /// A free lane for eager copies.
    EagerLane,
    AskedLane,
    EagerJob,
    AskedJob,
    /// The end of an operation in a stream.
    Progress,
    /// A change of a push, as by its condition variable in an exchange.
    Push(TransferId),
    /// A free lane to another executor, or room on it.
    PeerLane,
    /// Bytes from another executor, or the end of the transfer that holds their lane.
    PeerBytes(PeerLane),
    PeerControl(PeerLane),
}

/// An event at a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum WorldEvent {
    Step(Actor),
    Timer(Actor, u64),
    Arrive(Block),
    Cut,
    HalfOpen,
    Notice,
    /// The lane to another executor is connected.
    PeerConnected(PeerLane),
    /// The last lane to another executor ends.
    PeerCut(usize),
    /// A lane to another executor ends.
    LaneCut(PeerLane),
    /// The pusher notices the end.
    PushLost(PeerLane),
    /// The target notices the end.
    PeerLost(PeerLane),
    /// The program informs the executor that another one is lost.
    ExecutorLost(usize),
    /// The connection's node goes down, with the executors of all programs.
    NodeDown,
    /// The program of the connection dies.
    Die,
}

/// A piece of a transfer.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) transfer: TransferId,
    pub(super) bytes: Vec<u8>,
    pub(super) last: bool,
}
