//! What is lent for lanes, and what comes into lent room: how far each of it is. What becomes of it is in `streams/lending.rs`.

use super::message::LaneKey;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Messages into lent room that are on their way to a rank at one time.
pub(super) const TAKES_MAX: u16 = 32;
/// Most bytes of one of them: MPI counts in 32 bits.
pub(super) const MESSAGE_MAX: u64 = 1 << 30;
/// Most bytes that a rank may say that it lends at one time.
pub(super) const OFFER_MAX: u64 = 1 << 40;
/// The first tag of those messages; the ones before it are for others.
pub(super) const TAG_FIRST: u16 = 2;

/// Part of what a lane has lent, to be sent by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lent {
    /// Whose.
    pub lane: LaneKey,
    /// Which rank it is for.
    pub to: u32,
    /// What the message is called there.
    pub tag: u16,
    /// What it is called here: a tag may come again before its sender knows that all of it has been sent.
    pub id: u64,
    /// Where in what was lent it begins.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
    /// Whether they go into posted room, and so are not what the lane has lent.
    pub is_posted: bool,
}

/// Bytes on their way from here, or about to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Going {
    pub(super) lane: LaneKey,
    pub(super) len: u64,
    /// See [`Lent`].
    pub(super) is_posted: bool,
}

/// How far a loan is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loan {
    /// All of it has been sent.
    Done,
    /// Some of it may be on its way.
    UnderWay,
    /// Nobody takes it, and nothing of it is on its way.
    Over,
}

/// What the writer of a lane has lent.
#[derive(Debug, Default)]
pub(super) struct Lending {
    pub(super) total: u64,
    /// Was not asked for yet.
    pub(super) left: u64,
    /// The other side does not know of it yet.
    pub(super) unsaid: bool,
    /// Was asked for, and does not go yet.
    pub(super) queued: u64,
    pub(super) going: u64,
}

impl Lending {
    /// What the other side is to hear of, once.
    pub(super) fn say(&mut self) -> Option<u64> {
        std::mem::take(&mut self.unsaid).then_some(self.total)
    }

    pub(super) fn is_unsaid(&self) -> bool {
        self.unsaid
    }

    /// Whether something has to go before an end is said.
    pub(super) fn is_queued(&self) -> bool {
        self.queued > 0
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queued == 0 && self.going == 0
    }

    /// What was not asked for never is.
    pub(super) fn withdraw(&mut self) {
        (self.left, self.unsaid) = (0, false);
    }
}

/// What the reader of a lane has lent, and what was offered to it.
#[derive(Debug, Default)]
pub(super) struct Borrowing {
    /// Bytes that come next and were not asked for, or are on their way.
    pub(super) offered: u64,
    pub(super) room: Option<Room>,
    /// The latest room was filled.
    pub(super) filled: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) tag: u16,
    pub(super) len: u64,
    /// MPI writes there.
    pub(super) is_written: bool,
}

impl Borrowing {
    pub(super) fn is_offered(&self) -> bool {
        self.offered > 0
    }

    /// Whether all that was offered is there or in the middle of coming, so that what comes after it may come.
    pub(super) fn lets_others_come(&self) -> bool {
        self.offered == 0 || self.room.is_some_and(|room| room.is_written && room.len == self.offered)
    }

    /// Whether MPI writes into the room: the lane's end is not the room's.
    pub(super) fn is_written(&self) -> bool {
        self.room.is_some_and(|room| room.is_written)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.room.is_none()
    }
}

/// What is lent at a rank.
#[derive(Debug)]
pub(super) struct Loans {
    /// Asked for, and not sent yet.
    pub(super) asked: VecDeque<Lent>,
    /// On their way or about to be, by their ids.
    pub(super) going: BTreeMap<u64, Going>,
    /// Those for posted room that have been sent, and whose sender was not told.
    pub(super) sent: Vec<u64>,
    pub(super) ids: u64,
    pub(super) tags: Vec<u16>,
    pub(super) rooms: BTreeMap<u16, LaneKey>,
    /// Readers that wait for a tag.
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
