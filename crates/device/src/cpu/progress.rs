//! The owner's view of a stream's progress: its own half from private state, the worker's half within what is possible.
//!
//! The worker can't complete positions of the owner's operations, because memory may be freed when they are complete.

use super::layout::StreamShared;
use super::ring::Corrupt;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Progress {
    /// Position of the last operation that the owner has done. The worker gets a copy, which it may corrupt.
    owner_done: AtomicU64,
    /// The worker's upper bound: all operations before the owner's first unfinished one.
    worker_may: AtomicU64,
    /// The first position that a waiter or an operation of this process waits for.
    want: AtomicU64,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { owner_done: AtomicU64::new(0), worker_may: AtomicU64::new(0), want: AtomicU64::new(u64::MAX) }
    }

    /// Returns the position up to which all operations are done. An operation starts only once the other half has passed the
    /// operations before it, so that the position of the further half holds for both.
    ///
    /// # Errors
    /// Returns an error if the worker reports an impossible position.
    pub(crate) fn reached(&self, block: &StreamShared) -> Result<u64, Corrupt> {
        let worker = block.worker_done.load(Ordering::Acquire);
        let owner = self.owner_done();
        // The bound was stored before the worker could reach it.
        if worker <= owner || worker <= self.worker_may() {
            Ok(worker.max(owner))
        } else {
            Err(Corrupt("what it has done"))
        }
    }

    pub(crate) fn owner_done(&self) -> u64 {
        self.owner_done.load(Ordering::Acquire)
    }

    pub(crate) fn worker_may(&self) -> u64 {
        self.worker_may.load(Ordering::Acquire)
    }

    /// Allows the worker to do all operations up to a position. Called before the worker gets them, with the stream's lock
    /// held.
    pub(crate) fn let_worker(&self, up_to: u64) {
        self.worker_may.store(up_to, Ordering::Release);
    }

    /// Records that the owner has done all operations up to `seq`. The caller holds the stream's lock.
    pub(crate) fn owner_has_done(&self, seq: u64, block: &StreamShared) {
        let done = self.owner_done().max(seq);
        self.owner_done.store(done, Ordering::Release);
        block.owner_done.store(done, Ordering::Release);
    }

    pub(crate) fn want(&self) -> u64 {
        self.want.load(Ordering::Acquire)
    }

    pub(crate) fn set_want(&self, want: u64, block: &StreamShared) {
        self.want.store(want, Ordering::SeqCst);
        block.owner_want.store(want, Ordering::SeqCst);
    }
}
