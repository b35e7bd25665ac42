//! Short messages that are handed to a lane's reader, which takes them without this machine.

use super::{Stream, Streams};
use crate::transport::mpi::mailbox::MESSAGE_MAX;
use crate::transport::mpi::message::{HEADER_LEN, LaneKey};

impl Streams {
    /// Whether a message of so many bytes that has come, and is the only one, may be handed over. That it was read is told late, so nothing may be
    /// lent to the lane's sender, who others may wait for.
    pub(super) fn may_hand_over(&self, key: LaneKey, bytes: usize) -> bool {
        let is_readers = |lane: &Stream| !lane.passing.is_allowed() && !lane.borrowing.is_offered();
        bytes <= MESSAGE_MAX && self.lanes.get(&key).is_some_and(is_readers) && !self.credits.lends_to(key)
    }

    /// Has `put` take the bytes of the message that has just come, if that may be handed over; else, or where it does not take them, the reader finds it as
    /// any other. Those that are handed over come before all others of the lane, and count as read when [`Streams::took`] is told so.
    pub fn hand_over(&mut self, put: impl FnOnce(LaneKey, &[u8]) -> bool) {
        let Some(key) = self.handable.take() else { return };
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        if lane.inbox.front().is_some_and(|message| put(key, &message[HEADER_LEN..])) {
            lane.inbox.pop_front();
        } else {
            self.woken.insert(key);
        }
    }

    /// Messages that were handed over were read, which count so much.
    pub fn took(&mut self, key: LaneKey, cost: u64) {
        if cost > 0 {
            self.credits.take(key, cost);
        }
    }
}

#[cfg(test)]
mod tests;
