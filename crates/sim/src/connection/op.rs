//! Calls of a program's thread.

use crate::random::Random;
use accord_types::{QueueId, TransferId};

/// A call of the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Op {
    /// `device[cell]` becomes a function of itself and `device[from]`.
    Kernel {
        queue: QueueId,
        cell: usize,
        from: usize,
        salt: u8,
    },
    CopyIn {
        queue: QueueId,
        device: usize,
        host: usize,
        cells: usize,
        now: bool,
    },
    CopyOut {
        queue: QueueId,
        device: usize,
        host: usize,
        cells: usize,
    },
    /// Copies cells out; each is written only if it differs from what was sent.
    CopyChanged {
        queue: QueueId,
        device: usize,
        places: Vec<(usize, u8)>,
    },
    /// Compares cells with memory that is read-only.
    Compare {
        queue: QueueId,
        device: usize,
        host: usize,
        cells: usize,
        differs: bool,
    },
    /// Copies to another device of the thread.
    Between {
        queue: QueueId,
        device: usize,
        to: usize,
        at: usize,
        cells: usize,
    },
    /// The part of [`Op::Between`] at the target.
    Expect {
        source: usize,
        queue: QueueId,
        device: usize,
        to: usize,
        at: usize,
        cells: usize,
        transfer: TransferId,
    },
    /// The part of [`Op::Between`] at the source.
    Push {
        queue: QueueId,
        device: usize,
        to: usize,
        cells: usize,
        transfer: TransferId,
        /// The number of the lane on which the target expects the transfer.
        lane: u32,
    },
    /// Switches to another device of the thread.
    Switch(usize),
    /// Checks that an earlier wait has failed, if it should.
    HasFailed,
    WaitQueue {
        queue: QueueId,
        other: QueueId,
    },
    Wait(Vec<QueueId>),
    Test(QueueId),
    HostWrite {
        host: usize,
        value: u8,
    },
    Check {
        host: usize,
        expected: u8,
    },
    /// Sends GPU code, many bytes for the command lane.
    Image,
    /// Spends this many microseconds without calls.
    Pause(u64),
    /// Sends a false command.
    Lie(FalseCommand),
    /// Shuts the device down.
    Shutdown,
}

/// A false command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FalseCommand {
    /// An impossible operation.
    Operation(u32),
    /// A copy in to an invalid device address, whose bytes are sent all the same.
    Copy,
    /// A query without an answer.
    Question(u32),
    /// A command that breaks the protocol.
    Protocol(u32),
    /// Bytes that are no command.
    Garbage,
}

impl FalseCommand {
    pub(super) const OPERATIONS: u32 = 13;
    pub(super) const QUESTIONS: u32 = 7;
    pub(super) const BREACHES: u32 = 6;

    /// Returns a random one, which breaks the protocol or not.
    pub(super) fn one(random: &mut Random, breaks: bool) -> Self {
        let mut of = |count: u32| u32::try_from(random.within(0..count.into())).unwrap_or(0);
        match (breaks, of(10)) {
            (true, 0..3) => Self::Garbage,
            (true, _) => Self::Protocol(of(Self::BREACHES)),
            (false, 0..5) => Self::Operation(of(Self::OPERATIONS)),
            (false, 5..7) => Self::Copy,
            (false, _) => Self::Question(of(Self::QUESTIONS)),
        }
    }
}
