//! Posted receives. Their owner sends the tag to the writer by other means ([`crate::transfer`]). The writer sends the
//! bytes with that tag, without an offer.
//!
//! ```text
//! reader  (posts a receive, sends the tag)
//! writer  a message with the tag        ->  into the buffer
//!                                       <-  Landed: received or discarded            reader's rank
//! ```
//!
//! A receive ends when its message has been received, when its lane ends, or when its owner withdraws it because no message
//! will be sent. An owner that does not know this abandons the receive instead; its message is then discarded.

use super::exposed_buffers::{TAG_FIRST, TAKES_MAX};
use super::message::LaneKey;
use std::collections::BTreeMap;

/// Most receives posted at a rank.
pub(super) const POSTED_MAX: u16 = 32;
/// The first tag of posted receives; lower tags are for lanes' readers.
pub(super) const POSTED_TAG_FIRST: u16 = TAG_FIRST + TAKES_MAX;

/// Messages to posted receives whose outcome is not known yet, at the sending rank.
#[derive(Debug, Default)]
pub(super) struct Completions {
    /// Indexed by lane and tag: a tag is reused only after its message has arrived.
    awaited: BTreeMap<(LaneKey, u16), u64>,
    /// Outcomes that were not reported yet; `false` also if the outcome will never be known.
    pub(super) reported: Vec<(u64, bool)>,
}

impl Completions {
    pub(super) fn add(&mut self, key: LaneKey, tag: u16, id: u64) {
        // A faulty peer may reuse a tag before it has reported the first message's outcome.
        let before = self.awaited.insert((key, tag), id);
        self.reported.extend(before.map(|id| (id, false)));
    }

    /// Records the outcome of a message: received or discarded.
    pub(super) fn come(&mut self, key: LaneKey, tag: u16, is_there: bool) {
        self.reported.extend(self.awaited.remove(&(key, tag)).map(|id| (id, is_there)));
    }

    /// Drops a message whose sender has gone.
    pub(super) fn forget(&mut self, id: u64) {
        self.awaited.retain(|_, awaited| *awaited != id);
    }

    /// Ends the messages of a lane, or of all lanes for `None`, with unknown outcome.
    pub(super) fn end(&mut self, of: Option<LaneKey>) {
        let (awaited, reported) = (&mut self.awaited, &mut self.reported);
        awaited.retain(|(key, _), id| {
            let ends = of.is_none_or(|of| of == *key);
            reported.extend(ends.then_some((*id, false)));
            !ends
        });
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.awaited.is_empty() && self.reported.is_empty()
    }
}

/// The destination of a message without a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveTarget {
    /// The buffer of a lane's reader.
    Reader(LaneKey),
    /// A posted receive, by its id.
    Posted(u64),
    /// None: the receive was abandoned, and the message is discarded.
    Abandoned,
}

/// The posted receives of a rank.
#[derive(Debug)]
pub(super) struct PostedReceives {
    pub(super) receives: BTreeMap<u16, Posted>,
    pub(super) tags: Vec<u16>,
    /// Receives that are over but not reported yet, and whether they were filled.
    pub(super) ended: Vec<(u64, bool)>,
    ids: u64,
}

#[derive(Debug)]
pub(super) struct Posted {
    pub(super) id: u64,
    /// The lane that posted the receive.
    pub(super) lane: LaneKey,
    pub(super) len: u64,
    pub(super) state: ReceiveState,
}

/// The state of a posted receive, from its posting to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReceiveState {
    /// No message has arrived.
    Posted,
    /// No message has arrived, and the owner has given up the receive.
    Abandoned,
    /// MPI is writing into the owner's buffer.
    Receiving,
    /// MPI is writing the message elsewhere, to be discarded.
    Discarding,
}

impl Posted {
    /// Whether a message has arrived, which MPI is writing.
    pub(super) fn is_written(&self) -> bool {
        matches!(self.state, ReceiveState::Receiving | ReceiveState::Discarding)
    }

    /// Gives up the receive, unless its message has arrived.
    pub(super) fn abandon(&mut self) {
        if self.state == ReceiveState::Posted {
            self.state = ReceiveState::Abandoned;
        }
    }
}

impl Default for PostedReceives {
    fn default() -> Self {
        let tags = (POSTED_TAG_FIRST..POSTED_TAG_FIRST + POSTED_MAX).rev().collect();
        Self { receives: BTreeMap::new(), tags, ended: Vec::new(), ids: 0 }
    }
}

impl PostedReceives {
    /// Posts a receive. Returns its id and tag, or `None` if too many are posted.
    pub(super) fn add(&mut self, lane: LaneKey, len: u64) -> Option<(u64, u16)> {
        let tag = self.tags.pop()?;
        self.ids += 1;
        let posted = Posted { id: self.ids, lane, len, state: ReceiveState::Posted };
        self.receives.insert(tag, posted);
        Some((self.ids, tag))
    }

    /// Ends a receive and gives the buffer back to its owner.
    pub(super) fn end(&mut self, tag: u16, filled: bool) {
        let Some(Posted { id, state, .. }) = self.receives.remove(&tag) else { return };
        self.tags.push(tag);
        self.ended.push((id, filled && state == ReceiveState::Receiving));
    }

    /// Ends the receives for which `which` holds.
    fn end_all(&mut self, which: impl Fn(&Posted) -> bool) {
        let ended: Vec<_> = self.receives.iter().filter(|(_, posted)| which(posted)).map(|(tag, _)| *tag).collect();
        ended.into_iter().for_each(|tag| self.end(tag, false));
    }

    pub(super) fn of_id(&mut self, id: u64) -> Option<(u16, &mut Posted)> {
        self.receives.iter_mut().find(|(_, posted)| posted.id == id).map(|(tag, posted)| (*tag, posted))
    }

    /// Ends the lane's receives that MPI is not writing, because the peer sends no more messages.
    pub(super) fn lane_finished(&mut self, key: LaneKey) {
        self.end_all(|posted| posted.lane == key && !posted.is_written());
    }

    /// Ends all receives that MPI is not writing, because every rank has disconnected.
    pub(super) fn world_ended(&mut self) {
        self.end_all(|posted| !posted.is_written());
    }

    /// Ends all receives, because the thread no longer calls MPI.
    pub(super) fn left(&mut self) {
        self.end_all(|_| true);
    }
}
