//! Short messages of a lane that is passed on to another one. Its reader would have to notice each of them first, which takes as long as
//! the way between two ranks; so whoever brings them may write them to the other lane.

use super::Streams;
use crate::transport::mpi::credit::cost;
use crate::transport::mpi::message::{HEADER_LEN, LaneKey};

impl Streams {
    /// The reader of a lane writes all of it to another one, in its order, and takes no more before that is written. So whoever brings messages may do
    /// the same: see [`Streams::take_to_pass`].
    pub fn pass_on(&mut self, key: LaneKey) {
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.passing.allow();
        }
    }

    /// The message that has just come, if it is one to be passed on at once. The lane's reader finds nothing until [`Streams::passed`].
    pub fn take_to_pass(&mut self) -> Option<(LaneKey, Vec<u8>)> {
        let key = self.passable.take()?;
        let lane = self.lanes.get_mut(&key)?;
        let message = lane.inbox.pop_front()?;
        lane.passing.bringer_takes();
        Some((key, message))
    }

    /// The message was passed on, but for `left` bytes at its end: the lane's reader gets these.
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
            // Which counts the message itself when it takes it.
            self.credits.take(key, (bytes - left) as u64);
        }
    }
}

#[cfg(test)]
mod tests;
