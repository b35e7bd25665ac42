//! What a thread of the program has.

use super::script::{CELL, HOST_CELLS, Op, READ_ONLY, READ_ONLY_VALUE};
use accord_types::Error;

/// A thread of a program, which uses devices of its own.
pub(super) struct Thread {
    pub(super) ops: Vec<Op>,
    pub(super) next: usize,
    /// The connections of its devices, and their numbers there.
    pub(super) devices: Vec<(usize, u32)>,
    /// Which of them it uses now.
    pub(super) on: usize,
    pub(super) memory: Vec<u8>,
    pub(super) ended: bool,
    pub(super) error: Option<Error>,
    /// When it has last done something else than to call, or has turned to another connection.
    pub(super) started_last: u64,
    /// The devices were shut down: the memory is its own again.
    pub(super) closed: bool,
    /// It has asked for a comparison that fails.
    pub(super) differs: bool,
    /// Its process has died.
    pub(super) dead: bool,
}

impl Thread {
    pub(super) fn new(ops: Vec<Op>, devices: Vec<(usize, u32)>) -> Self {
        let mut memory = vec![0; HOST_CELLS * CELL];
        memory[READ_ONLY * CELL..].fill(READ_ONLY_VALUE);
        Self {
            ops,
            next: 0,
            devices,
            on: 0,
            memory,
            ended: false,
            error: None,
            started_last: 0,
            closed: false,
            differs: false,
            dead: false,
        }
    }

    /// What it has called.
    pub(super) fn calls(&self) -> &[Op] {
        &self.ops[..self.next]
    }
}
