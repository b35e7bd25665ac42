//! Activity queues and the streams that carry them.

use crate::{Error, ErrorCode};
use std::fmt;

/// An async-argument as the program wrote it (OpenACC 3.3, 2.16).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AsyncArg {
    /// `acc_async_sync` (-2): the host waits.
    Sync,
    /// `acc_async_noval` (-1): the default queue, which is queue 0 unless the program sets it.
    NoVal,
    /// A queue of the program's own.
    Queue(u32),
}

impl AsyncArg {
    /// Checks a raw async-argument.
    ///
    /// # Errors
    /// `acc_error_invalid_async` for negative values without a meaning (OpenACC 3.3, 2.16).
    pub fn from_raw(raw: i32) -> Result<Self, Error> {
        match raw {
            -2 => Ok(Self::Sync),
            -1 => Ok(Self::NoVal),
            0.. => Ok(Self::Queue(raw.unsigned_abs())),
            _ => Err(Error::new(ErrorCode::InvalidAsync, format!("{raw} is not an async-argument"))
                .remedy("use a value of 0 or more, acc_async_noval or acc_async_sync")),
        }
    }

    /// The queue that carries it.
    pub fn queue(self) -> QueueId {
        match self {
            Self::Sync => QueueId::SYNC,
            Self::NoVal => QueueId(0),
            Self::Queue(n) => QueueId(n),
        }
    }
}

/// An activity queue of one device. Program queues are 0 to 2^31-1; the rest is Accord's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId(pub u32);

impl QueueId {
    /// Carries synchronous operations.
    pub const SYNC: Self = Self(0xffff_fffe);
    /// Receives copies from other devices: they must not hold up the target's own queues.
    pub const INCOMING: Self = Self(0xffff_fff0);
}

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SYNC => f.write_str("acc_async_sync"),
            Self::INCOMING => f.write_str("incoming"),
            Self(n) => write!(f, "{n}"),
        }
    }
}

/// A device's own ordered lane of work (a CUDA stream).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u32);

/// A position in a queue or stream: the count of operations put into it so far, from 1.
/// 0 is "before everything" and always reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Seq(pub u64);

/// Most streams that the queues of one program get on a device; more queues share them, which only adds order. Every
/// backend has as many, and one for copies from other devices.
const STREAMS_MAX: usize = 32;

/// Streams for a program's queues on a device under a lease's quota; a quota of 0 is none.
pub fn streams_max(quota: u32) -> usize {
    match usize::try_from(quota) {
        Ok(quota @ 1..=STREAMS_MAX) => quota,
        _ => STREAMS_MAX,
    }
}
