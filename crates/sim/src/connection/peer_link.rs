//! Lanes on which executors push to each other.

use super::actor::PeerLane;
use super::lane::{Lane, LaneBehaviour};
use accord_fabric::transfer::{ControlMessage, LanePool};
use accord_types::{DevicePtr, TransferId};
use std::collections::VecDeque;

/// A message of a pusher.
pub(super) struct PeerChunk {
    pub(super) transfer: TransferId,
    pub(super) bytes: Vec<u8>,
    pub(super) last: bool,
    pub(super) abort: bool,
}

/// The lane on which one executor pushes to another.
pub(super) struct PeerLink {
    pub(super) bytes: Lane<PeerChunk>,
    pub(super) control: Lane<ControlMessage>,
    /// The lanes of the pool at the pusher.
    pub(super) pool: LanePool,
    /// Transfers whose bytes will not arrive, about which the target must be informed.
    pub(super) aborts: VecDeque<TransferId>,
    /// The transfer that holds the lane, at the target.
    pub(super) taken: Option<ByteUse>,
    /// Whether the lane has ended, or will never connect.
    pub(super) cut: bool,
}

#[derive(Clone, Copy)]
pub(super) enum ByteUse {
    /// A stream takes its bytes.
    ByStream,
    /// The bytes are discarded.
    Wasted(TransferId),
}

/// The destination of an expected transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination {
    pub(super) device: u32,
    pub(super) dst: DevicePtr,
    pub(super) len: u64,
}

/// An outgoing transfer in its stream.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) src: usize,
    pub(super) len: usize,
    pub(super) transfer: TransferId,
    pub(super) to: PeerLane,
    pub(super) lane: Option<usize>,
    pub(super) at: usize,
}

/// An incoming transfer in the stream for these.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) dst: usize,
    pub(super) len: usize,
    pub(super) transfer: TransferId,
    pub(super) from: PeerLane,
    pub(super) bytes: Vec<u8>,
}

impl PeerLink {
    /// Creates a link that is not connected yet.
    pub(super) fn new(bytes: LaneBehaviour, control: LaneBehaviour) -> Self {
        Self {
            bytes: Lane::new(bytes),
            control: Lane::new(control),
            pool: LanePool::default(),
            aborts: VecDeque::new(),
            taken: None,
            cut: false,
        }
    }

    /// Whether the lanes are empty and no transfer holds one.
    pub(super) fn is_idle(&mut self) -> bool {
        let free = self.pool.is_empty() || matches!(self.pool.acquire(), Ok(Some(_)));
        free && self.bytes.is_empty() && self.control.is_empty() && self.aborts.is_empty() && self.taken.is_none()
    }

    /// Silences both lanes, because the node of one end is down.
    pub(super) fn silence(&mut self) {
        self.bytes.dead = true;
        self.control.dead = true;
    }
}
