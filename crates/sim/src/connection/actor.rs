//! Who acts, and what they wait for.

use accord_client::connection::{ASKED_LANES, EAGER_LANES};
use accord_types::TransferId;

/// Bulk lanes.
pub(super) const LANES: usize = EAGER_LANES + ASKED_LANES;
/// Who does something.
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
    /// Throws away what nobody wants.
    Discards,
    Stream(u32, usize),
}

/// What somebody waits for.
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
}

/// What happens at some time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    Step(Actor),
    Timer(Actor, u64),
    Arrive(Block),
    Cut,
    HalfOpen,
    Notice,
}

/// A piece of a transfer.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) transfer: TransferId,
    pub(super) bytes: Vec<u8>,
    pub(super) last: bool,
}
