//! The actors, and what they wait for.

use accord_client::connection::{ASKED_LANES, EAGER_LANES};
use accord_types::TransferId;

/// Bulk lanes.
pub(super) const LANES: usize = EAGER_LANES + ASKED_LANES;

/// A lane between two executors, as one of them knows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PeerLane {
    /// The other one's connection.
    pub(super) other: usize,
    /// Its number among those that the two have had in its direction.
    pub(super) number: u32,
}

/// An actor at one connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Actor {
    Program(usize),
    Flusher,
    Watcher,
    Control,
    Bulk(usize),
    Copy(usize),
    /// Of the executor.
    Commands,
    /// Throws away unwanted bytes.
    Discards,
    Stream(u32, usize),
    /// Reads what another connection's executor pushes.
    PeerBytes(PeerLane),
    /// Reads what another connection's executor says of the pushes to it.
    PeerControl(PeerLane),
    /// Tells another connection's executor that bytes will not come.
    PeerAborts(PeerLane),
}

/// What an actor waits for, at one connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Block {
    WriteLock,
    CommandRoom,
    Commands,
    Events,
    Control,
    /// Bytes on a lane to the executor, or a lane's room.
    To,
    ToRoom,
    From(usize),
    FromRoom,
    /// A lane for copies of a line.
    EagerLane,
    AskedLane,
    EagerJob,
    AskedJob,
    /// Something in a stream has ended.
    Progress,
    /// A push may go on: as its condition variable in an exchange.
    Push(TransferId),
    /// A lane to another executor, or its room.
    PeerLane,
    /// Bytes from another connection's executor, or the end of the transfer that has their lane.
    PeerBytes(PeerLane),
    PeerControl(PeerLane),
}

/// What happens at some time, at one connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum WorldEvent {
    Step(Actor),
    Timer(Actor, u64),
    Arrive(Block),
    Cut,
    HalfOpen,
    Notice,
    /// The lane to another connection's executor is there.
    PeerConnected(PeerLane),
    /// The last lane to another connection's executor ends.
    PeerCut(usize),
    /// This lane to one ends.
    LaneCut(PeerLane),
    /// The pusher sees it.
    PushLost(PeerLane),
    /// The target sees that the lane from another connection's executor has ended.
    PeerLost(PeerLane),
    /// The executor hears from the program that the one of another connection is lost.
    ExecutorLost(usize),
    /// The node of the connection goes down, and with it the executors of all programs there.
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
