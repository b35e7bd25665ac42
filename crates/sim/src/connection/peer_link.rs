//! Lanes on which executors push to each other, and what is on them.

use super::actor::PeerLane;
use super::lane::{Lane, Weather};
use accord_fabric::transfer::{ControlMessage, LanePool};
use accord_types::{DevicePtr, TransferId};
use std::collections::VecDeque;

/// What a pusher sends.
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
    /// The target says nothing before the lane is there: it knows no peer.
    pub(super) pool: LanePool,
    /// Transfers for which the target has to be told that nothing comes.
    pub(super) aborts: VecDeque<TransferId>,
    /// At the target: the transfer that has the lane.
    pub(super) taken: Option<Taken>,
    /// The lane has ended, or will never be there.
    pub(super) cut: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Taken {
    /// A stream takes its bytes.
    ByStream,
    /// They are thrown away.
    Wasted(TransferId),
}

/// Where an expected transfer goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination {
    pub(super) device: u32,
    pub(super) dst: DevicePtr,
    pub(super) len: u64,
}

/// A transfer on its way out, in its stream.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) src: usize,
    pub(super) len: usize,
    pub(super) transfer: TransferId,
    pub(super) to: PeerLane,
    pub(super) lane: Option<usize>,
    pub(super) at: usize,
}

/// One on its way in, in the stream for those.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) dst: usize,
    pub(super) len: usize,
    pub(super) transfer: TransferId,
    pub(super) from: PeerLane,
    pub(super) bytes: Vec<u8>,
}

impl PeerLink {
    /// One that is not there yet.
    pub(super) fn new(bytes: Weather, control: Weather) -> Self {
        Self {
            bytes: Lane::new(bytes),
            control: Lane::new(control),
            pool: LanePool::default(),
            aborts: VecDeque::new(),
            taken: None,
            cut: false,
        }
    }

    /// Whether nothing stands on it, and no transfer holds it.
    pub(super) fn is_idle(&mut self) -> bool {
        let free = self.pool.is_empty() || matches!(self.pool.lend(), Ok(Some(_)));
        free && self.bytes.is_empty() && self.control.is_empty() && self.aborts.is_empty() && self.taken.is_none()
    }

    /// The node of one end is silent.
    pub(super) fn silence(&mut self) {
        self.bytes.dead = true;
        self.control.dead = true;
    }
}
