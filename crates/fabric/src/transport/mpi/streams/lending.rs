//! Bytes that lanes do not copy. The writer exposes its buffer and blocks; the reader exposes a receive buffer and
//! blocks too. MPI moves the bytes between them in a message of their own.
//!
//! ```text
//! writer  Offer: the number of bytes    ->
//!                                       <-   Take: a buffer's size and tag                reader
//!         a message with the tag        ->   into the buffer
//! ```
//!
//! No byte is sent before it has a buffer, so that it uses no credit. Tags belong to the reader's rank, which has few. They
//! bound the messages in flight to a rank, whichever ranks send them.

use super::{Stream, Streams};
use crate::transport::mpi::loan::{Going, Lending, Lent, Loan, MESSAGE_MAX, OFFER_MAX, Room};
use crate::transport::mpi::message::{Header, LaneKey, MessageKind};
use std::io::{self, ErrorKind};

impl Stream {
    /// Whether MPI uses no memory of this lane.
    pub(super) fn owes_nothing(&self) -> bool {
        self.lending.is_idle() && self.borrowing.is_idle() && self.posting == 0
    }

    /// Whether bytes must be sent before the lane's end.
    pub(super) fn has_bytes_to_go(&self) -> bool {
        self.lending.is_queued() || self.posting > 0
    }

    /// Records that requested bytes were passed to MPI.
    fn goes(&mut self, lent: &Lent) {
        if lent.is_posted {
            self.posting -= 1;
        } else {
            self.lending.queued -= lent.len as u64;
            self.lending.going += lent.len as u64;
        }
    }
}

