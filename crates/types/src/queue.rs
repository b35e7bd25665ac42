//! Async-arguments, and the number of streams for a program's queues.

use crate::{Error, ErrorCode, QueueId};

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
    /// Checks and converts a raw async-argument.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_async` for negative values without a meaning (OpenACC 3.3, 2.16).
    pub fn from_raw(raw: i32) -> Result<Self, Error> {
        match raw {
            -2 => Ok(Self::Sync),
            -1 => Ok(Self::NoVal),
            0.. => Ok(Self::Queue(raw.unsigned_abs())),
            _ => Err(Error::new(ErrorCode::InvalidAsync, format!("{raw} is not an async-argument"))
                .remedy("use a value of 0 or more, acc_async_noval or acc_async_sync")),
        }
    }

    /// Returns the argument that [`AsyncArg::from_raw`] takes.
    pub fn raw(self) -> i32 {
        match self {
            Self::Sync => -2,
            Self::NoVal => -1,
            // The number was an `i32` in [`AsyncArg::from_raw`].
            Self::Queue(n) => n.cast_signed(),
        }
    }

    /// Returns the queue for this argument.
    pub fn queue(self) -> QueueId {
        match self {
            Self::Sync => QueueId::SYNC,
            Self::NoVal => QueueId(0),
            Self::Queue(n) => QueueId(n),
        }
    }
}

/// Most streams of one program on a device. Further queues share them, which only adds order. Every backend has this
/// many, and one for copies from other devices.
const STREAMS_MAX: usize = 32;

/// Returns the number of streams for a program's queues on a device under a lease's quota; a quota of 0 means none.
pub fn streams_max(quota: u32) -> usize {
    match usize::try_from(quota) {
        Ok(quota @ 1..=STREAMS_MAX) => quota,
        _ => STREAMS_MAX,
    }
}
