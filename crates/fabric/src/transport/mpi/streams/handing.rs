//! Short messages that reach a lane's reader through its mailbox, bypassing this state machine.

use super::{Stream, Streams};
use crate::transport::mpi::mailbox::MESSAGE_MAX;
use crate::transport::mpi::message::{HEADER_LEN, LaneKey};

impl Streams {
    /// Whether a received message of so many bytes, the only one of its lane, may move to the mailbox. The reader reports the
    /// message's credit late. So the lane must hold no credit from the pool, for which other lanes may wait.
    pub(super) fn may_hand_over(&self, key: LaneKey, bytes: usize) -> bool {
        let is_readers = |lane: &Stream| !lane.passing.is_allowed() && !lane.reader.is_offered();
        bytes <= MESSAGE_MAX && self.lanes.get(&key).is_some_and(is_readers) && !self.credits.has_pool_credit(key)
    }

    /// Passes the message just received to `put`, if it may move to the mailbox. If `put` returns `false` the message stays
    /// here. Messages in the mailbox precede all others of the lane. [`Streams::report_read`] counts them as read.
    pub fn hand_over(&mut self, put: impl FnOnce(LaneKey, &[u8]) -> bool) {
        let Some(key) = self.shortcuts.hand_over.take() else { return };
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        if lane.inbox.front().is_some_and(|message| put(key, &message[HEADER_LEN..])) {
            lane.inbox.pop_front();
        } else {
            self.woken.insert(key);
        }
    }

    /// Records that messages of this cost were read from the mailbox.
    pub fn report_read(&mut self, key: LaneKey, cost: u64) {
        if cost > 0 {
            self.credits.take(key, cost);
        }
    }
}

#[cfg(test)]
mod tests;
