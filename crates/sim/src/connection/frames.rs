//! What a thread is doing: each step of it is one thing that others may come between.

use super::op::{Lie, Op};
use accord_client::connection::{Begun, Bytes, Job, WaitId, Way};
use accord_fabric::frame::Position;
use accord_types::{Error, TransferId};
use std::fmt;

pub(super) enum Frame {
    /// A thread of the program: its next call.
    Script,
    Do(Op),
    /// Its call has failed.
    Failed(Error),
    Flush,
    /// Sends as `Connection::flush_without_waiting`.
    FlushWithoutWaiting,
    Write {
        rounds: u32,
    },
    Wait(WaitId),
    /// It has the reading side; with a waiter until that's done.
    Read {
        waiter: Option<WaitId>,
        fill: bool,
    },
    HandOver,
    /// The bytes of a copy out are here.
    Land {
        transfer: TransferId,
        bytes: Vec<u8>,
        begun: Option<Begun>,
        half: bool,
    },
    /// A reply to a wait or a test has come.
    Asked {
        positions: Vec<Position>,
        test: bool,
        left: Vec<WaitId>,
    },
    /// Waits for the landing of the rest of these.
    Landed {
        copies: Vec<TransferId>,
        at: usize,
        positions: Vec<Position>,
    },
    /// The device is ended.
    Ended,
    /// Waits for the end of what is being read and written.
    LetGo {
        left: Vec<WaitId>,
    },
    /// The answer to what is not so has come.
    Refused(Lie),
    Flusher,
    Watcher,
    /// The watcher has looked.
    Doze,
    Control,
    Bulk(usize),
    BulkRead {
        lane: usize,
        bytes: Vec<u8>,
    },
    Copy(Way),
    CopyLane {
        way: Way,
        job: Job,
    },
    CopySend {
        way: Way,
        job: Job,
        lane: usize,
    },
    CopyEnd {
        way: Way,
        job: Job,
        lane: usize,
    },
    Send {
        lane: usize,
        transfer: TransferId,
        bytes: Bytes,
        at: usize,
    },
    /// The lane for a copy that the program's own thread has sent is free again.
    Return(usize),
    /// The thread turns to another connection, and calls there.
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
            Self::Refused(lie) => write!(f, "refused {lie:?}"),
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
