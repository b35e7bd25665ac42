//! Operations of a stream that wait for work on the host. Their number is bounded, and a caller that would exceed it
//! blocks, so that a program faster than a network does not fill the memory.

use std::collections::VecDeque;

/// Most operations that wait in a stream. A program may have fewer open in a stream, so that an executor's reader of
/// commands never waits for space.
pub const PENDING_MAX: usize = 4096;
/// Most bytes that they hold.
pub const PENDING_BYTES_MAX: usize = 16 << 20;

/// Most copies out of a stream whose bytes are fetched before their turn: other streams need slots too.
pub(super) const FETCHED_MAX: usize = 8;

/// An operation that waits for its turn.
pub trait Operation {
    /// Whether the device's part of the operation is in the driver's stream already.
    fn is_fetched(&self) -> bool;

    /// Returns the number of bytes that the operation holds.
    fn held_bytes(&self) -> usize;
}

/// The listed operations of a stream, with their positions.
pub(super) struct OperationList<O> {
    ops: VecDeque<(u64, O)>,
    bytes: usize,
}

impl<O> Default for OperationList<O> {
    fn default() -> Self {
        Self { ops: VecDeque::new(), bytes: 0 }
    }
}

impl<O: Operation> OperationList<O> {
    pub(super) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Whether a further operation must wait for space.
    pub(super) fn is_full(&self, operations: usize, bytes: usize) -> bool {
        self.ops.len() >= operations || self.bytes >= bytes
    }

    /// Whether the bytes of a further copy out may be fetched, at most `fetched` of which may wait.
    pub(super) fn may_fetch(&self, fetched: usize) -> bool {
        self.ops.len() < fetched && self.ops.iter().all(|(_, op)| op.is_fetched())
    }

    pub(super) fn push(&mut self, seq: u64, op: O) {
        self.bytes += op.held_bytes();
        self.ops.push_back((seq, op));
    }

    /// Removes and returns the next operation if `is_such` holds for it.
    pub(super) fn pop_if(&mut self, is_such: impl FnOnce(&mut O) -> bool) -> Option<(u64, O)> {
        let (_, op) = self.ops.front_mut()?;
        if is_such(op) { self.pop() } else { None }
    }

    /// Returns the operations, in order.
    pub(super) fn into_operations(self) -> Vec<O> {
        self.ops.into_iter().map(|(_, op)| op).collect()
    }

    pub(super) fn pop(&mut self) -> Option<(u64, O)> {
        let (seq, op) = self.ops.pop_front()?;
        self.bytes -= op.held_bytes();
        Some((seq, op))
    }
}
