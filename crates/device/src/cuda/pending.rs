//! Operations of a stream that wait because the host has to act before them. Their number is bounded, and a caller that
//! would exceed it blocks, so that a program faster than a network does not fill the memory.

use super::function::{Function, OwnedBlock};
use super::page_registration::Unregistration;
use super::shared::Shared;
use super::staging::fetched::Fetched;
use crate::any_end::{CopySink, CopySource};
use accord_types::{DevicePtr, LaunchDims};
use std::collections::VecDeque;
use std::sync::Arc;

/// Operations that wait in a stream. An executor's reader of commands never has to wait for room: what a program may have open in a
/// stream is less.
pub const PENDING_MAX: usize = 4096;
/// Bytes that they hold.
pub const PENDING_BYTES_MAX: usize = 16 << 20;

/// Copies out whose bytes are fetched before their turn: others need slots, too.
pub(super) const FETCHED_MAX: usize = 8;

/// An operation that waits for its turn, in a stream that is an `S`.
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
    /// Whether the device's part of it is in the driver's stream already.
    pub(crate) fn is_fetched(&self) -> bool {
        matches!(self, Self::CopyOut { fetched: Some(_), .. })
    }

    /// Bytes that it holds.
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

    /// Whether one more has to wait for room.
    pub(crate) fn is_full(&self) -> bool {
        self.ops.len() >= PENDING_MAX || self.bytes >= PENDING_BYTES_MAX
    }

    /// Whether the bytes of a copy out may be fetched behind these.
    pub(crate) fn may_fetch(&self) -> bool {
        self.ops.len() < FETCHED_MAX && self.ops.iter().all(|(_, op)| op.is_fetched())
    }

    pub(crate) fn push(&mut self, seq: u64, op: Op<S>) {
        self.bytes += op.held();
        self.ops.push_back((seq, op));
    }

    /// The next one, if it is one of those.
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
