//! Operations of the simulated program, and the host's work for them.

use super::gpu::Action;
use accord_device::stream::{HostWork, Operation, Stage};
use accord_types::HostRange;
use std::cell::Cell;
use std::rc::Rc;

/// An operation that waits for its turn. `id` is its record's.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) id: usize,
    pub(super) kind: OpKind,
}

#[derive(Debug)]
pub(super) enum OpKind {
    /// Only the driver's stream.
    Device(Action),
    /// Program memory to the device, by a slot.
    In { host: usize, cell: usize, before: u64, value: u64 },
    /// The device to program memory, by a slot and the copying thread.
    Out(Out),
    /// Bytes from another process.
    Arrive { cell: usize, before: u64, value: u64 },
    /// Bytes to another process, in a slot if they were fetched.
    Send { cell: usize, value: u64, slot: Option<usize> },
    /// Waits for another stream.
    Wait { other: usize, seq: u64 },
    /// Releases memory of the device.
    Unmap { cell: usize },
}

/// A copy of a device's cell, which has `value`, to the program's, which has `before`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    pub(super) id: usize,
    pub(super) cell: usize,
    pub(super) value: u64,
    pub(super) host: usize,
    pub(super) before: u64,
}

impl Out {
    pub(super) fn range(self) -> HostRange {
        range(self.host)
    }
}

/// The range of a cell of the program's memory.
pub(super) fn range(host: usize) -> HostRange {
    HostRange { start: host, len: 1 }
}

/// Whether the device's engines reach a cell of the program's memory.
pub(super) fn is_pinned(host: usize) -> bool {
    host < 3
}

impl Operation for Op {
    fn is_fetched(&self) -> bool {
        matches!(self.kind, OpKind::Send { slot: Some(_), .. })
    }

    fn held_bytes(&self) -> usize {
        8
    }
}

/// The host's work once the device has reached an operation.
#[derive(Debug)]
pub(super) enum Work {
    /// Copies, side by side in a slot, that the waiting thread passes on.
    Slot { slot: usize, outs: Vec<Out> },
    /// The copying thread has it.
    Moved(Rc<Cell<Moving>>, HostRange),
    /// Another stream.
    Other(usize, u64),
}

/// The state of a copy that the copying thread has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moving {
    Open,
    Done,
    Failed,
}

impl HostWork for Work {
    fn stage(&self) -> Stage {
        match self {
            Self::Slot { .. } => Stage::Ready,
            Self::Moved(moving, _) if moving.get() != Moving::Open => Stage::Ready,
            Self::Moved(..) | Self::Other(..) => Stage::Elsewhere,
        }
    }

    fn may_write(&self, range: HostRange) -> bool {
        match self {
            Self::Slot { outs, .. } => outs.iter().any(|out| out.range().overlaps(range)),
            Self::Moved(_, target) => target.overlaps(range),
            Self::Other(..) => true,
        }
    }
}
