//! Room that waits for its message: whoever has it says by other means ([`crate::transfer`]) by which tag the bytes are to come, and they come
//! without an offer.
//!
//! ```text
//! reader  (posts room, has the tag told)
//! writer  a message with the tag        ->  into the room
//!                                       <-  Landed: it is there, or was thrown away            reader's rank
//! ```
//!
//! Room ends when its message is there, when the lane by which it was posted ends, or when its reader withdraws it, who was told by other means that
//! nothing comes. One that has no use for it and was not told abandons it: a message that comes all the same is thrown away.

use super::loan::{TAG_FIRST, TAKES_MAX};
use super::message::LaneKey;
use std::collections::BTreeMap;

/// Room that is posted at a rank at one time.
pub(super) const POSTED_MAX: u16 = 32;
/// The first tag of messages into posted room; those before it are for lanes' readers.
pub(super) const POSTED_TAG_FIRST: u16 = TAG_FIRST + TAKES_MAX;

/// Messages into posted room that have not landed yet, at the rank that sends them.
#[derive(Debug, Default)]
pub(super) struct Completions {
    /// By lane and tag: a tag is another message's only when the one before has come.
    awaited: BTreeMap<(LaneKey, u16), u64>,
    /// What was said of whom, or that nothing will be; and was not told.
    pub(super) told: Vec<(u64, bool)>,
}

impl Completions {
    pub(super) fn add(&mut self, key: LaneKey, tag: u16, id: u64) {
        // A peer that gives a tag twice before it has said what became of the first message.
        let before = self.awaited.insert((key, tag), id);
        self.told.extend(before.map(|id| (id, false)));
    }

    /// It has come, and is there or was thrown away.
    pub(super) fn come(&mut self, key: LaneKey, tag: u16, is_there: bool) {
        self.told.extend(self.awaited.remove(&(key, tag)).map(|id| (id, is_there)));
    }

    /// Nobody wants to know any more.
    pub(super) fn forget(&mut self, id: u64) {
        self.awaited.retain(|_, awaited| *awaited != id);
    }

    /// Nothing is said of those of a lane any more, or with none, of any.
    pub(super) fn end(&mut self, of: Option<LaneKey>) {
        let (awaited, told) = (&mut self.awaited, &mut self.told);
        awaited.retain(|(key, _), id| {
            let ends = of.is_none_or(|of| of == *key);
            told.extend(ends.then_some((*id, false)));
            !ends
        });
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.awaited.is_empty() && self.told.is_empty()
    }
}

/// Where a message of lent bytes goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoomOf {
    /// The room that a lane's reader has lent.
    Reader(LaneKey),
    /// Posted room, by its id.
    Posted(u64),
    /// Nowhere: its room was abandoned.
    Nobody,
}

/// Room that was posted at a rank.
#[derive(Debug)]
pub(super) struct PostedRooms {
    pub(super) rooms: BTreeMap<u16, Posted>,
    pub(super) tags: Vec<u16>,
    /// What has ended, and whether the bytes are there, and was not told.
    pub(super) ended: Vec<(u64, bool)>,
    ids: u64,
}

#[derive(Debug)]
pub(super) struct Posted {
    pub(super) id: u64,
    /// By which lane.
    pub(super) lane: LaneKey,
    pub(super) len: u64,
    /// MPI writes there.
    pub(super) is_written: bool,
    /// Nobody wants what comes.
    pub(super) is_abandoned: bool,
}

impl Default for PostedRooms {
    fn default() -> Self {
        let tags = (POSTED_TAG_FIRST..POSTED_TAG_FIRST + POSTED_MAX).rev().collect();
        Self { rooms: BTreeMap::new(), tags, ended: Vec::new(), ids: 0 }
    }
}

impl PostedRooms {
    /// Posts room by a lane: its id, and its tag. None if too much is posted.
    pub(super) fn add(&mut self, lane: LaneKey, len: u64) -> Option<(u64, u16)> {
        let tag = self.tags.pop()?;
        self.ids += 1;
        let posted = Posted { id: self.ids, lane, len, is_written: false, is_abandoned: false };
        self.rooms.insert(tag, posted);
        Some((self.ids, tag))
    }

    /// Room is its owner's again.
    pub(super) fn end(&mut self, tag: u16, filled: bool) {
        let Some(Posted { id, is_abandoned, .. }) = self.rooms.remove(&tag) else { return };
        self.tags.push(tag);
        self.ended.push((id, filled && !is_abandoned));
    }

    /// Nothing comes any more for those of which that is said, but for what MPI is writing.
    fn end_all(&mut self, which: impl Fn(&Posted) -> bool) {
        let ended: Vec<_> = self.rooms.iter().filter(|(_, posted)| which(posted)).map(|(tag, _)| *tag).collect();
        ended.into_iter().for_each(|tag| self.end(tag, false));
    }

    pub(super) fn of_id(&mut self, id: u64) -> Option<(u16, &mut Posted)> {
        self.rooms.iter_mut().find(|(_, posted)| posted.id == id).map(|(tag, posted)| (*tag, posted))
    }

    /// The lane's peer sends nothing more.
    pub(super) fn lane_finished(&mut self, key: LaneKey) {
        self.end_all(|posted| posted.lane == key && !posted.is_written);
    }

    /// Nothing comes any more from any rank.
    pub(super) fn world_ended(&mut self) {
        self.end_all(|posted| !posted.is_written);
    }

    /// MPI is not called any more.
    pub(super) fn left(&mut self) {
        self.end_all(|_| true);
    }
}
