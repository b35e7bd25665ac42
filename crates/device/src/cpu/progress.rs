//! How far a stream has got, as its owner knows it: its own half by itself, the worker's half where that can be true.
//!
//! The worker can't complete positions of the owner's operations: memory may be freed when they are complete.

use super::layout::StreamShared;
use super::ring::Corrupt;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Progress {
    /// Position of the last operation that the owner queue has done. The worker has a copy, which it may spoil.
    owner_done: AtomicU64,
    /// The worker has done no more than this: what was put in, up to the first operation of the owner queue that is not done.
    worker_may: AtomicU64,
    /// The first position that a waiter or an operation of this process waits for.
    want: AtomicU64,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { owner_done: AtomicU64::new(0), worker_may: AtomicU64::new(0), want: AtomicU64::new(u64::MAX) }
    }

    /// Returns the position up to which all operations are done. An operation starts only once the other half has passed the
    /// operations before it, so the position of the further half holds for both.
    ///
    /// # Errors
    /// Returns an error if the worker says what can't be.
    pub(crate) fn reached(&self, block: &StreamShared) -> Result<u64, Corrupt> {
        let worker = block.worker_done.load(Ordering::Acquire);
        let owner = self.owner_done();
        // What it may do was written before it heard of it.
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

    /// Lets the worker do everything up to a position. Called before the worker is given it, with the stream's lock
    /// held.
    pub(crate) fn let_worker(&self, up_to: u64) {
        self.worker_may.store(up_to, Ordering::Release);
    }

    /// The owner queue has done everything up to `seq`. The caller holds the stream's lock.
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
