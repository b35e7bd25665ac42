//! The state of exposed buffers and of receive buffers of lanes. Their transitions are in `streams/lending.rs`.

use super::message::LaneKey;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most messages into receive buffers in flight to a rank.
pub(super) const TAKES_MAX: u16 = 32;
/// Most bytes of one such message: MPI counts in 32 bits.
pub(super) const MESSAGE_MAX: u64 = 1 << 30;
/// Most bytes that a rank may offer at a time.
pub(super) const OFFER_MAX: u64 = 1 << 40;
/// The first tag of those messages; lower tags have other uses.
pub(super) const TAG_FIRST: u16 = 2;

/// Part of an exposed buffer, sent in a message of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lent {
    /// The lane.
    pub lane: LaneKey,
    /// The receiving rank.
    pub to: u32,
    /// The message's tag at the receiver.
    pub tag: u16,
    /// The message's id at the sender: a tag may be reused before the sender learns that its message has been sent.
    pub id: u64,
    /// Offset in the exposed buffer.
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
    /// Whether the message is for a posted receive, and so not part of the lane's exposed buffer.
    pub is_posted: bool,
}

/// A message in flight, or about to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Going {
    pub(super) lane: LaneKey,
    pub(super) len: u64,
    /// Whether it goes to a posted receive, see [`Lent::is_posted`].
    pub(super) is_posted: bool,
}

/// The state of an exposed buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loan {
    /// All bytes have been sent.
    Done,
    /// Bytes of it may be in flight.
    UnderWay,
    /// The peer takes no more bytes, and none are in flight.
    Over,
}

/// The writer's exposed buffer.
#[derive(Debug, Default)]
pub(super) struct Lending {
    pub(super) total: u64,
    /// Bytes not requested yet.
    pub(super) left: u64,
    /// Whether the offer has not been sent yet.
    pub(super) unsaid: bool,
    /// Bytes requested and not sent yet.
    pub(super) queued: u64,
    pub(super) going: u64,
}

impl Lending {
    /// Returns the size to offer, once.
    pub(super) fn say(&mut self) -> Option<u64> {
        std::mem::take(&mut self.unsaid).then_some(self.total)
    }

    pub(super) fn is_unsaid(&self) -> bool {
        self.unsaid
    }

    /// Whether requested bytes have to be sent before the lane's end.
    pub(super) fn is_queued(&self) -> bool {
        self.queued > 0
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queued == 0 && self.going == 0
    }

    /// Withdraws the bytes that were not requested.
    pub(super) fn withdraw(&mut self) {
        (self.left, self.unsaid) = (0, false);
    }
}

/// The reader's receive buffer, and the bytes offered to it.
#[derive(Debug, Default)]
pub(super) struct Borrowing {
    /// Offered bytes that were not requested, or are in flight.
    pub(super) offered: u64,
    pub(super) room: Option<Room>,
    /// Whether the latest buffer was filled.
    pub(super) filled: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) tag: u16,
    pub(super) len: u64,
    /// MPI is writing there.
    pub(super) is_written: bool,
}

impl Borrowing {
    pub(super) fn is_offered(&self) -> bool {
        self.offered > 0
    }

    /// Whether all offered bytes are received or being received, so that later messages may be taken.
    pub(super) fn lets_others_come(&self) -> bool {
        self.offered == 0 || self.room.is_some_and(|room| room.is_written && room.len == self.offered)
    }

    /// Whether MPI writes into the buffer, which must then outlive the lane.
    pub(super) fn is_written(&self) -> bool {
        self.room.is_some_and(|room| room.is_written)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.room.is_none()
    }
}

/// The exposed buffers of a rank.
#[derive(Debug)]
pub(super) struct Loans {
    /// Requested and not sent yet.
    pub(super) asked: VecDeque<Lent>,
    /// Loans in flight or about to be, by id.
    pub(super) going: BTreeMap<u64, Going>,
    /// Messages for posted receives that have been sent, and whose sender was not notified yet.
    pub(super) sent: Vec<u64>,
    pub(super) ids: u64,
    pub(super) tags: Vec<u16>,
    pub(super) rooms: BTreeMap<u16, LaneKey>,
    /// Readers that wait for a free tag.
    pub(super) waiting: BTreeSet<LaneKey>,
}

impl Default for Loans {
    fn default() -> Self {
        let tags = (TAG_FIRST..TAG_FIRST + TAKES_MAX).rev().collect();
        Self {
            asked: VecDeque::new(),
            going: BTreeMap::new(),
            sent: Vec::new(),
            ids: 0,
            tags,
            rooms: BTreeMap::new(),
            waiting: BTreeSet::new(),
        }
    }
}
