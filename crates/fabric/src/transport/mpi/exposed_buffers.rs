//! The state of exposed buffers and of receive buffers of lanes. Their transitions are in `streams/exposing.rs`.

use super::message::LaneKey;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most messages in flight to receive buffers of a rank.
pub(super) const TAKES_MAX: u16 = 32;
/// Most bytes of one such message: MPI counts in 32 bits.
pub(super) const MESSAGE_MAX: u64 = 1 << 30;
/// Most bytes that a rank may offer at a time.
pub(super) const OFFER_MAX: u64 = 1 << 40;
/// The first tag of such messages; lower tags have other uses.
pub(super) const TAG_FIRST: u16 = 2;

/// A part of an exposed buffer, sent as one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExposedPart {
    /// The lane.
    pub lane: LaneKey,
    /// The receiving rank.
    pub to: u32,
    /// The message's tag at the receiver.
    pub tag: u16,
    /// The message's id at the sender: a tag may be reused before the sender learns that its message was sent.
    pub id: u64,
    /// Offset in the exposed buffer.
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
    /// Whether the message is for a posted receive, and so not part of the lane's exposed buffer.
    pub is_posted: bool,
}

/// A message that is in flight or about to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageInFlight {
    pub(super) lane: LaneKey,
    pub(super) len: u64,
    /// Whether the receive was posted, see [`ExposedPart::is_posted`].
    pub(super) is_posted: bool,
}

/// The state of an exposed buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExposureState {
    /// All bytes have been sent.
    Done,
    /// Bytes may be in flight.
    UnderWay,
    /// The peer reads no more bytes, and none are in flight.
    Over,
}

/// The writer's exposed buffer.
#[derive(Debug, Default)]
pub(super) struct ExposedBuffer {
    pub(super) total: u64,
    /// Bytes not requested yet.
    pub(super) left: u64,
    /// Whether the offer is still to be sent.
    pub(super) unsaid: bool,
    /// Bytes requested and not sent yet.
    pub(super) queued: u64,
    pub(super) going: u64,
}

impl ExposedBuffer {
    /// Returns the size to offer, on the first call only.
    pub(super) fn say(&mut self) -> Option<u64> {
        std::mem::take(&mut self.unsaid).then_some(self.total)
    }

    pub(super) fn is_unsaid(&self) -> bool {
        self.unsaid
    }

    /// Whether requested bytes must be sent before the lane's end.
    pub(super) fn is_queued(&self) -> bool {
        self.queued > 0
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queued == 0 && self.going == 0
    }

    /// Withdraws the bytes that are not requested yet.
    pub(super) fn withdraw(&mut self) {
        (self.left, self.unsaid) = (0, false);
    }
}

/// The reader's receive buffer, and the bytes offered to it.
#[derive(Debug, Default)]
pub(super) struct ReaderBuffer {
    /// Offered bytes that are not requested yet, or are in flight.
    pub(super) offered: u64,
    pub(super) space: Option<PostedBuffer>,
    /// Whether the previous buffer was filled.
    pub(super) filled: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PostedBuffer {
    pub(super) tag: u16,
    pub(super) len: u64,
    /// Whether MPI is writing into the buffer.
    pub(super) is_written: bool,
}

impl ReaderBuffer {
    pub(super) fn is_offered(&self) -> bool {
        self.offered > 0
    }

    /// Whether all offered bytes are received or being received, so that later messages may be read.
    pub(super) fn allows_later_messages(&self) -> bool {
        self.offered == 0 || self.space.is_some_and(|space| space.is_written && space.len == self.offered)
    }

    /// Whether MPI writes into the buffer, which must then outlive the lane.
    pub(super) fn is_written(&self) -> bool {
        self.space.is_some_and(|space| space.is_written)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.space.is_none()
    }
}

/// All exposed buffers of a rank.
#[derive(Debug)]
pub(super) struct ExposedBuffers {
    /// Parts requested and not sent yet.
    pub(super) asked: VecDeque<ExposedPart>,
    /// Messages in flight or about to be sent, by id.
    pub(super) going: BTreeMap<u64, MessageInFlight>,
    /// Messages for posted receives that were sent, and whose sender was not notified yet.
    pub(super) sent: Vec<u64>,
    pub(super) ids: u64,
    pub(super) tags: Vec<u16>,
    pub(super) receives: BTreeMap<u16, LaneKey>,
    /// Readers that wait for a free tag.
    pub(super) waiting: BTreeSet<LaneKey>,
}

impl Default for ExposedBuffers {
    fn default() -> Self {
        let tags = (TAG_FIRST..TAG_FIRST + TAKES_MAX).rev().collect();
        Self {
            asked: VecDeque::new(),
            going: BTreeMap::new(),
            sent: Vec::new(),
            ids: 0,
            tags,
            receives: BTreeMap::new(),
            waiting: BTreeSet::new(),
        }
    }
}
