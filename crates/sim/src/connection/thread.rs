//! The state of a program's thread.

use super::script::{CELL, HOST_CELLS, Op, READ_ONLY, READ_ONLY_VALUE};
use accord_types::Error;

/// A thread of a program, with devices of its own.
pub(super) struct Thread {
    pub(super) ops: Vec<Op>,
    pub(super) next: usize,
    /// The connections of its devices, and the devices' numbers there.
    pub(super) devices: Vec<(usize, u32)>,
    /// Index of the current device.
    pub(super) on: usize,
    pub(super) memory: Vec<u8>,
    pub(super) ended: bool,
    pub(super) error: Option<Error>,
    /// The time at which the thread last finished a pause or switched to another connection.
    pub(super) started_last: u64,
    /// Whether the devices were shut down, so that the program may reuse the memory.
    pub(super) closed: bool,
    /// Whether the thread has started a comparison that fails.
    pub(super) differs: bool,
    /// Whether its process has died.
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

    /// Returns the calls that were made.
    pub(super) fn calls(&self) -> &[Op] {
        &self.ops[..self.next]
    }
}
