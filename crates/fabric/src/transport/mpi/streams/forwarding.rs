//! Short messages of a lane that is forwarded to another lane. Waking its reader for each takes as long as a transfer
//! between two ranks. So the thread that receives a message may write it to the other lane.

use super::Streams;
use crate::transport::mpi::credit::cost;
use crate::transport::mpi::message::{HEADER_LEN, LaneKey};

impl Streams {
    /// Declares that the lane's reader writes all bytes in order to another lane, and reads no more before they are written.
    /// So the receiving thread may do the same, see [`Streams::take_to_pass`].
    pub fn pass_on(&mut self, key: LaneKey) {
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.passing.allow();
        }
    }

    /// Returns the message just received, if the receiving thread should forward it. The lane's reader finds no message
    /// until [`Streams::passed`].
    pub fn take_to_pass(&mut self) -> Option<(LaneKey, Vec<u8>)> {
        let key = self.shortcuts.forward.take()?;
        let lane = self.lanes.get_mut(&key)?;
        let message = lane.inbox.pop_front()?;
        lane.passing.bringer_takes();
        Some((key, message))
    }

    /// Records that the message was forwarded, except for its last `left` bytes, which the lane's reader gets.
    pub fn passed(&mut self, key: LaneKey, mut message: Vec<u8>, left: usize) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        lane.passing.bringer_is_done();
        let bytes = message.len() - HEADER_LEN;
        if left == 0 {
            return self.credits.take(key, cost(bytes));
        }
        if !lane.closed {
            message.drain(HEADER_LEN..HEADER_LEN + bytes - left);
            lane.inbox.push_front(message);
            self.woken.insert(key);
            // The message's overhead counts when the reader takes its rest.
            self.credits.take(key, (bytes - left) as u64);
        }
    }
}

#[cfg(test)]
mod tests;
