//! What a thread of a program calls.

use crate::random::Random;
use accord_types::{QueueId, TransferId};

/// One call of the program.
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
    /// Brings cells that are written only where they are others than what was sent.
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
    /// A part of [`Op::Between`]: the target is told.
    Expect {
        source: usize,
        queue: QueueId,
        device: usize,
        to: usize,
        at: usize,
        cells: usize,
        transfer: TransferId,
    },
    /// A part of [`Op::Between`]: the source is told.
    Push {
        queue: QueueId,
        device: usize,
        to: usize,
        cells: usize,
        transfer: TransferId,
        /// The number of the lane that the target was told.
        lane: u32,
    },
    /// Uses another device of the thread from now on.
    Switch(usize),
    /// A wait before has failed, or should have.
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
    /// GPU code: much for the command lane.
    Image,
    /// The program does something else for so many microseconds.
    Pause(u64),
    /// Says something that is not so.
    Lie(Lie),
    /// Ends the device.
    Shutdown,
}

/// What a program says that is not so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lie {
    /// An operation that can't be.
    Operation(u32),
    /// A copy in with a device address that is none. Its bytes come all the same.
    Copy,
    /// A question that has no answer.
    Question(u32),
    /// What is not the protocol.
    Protocol(u32),
    /// Nor a command.
    Garbage,
}

impl Lie {
    pub(super) const OPERATIONS: u32 = 13;
    pub(super) const QUESTIONS: u32 = 7;
    pub(super) const BREACHES: u32 = 6;

    /// One of a program that keeps to the protocol, or of one that does not.
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
