//! Short messages of a lane that is passed on to another one. Its reader would have to notice each of them first, which takes as long as
//! the way between two ranks; so whoever brings them may write them to the other lane.

use super::Streams;
use crate::transport::mpi::credit::cost;
use crate::transport::mpi::message::{HEADER_LEN, LaneKey};

/// Most bytes of a message that is passed on by whoever brings it: that one has others to bring.
const PASSED_MAX: usize = 4 << 10;
/// So many short ones come before one is: a reader that is not needed sleeps, and long ones would find it so.
const SHORT_RUN: u32 = 8;

/// Who has bytes of a lane that were not written to the other one yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Holder {
    /// Nobody.
    #[default]
    Nobody,
    /// The lane's reader, until it comes for more.
    Reader,
    /// Whoever brings messages.
    Bringer,
}

/// How a lane is passed on.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// Whether whoever brings messages may do it.
    allowed: bool,
    holder: Holder,
    /// Short messages since the last long one.
    short_run: u32,
}

impl Passing {
    /// The reader comes for more; whether it has to wait for what was brought before.
    pub(super) fn reader_comes(&mut self) -> bool {
        if self.holder == Holder::Reader {
            self.holder = Holder::Nobody;
        }
        self.holder == Holder::Bringer
    }

    pub(super) fn reader_takes(&mut self) {
        self.holder = Holder::Reader;
    }

    /// Bytes are lent, to be taken by the reader.
    pub(super) fn offered(&mut self) {
        self.short_run = 0;
    }

    /// A message of so many bytes has come; whether it may be passed on if nothing is before it.
    pub(super) fn comes(&mut self, bytes: usize) -> bool {
        self.short_run = if bytes > PASSED_MAX { 0 } else { self.short_run.saturating_add(1) };
        self.allowed && self.holder == Holder::Nobody && self.short_run > SHORT_RUN
    }
}

impl Streams {
    /// The reader of a lane writes all of it to another one, in its order, and takes no more before that is written. So whoever brings messages may do
    /// the same: see [`Streams::take_to_pass`].
    pub fn pass_on(&mut self, key: LaneKey) {
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.passing.allowed = true;
        }
    }

    /// The message that has just come, if it is one to be passed on at once. The lane's reader finds nothing until [`Streams::passed`].
    pub fn take_to_pass(&mut self) -> Option<(LaneKey, Vec<u8>)> {
        let key = self.passable.take()?;
        let lane = self.lanes.get_mut(&key)?;
        let message = lane.inbox.pop_front()?;
        lane.passing.holder = Holder::Bringer;
        Some((key, message))
    }

    /// The message was passed on, but for `left` bytes at its end: the lane's reader gets these.
    pub fn passed(&mut self, key: LaneKey, mut message: Vec<u8>, left: usize) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        lane.passing.holder = Holder::Nobody;
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