impl Streams {
    /// Exposes `len` bytes, more than 0, which follow all written ones. The caller writes nothing and keeps the buffer
    /// until [`Streams::loan`] returns another state than [`Loan::UnderWay`].
    ///
    /// # Errors
    /// Returns `BrokenPipe` if the peer reads nothing more, or this side has ended the stream.
    pub fn lend(&mut self, key: LaneKey, len: u64) -> io::Result<()> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Err(ErrorKind::BrokenPipe.into()) };
        lane.check_open()?;
        lane.lending = Lending { total: len, left: len, unsaid: true, queued: 0, going: 0 };
        self.take_turn(key);
        Ok(())
    }

    /// Returns the state of the exposed buffer.
    pub fn loan(&self, key: LaneKey) -> Loan {
        let Some(lane) = self.lanes.get(&key) else { return Loan::Over };
        let is_over = lane.closed || lane.unread;
        match (lane.lending.is_idle(), lane.lending.left) {
            (true, 0) if !is_over => Loan::Done,
            (true, _) if is_over => Loan::Over,
            _ => Loan::UnderWay,
        }
    }

    /// Returns the next requested part of an exposed buffer, which the caller must send.
    pub fn next_lent(&mut self) -> Option<Lent> {
        let lent = self.loans.asked.pop_front()?;
        if let Some(lane) = self.lanes.get_mut(&lent.lane) {
            lane.goes(&lent);
        }
        // The lane's end may wait for this part.
        self.take_turn(lent.lane);
        Some(lent)
    }

    /// Records that a message was sent, and MPI has released its memory.
    pub fn was_sent(&mut self, id: u64) {
        let Some(Going { lane: key, len, is_posted }) = self.loans.going.remove(&id) else { return };
        if is_posted {
            return self.loans.sent.push(id);
        }
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.lending.going -= len;
        }
        self.woken.insert(key);
        self.forget(key);
    }

    /// Requests at most `len` offered bytes. Returns the tag and the number of bytes, or `None` if the caller must wait.
    pub fn ask(&mut self, key: LaneKey, len: usize) -> Option<(u16, usize)> {
        let lane = self.lanes.get_mut(&key)?;
        if lane.borrowing.room.is_some() || !lane.borrowing.is_offered() {
            return None;
        }
        let Some(tag) = self.loans.tags.pop() else {
            self.loans.waiting.insert(key);
            return None;
        };
        let len = lane.borrowing.offered.min(len as u64).min(MESSAGE_MAX);
        lane.borrowing.room = Some(Room { tag, len, is_written: false });
        lane.borrowing.filled = false;
        self.loans.rooms.insert(tag, key);
        let header =
            Header { kind: MessageKind::Take, by_opener: key.opened_here, number: key.number, value: len, tag };
        self.notes.push_back((key.peer, header));
        Some((tag, len as usize))
    }

    /// Whether the reader's buffer was filled, or `None` while it is in use.
    pub fn filled(&self, key: LaneKey) -> Option<bool> {
        let Some(lane) = self.lanes.get(&key) else { return Some(false) };
        lane.borrowing.room.is_none().then_some(lane.borrowing.filled)
    }

    /// Records that a message for a reader's buffer has arrived.
    pub(super) fn comes_to_reader(&mut self, from: u32, tag: u16, len: usize) -> io::Result<LaneKey> {
        let unasked = || io::Error::new(ErrorKind::InvalidData, "a rank sends bytes that were not requested");
        let key = self.loans.rooms.get(&tag).copied().filter(|key| key.peer == from).ok_or_else(unasked)?;
        let lane = self.lanes.get_mut(&key).ok_or_else(unasked)?;
        match &mut lane.borrowing.room {
            Some(room) if room.len == len as u64 && !room.is_written => room.is_written = true,
            _ => return Err(unasked()),
        }
        Ok(key)
    }

    /// Records that the message has been received completely.
    pub(super) fn came_to_reader(&mut self, tag: u16) {
        if let Some(key) = self.loans.rooms.get(&tag).copied() {
            self.end_room(key, true);
            self.forget(key);
        }
    }

    /// Releases a reader's buffer.
    pub(super) fn end_room(&mut self, key: LaneKey, filled: bool) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        let Some(room) = lane.borrowing.room.take() else { return };
        if filled {
            lane.borrowing.offered -= room.len;
        }
        lane.borrowing.filled = filled;
        self.loans.rooms.remove(&room.tag);
        self.loans.tags.push(room.tag);
        self.woken.insert(key);
        self.woken.append(&mut self.loans.waiting);
    }

    pub(super) fn receive_offer(&mut self, key: LaneKey, len: u64) -> io::Result<()> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Ok(()) };
        if lane.finished || !lane.borrowing.lets_others_come() || len > OFFER_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "a rank lends out of turn"));
        }
        if !lane.closed {
            lane.passing.offered();
            lane.borrowing.offered += len;
            self.woken.insert(key);
        }
        Ok(())
    }

    pub(super) fn receive_take(&mut self, key: LaneKey, len: u64, tag: u16) -> io::Result<()> {
        // A lane that was closed here sends `Close`, so that the peer does not wait.
        let Some(lane) = self.lanes.get_mut(&key).filter(|lane| !lane.closed) else { return Ok(()) };
        let wrong = io::Error::new(ErrorKind::InvalidData, "a rank takes what was not lent");
        let lending = &mut lane.lending;
        // The reader has one buffer at a time, and requests more only after the previous message.
        if lending.unsaid || lending.queued > 0 || len > lending.left {
            return Err(wrong);
        }
        let offset = lending.total - lending.left;
        lending.left -= len;
        lending.queued += len;
        self.loans.ids += 1;
        let id = self.loans.ids;
        self.loans.going.insert(id, Going { lane: key, len, is_posted: false });
        let (Ok(offset), Ok(len)) = (usize::try_from(offset), usize::try_from(len)) else { return Err(wrong) };
        self.loans.asked.push_back(Lent { lane: key, to: key.peer, tag, id, offset, len, is_posted: false });
        Ok(())
    }

    /// Ends all transfers. Memory that MPI does not use returns to its owner.
    pub(super) fn end_loans(&mut self) {
        let asked = std::mem::take(&mut self.loans.asked);
        for lent in asked {
            self.loans.going.remove(&lent.id);
            if let Some(lane) = self.lanes.get_mut(&lent.lane) {
                lane.goes(&lent);
                lane.lending.going -= if lent.is_posted { 0 } else { lent.len as u64 };
            }
            self.loans.sent.extend(lent.is_posted.then_some(lent.id));
        }
        self.posted.world_ended();
        self.completions.end(None);
        let unwritten = |lane: &Stream| lane.borrowing.room.is_some_and(|room| !room.is_written);
        let ended: Vec<_> = self.lanes.iter().filter(|(_, lane)| unwritten(lane)).map(|(key, _)| *key).collect();
        ended.into_iter().for_each(|key| self.end_room(key, false));
    }

    /// Returns all memory to its owners, because the thread no longer calls MPI.
    pub fn left(&mut self) {
        self.loans.asked.clear();
        let going = std::mem::take(&mut self.loans.going);
        self.loans.sent.extend(going.into_iter().filter(|(_, going)| going.is_posted).map(|(id, _)| id));
        self.posted.left();
        self.completions.end(None);
        let all: Vec<_> = self.lanes.keys().copied().collect();
        for key in all {
            if let Some(lane) = self.lanes.get_mut(&key) {
                (lane.lending.queued, lane.lending.going, lane.posting) = (0, 0, 0);
            }
            self.end_room(key, false);
            self.woken.insert(key);
        }
    }
}

#[cfg(test)]
mod tests;
