//! The unfinished operations of a stream's owner, and their waiters.

use super::ring::Writer;
use crate::any_end::{CopySink, CopySource};
use accord_types::{DevicePtr, Error, Result};
use std::collections::VecDeque;

/// The work of an operation of the owner queue.
pub(crate) enum Op {
    CopyIn { dst: DevicePtr, len: u64, source: CopySource },
    CopyOut { src: DevicePtr, len: u64, sink: CopySink },
    Unmap { start: DevicePtr, len: u64 },
}

pub(crate) type Done = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Default)]
pub(crate) struct OwnerQueue {
    /// Position of the last operation, and of the last one in the owner queue.
    pub(crate) last: u64,
    pub(crate) last_of_owner: u64,
    pub(crate) ring: Writer,
    pub(crate) ops: VecDeque<(u64, Op)>,
    /// Whether all operations are short and left to the next thread that waits for the stream.
    pub(crate) deferred: bool,
    pub(crate) notifies: Vec<(u64, Done)>,
    /// Positions for which threads in `synchronize` wait.
    pub(crate) waiters: Vec<u64>,
    pub(crate) failure: Option<Error>,
    pub(crate) worker_started: bool,
    pub(crate) closing: bool,
}

impl OwnerQueue {
    /// Returns the first position that a waiter or an operation of this process waits for.
    pub(crate) fn want(&self) -> u64 {
        let op = self.ops.front().filter(|_| !self.deferred).map(|(seq, _)| seq - 1);
        let notify = self.notifies.iter().map(|(seq, _)| *seq).min();
        let waiter = self.waiters.iter().copied().min();
        [op, notify, waiter].into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// Returns the position that the worker reaches while no operation of the owner is in flight.
    pub(crate) fn worker_may(&self) -> u64 {
        self.ops.front().map_or(self.last, |(next, _)| next - 1)
    }
}

/// The next work of the owner's worker.
pub(crate) enum Work {
    Run(u64, Op),
    Notify(Vec<Done>, Result<()>),
    /// Sleep until the stream reaches the wanted position, or the doorbell rings.
    Sleep,
}

impl Work {
    pub(crate) fn last(due: Vec<Done>, error: Error) -> Option<Self> {
        for done in due {
            done(Err(error.clone()));
        }
        None
    }
}
