//! What a thread of the program has.

use super::script::{CELL, HOST_CELLS, Op};
use accord_types::Error;

/// A thread of the program, which uses a device of its own.
pub(super) struct Thread {
    pub(super) ops: Vec<Op>,
    pub(super) next: usize,
    pub(super) memory: Vec<u8>,
    pub(super) ended: Option<u64>,
    pub(super) error: Option<Error>,
    /// When it has last done something else than to call.
    pub(super) started_last: u64,
    /// The device was shut down: the memory is its own again.
    pub(super) closed: bool,
}

impl Thread {
    pub(super) fn new(ops: Vec<Op>) -> Self {
        let memory = vec![0; HOST_CELLS * CELL];
        Self { ops, next: 0, memory, ended: None, error: None, started_last: 0, closed: false }
    }

    /// What it has called.
    pub(super) fn calls(&self) -> &[Op] {
        &self.ops[..self.next]
    }
}
