//! Operations of a stream that wait for work on the host. Their number is bounded, and a caller that would exceed it
//! blocks, so that a program faster than a network does not fill the memory.

use super::function::{Function, OwnedBlock};
use super::page_registration::Unregistration;
use super::shared::Shared;
use super::staging::fetched::Fetched;
use crate::any_end::{CopySink, CopySource};
use accord_types::{DevicePtr, LaunchDims};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most operations that wait in a stream. A program may have fewer open in a stream, so that an executor's reader of
/// commands never waits for space.
pub const PENDING_MAX: usize = 4096;
/// Most bytes that they hold.
pub const PENDING_BYTES_MAX: usize = 16 << 20;

/// Most copies out of a stream whose bytes are fetched before their turn: other streams need slots too.
pub(super) const FETCHED_MAX: usize = 8;

/// An operation that waits for its turn. `S` is the type of streams.
pub(crate) enum Op<S> {
    Store { dst: DevicePtr, bytes: Vec<u8> },
    CopyIn { dst: DevicePtr, len: u64, source: CopySource },
    CopyOut { src: DevicePtr, len: u64, sink: CopySink, fetched: Option<Fetched> },
    Copy { dst: DevicePtr, src: DevicePtr, len: u64 },
    Peer { dst: DevicePtr, to: Arc<Shared>, src: DevicePtr, len: u64 },
    Launch { function: Arc<Function>, index: u32, dims: LaunchDims, block: OwnedBlock },
    Wait { other: Arc<S>, seq: u64 },
    Unmap { start: DevicePtr, len: u64 },
    Unregister(Unregistration),
}

impl<S> Op<S> {
    /// Whether the device's part of the operation is in the driver's stream already.
    pub(crate) fn is_fetched(&self) -> bool {
        matches!(self, Self::CopyOut { fetched: Some(_), .. })
    }

    /// Returns the bytes that the operation holds.
    fn held(&self) -> usize {
        match self {
            Self::Store { bytes, .. } => bytes.len(),
            Self::Launch { block, .. } => block.get().bytes.len(),
            _ => 0,
        }
    }
}

/// The operations of a stream, with their positions.
pub(crate) struct Pending<S> {
    ops: VecDeque<(u64, Op<S>)>,
    bytes: usize,
}

impl<S> Default for Pending<S> {
    fn default() -> Self {
        Self { ops: VecDeque::new(), bytes: 0 }
    }
}

impl<S> Pending<S> {
    pub(crate) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Whether a further operation must wait for space.
    pub(crate) fn is_full(&self) -> bool {
        self.ops.len() >= PENDING_MAX || self.bytes >= PENDING_BYTES_MAX
    }

    /// Whether the bytes of a further copy out may be fetched.
    pub(crate) fn may_fetch(&self) -> bool {
        self.ops.len() < FETCHED_MAX && self.ops.iter().all(|(_, op)| op.is_fetched())
    }

    pub(crate) fn push(&mut self, seq: u64, op: Op<S>) {
        self.bytes += op.held();
        self.ops.push_back((seq, op));
    }

    /// Removes and returns the next operation if `is_such` holds for it.
    pub(crate) fn pop_if(&mut self, is_such: impl FnOnce(&mut Op<S>) -> bool) -> Option<(u64, Op<S>)> {
        let (_, op) = self.ops.front_mut()?;
        if is_such(op) { self.pop() } else { None }
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Op<S>)> {
        let (seq, op) = self.ops.pop_front()?;
        self.bytes -= op.held();
        Some((seq, op))
    }
}
