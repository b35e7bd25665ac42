//! The frames of an actor's stack: each step is atomic, and other actors run between steps.

use super::op::{FalseCommand, Op};
use accord_client::connection::{Bytes, CopyLine, Job, StorableCopy, WaitId};
use accord_fabric::frame::Position;
use accord_types::{Error, TransferId};
use std::fmt;

pub(super) enum Frame {
    /// The next call of a program's thread.
    Script,
    Do(Op),
    /// A call that has failed.
    Failed(Error),
    Flush,
    /// Sends as `Connection::flush_without_waiting`.
    FlushWithoutWaiting,
    Write {
        rounds: u32,
    },
    Wait(WaitId),
    /// Reads events, for a waiter until it is done.
    Read {
        waiter: Option<WaitId>,
        fill: bool,
    },
    HandOver,
    /// Writes the received bytes of a copy out.
    Land {
        transfer: TransferId,
        bytes: Vec<u8>,
        begun: Option<StorableCopy>,
        half: bool,
    },
    /// Handles a reply to a wait or a test.
    Asked {
        positions: Vec<Position>,
        test: bool,
        left: Vec<WaitId>,
    },
    /// Waits until the rest of the copies out have landed.
    Landed {
        copies: Vec<TransferId>,
        at: usize,
        positions: Vec<Position>,
    },
    /// Handles the reply to a device's shutdown.
    Ended,
    /// Waits until no thread reads or writes the program's memory.
    LetGo {
        left: Vec<WaitId>,
    },
    /// Handles the reply to a false command.
    Refused(FalseCommand),
    Flusher,
    Watcher,
    /// Pauses after the watcher's poll.
    Doze,
    Control,
    Bulk(usize),
    BulkRead {
        lane: usize,
        bytes: Vec<u8>,
    },
    Copy(CopyLine),
    CopyLane {
        way: CopyLine,
        job: Job,
    },
    CopySend {
        way: CopyLine,
        job: Job,
        lane: usize,
    },
    CopyEnd {
        way: CopyLine,
        job: Job,
        lane: usize,
    },
    Send {
        lane: usize,
        transfer: TransferId,
        bytes: Bytes,
        at: usize,
    },
    /// Returns the lane of a copy that the program's own thread has sent.
    Return(usize),
    /// Switches the thread to another connection and makes a call there.
    Turn(usize, Op),
    /// An actor of the executor.
    Commands,
    Peer,
    Discards,
    Stream,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script => write!(f, "Script"),
            Self::Failed(error) => write!(f, "{error:?}"),
            Self::Do(op) => write!(f, "{op:?}"),
            Self::Flush | Self::FlushWithoutWaiting | Self::Write { .. } => write!(f, "flushes"),
            Self::Wait(id) => write!(f, "waits ({id:?})"),
            Self::Read { waiter, .. } => write!(f, "reads for {waiter:?}"),
            Self::HandOver => write!(f, "hands over"),
            Self::Land { transfer, .. } => write!(f, "lands {transfer}"),
            Self::Asked { positions, .. } => write!(f, "{positions:?}"),
            Self::Landed { copies, at, .. } => write!(f, "landing of {copies:?} from {at}"),
            Self::Ended => write!(f, "the end of a device"),
            Self::LetGo { left } => write!(f, "waits for memory, then {left:?}"),
            Self::Refused(false_claim) => write!(f, "refused {false_claim:?}"),
            Self::Flusher => write!(f, "Flusher"),
            Self::Watcher | Self::Doze => write!(f, "Watcher"),
            Self::Control => write!(f, "Control"),
            Self::Bulk(lane) | Self::BulkRead { lane, .. } => write!(f, "bulk {lane}"),
            Self::Copy(way) => write!(f, "copies {way:?}"),
            Self::CopyLane { job, .. } | Self::CopySend { job, .. } | Self::CopyEnd { job, .. } => write!(f, "{job:?}"),
            Self::Send { lane, transfer, at, .. } => write!(f, "sends {transfer} on {lane} from {at}"),
            Self::Return(lane) => write!(f, "returns {lane}"),
            Self::Turn(connection, op) => write!(f, "turns to {connection} for {op:?}"),
            Self::Commands | Self::Discards | Self::Stream | Self::Peer => write!(f, "executor"),
        }
    }
}
