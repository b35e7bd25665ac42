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
use crate::transport::mpi::exposed_buffers::{
    ExposedBuffer, ExposedPart, ExposureState, MESSAGE_MAX, MessageInFlight, OFFER_MAX, PostedBuffer,
};
use crate::transport::mpi::message::{Header, LaneKey, MessageKind};
use std::io::{self, ErrorKind};

impl Stream {
    /// Whether MPI uses no memory of this lane.
    pub(super) fn uses_no_mpi_memory(&self) -> bool {
        self.exposed.is_idle() && self.reader.is_idle() && self.posting == 0
    }

    /// Whether bytes must be sent before the lane's end.
    pub(super) fn has_bytes_to_go(&self) -> bool {
        self.exposed.is_queued() || self.posting > 0
    }

    /// Records that requested bytes were passed to MPI.
    fn goes(&mut self, exposed: &ExposedPart) {
        if exposed.is_posted {
            self.posting -= 1;
        } else {
            self.exposed.queued -= exposed.len as u64;
            self.exposed.going += exposed.len as u64;
        }
    }
}

impl Streams {
    /// Exposes `len` bytes, more than 0, which follow all written ones. The caller writes nothing and keeps the buffer
    /// until [`Streams::exposed_buffers`] returns another state than [`ExposureState::UnderWay`].
    ///
    /// # Errors
    /// Returns `BrokenPipe` if the peer reads nothing more, or this side has ended the stream.
    pub fn expose(&mut self, key: LaneKey, len: u64) -> io::Result<()> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Err(ErrorKind::BrokenPipe.into()) };
        lane.check_open()?;
        lane.exposed = ExposedBuffer { total: len, left: len, unsaid: true, queued: 0, going: 0 };
        self.take_turn(key);
        Ok(())
    }

    /// Returns the state of the exposed buffer.
    pub fn exposure(&self, key: LaneKey) -> ExposureState {
        let Some(lane) = self.lanes.get(&key) else { return ExposureState::Over };
        let is_over = lane.closed || lane.unread;
        match (lane.exposed.is_idle(), lane.exposed.left) {
            (true, 0) if !is_over => ExposureState::Done,
            (true, _) if is_over => ExposureState::Over,
            _ => ExposureState::UnderWay,
        }
    }

    /// Returns the next requested part of an exposed buffer, which the caller must send.
    pub fn next_exposed(&mut self) -> Option<ExposedPart> {
        let exposed = self.exposures.asked.pop_front()?;
        if let Some(lane) = self.lanes.get_mut(&exposed.lane) {
            lane.goes(&exposed);
        }
        // The lane's end may wait for this part.
        self.take_turn(exposed.lane);
        Some(exposed)
    }

    /// Records that a message was sent, and MPI has released its memory.
    pub fn was_sent(&mut self, id: u64) {
        let Some(MessageInFlight { lane: key, len, is_posted }) = self.exposures.going.remove(&id) else { return };
        if is_posted {
            return self.exposures.sent.push(id);
        }
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.exposed.going -= len;
        }
        self.woken.insert(key);
        self.forget(key);
    }

    /// Requests at most `len` offered bytes. Returns the tag and the number of bytes, or `None` if the caller must wait.
    pub fn ask(&mut self, key: LaneKey, len: usize) -> Option<(u16, usize)> {
        let lane = self.lanes.get_mut(&key)?;
        if lane.reader.space.is_some() || !lane.reader.is_offered() {
            return None;
        }
        let Some(tag) = self.exposures.tags.pop() else {
            self.exposures.waiting.insert(key);
            return None;
        };
        let len = lane.reader.offered.min(len as u64).min(MESSAGE_MAX);
        lane.reader.space = Some(PostedBuffer { tag, len, is_written: false });
        lane.reader.filled = false;
        self.exposures.receives.insert(tag, key);
        let header =
            Header { kind: MessageKind::Take, by_opener: key.opened_here, number: key.number, value: len, tag };
        self.notes.push_back((key.peer, header));
        Some((tag, len as usize))
    }

    /// Whether the reader's buffer was filled, or `None` while it is in use.
    pub fn filled(&self, key: LaneKey) -> Option<bool> {
        let Some(lane) = self.lanes.get(&key) else { return Some(false) };
        lane.reader.space.is_none().then_some(lane.reader.filled)
    }

    /// Records that a message for a reader's buffer has arrived.
    pub(super) fn begin_reader_receive(&mut self, from: u32, tag: u16, len: usize) -> io::Result<LaneKey> {
        let unasked = || io::Error::new(ErrorKind::InvalidData, "a rank sends bytes that were not requested");
        let key = self.exposures.receives.get(&tag).copied().filter(|key| key.peer == from).ok_or_else(unasked)?;
        let lane = self.lanes.get_mut(&key).ok_or_else(unasked)?;
        match &mut lane.reader.space {
            Some(space) if space.len == len as u64 && !space.is_written => space.is_written = true,
            _ => return Err(unasked()),
        }
        Ok(key)
    }

    /// Records that the message has been received completely.
    pub(super) fn end_reader_receive(&mut self, tag: u16) {
        if let Some(key) = self.exposures.receives.get(&tag).copied() {
            self.end_receive(key, true);
            self.forget(key);
        }
    }

    /// Releases a reader's buffer.
    pub(super) fn end_receive(&mut self, key: LaneKey, filled: bool) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        let Some(space) = lane.reader.space.take() else { return };
        if filled {
            lane.reader.offered -= space.len;
        }
        lane.reader.filled = filled;
        self.exposures.receives.remove(&space.tag);
        self.exposures.tags.push(space.tag);
        self.woken.insert(key);
        self.woken.append(&mut self.exposures.waiting);
    }

    pub(super) fn receive_offer(&mut self, key: LaneKey, len: u64) -> io::Result<()> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Ok(()) };
        if lane.finished || !lane.reader.allows_later_messages() || len > OFFER_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "a rank offers bytes out of turn"));
        }
        if !lane.closed {
            lane.passing.offered();
            lane.reader.offered += len;
            self.woken.insert(key);
        }
        Ok(())
    }

    pub(super) fn receive_take(&mut self, key: LaneKey, len: u64, tag: u16) -> io::Result<()> {
        // A lane that was closed here sends `Close`, so that the peer does not wait.
        let Some(lane) = self.lanes.get_mut(&key).filter(|lane| !lane.closed) else { return Ok(()) };
        let wrong = io::Error::new(ErrorKind::InvalidData, "a rank takes bytes that it was not offered");
        let buffer = &mut lane.exposed;
        // The reader has one buffer at a time, and requests more only after the previous message.
        if buffer.unsaid || buffer.queued > 0 || len > buffer.left {
            return Err(wrong);
        }
        let offset = buffer.total - buffer.left;
        buffer.left -= len;
        buffer.queued += len;
        self.exposures.ids += 1;
        let id = self.exposures.ids;
        self.exposures.going.insert(id, MessageInFlight { lane: key, len, is_posted: false });
        let (Ok(offset), Ok(len)) = (usize::try_from(offset), usize::try_from(len)) else { return Err(wrong) };
        self.exposures.asked.push_back(ExposedPart { lane: key, to: key.peer, tag, id, offset, len, is_posted: false });
        Ok(())
    }

    /// Ends all transfers. Memory that MPI does not use returns to its owner.
    pub(super) fn end_exposed(&mut self) {
        let asked = std::mem::take(&mut self.exposures.asked);
        for exposed in asked {
            self.exposures.going.remove(&exposed.id);
            if let Some(lane) = self.lanes.get_mut(&exposed.lane) {
                lane.goes(&exposed);
                lane.exposed.going -= if exposed.is_posted { 0 } else { exposed.len as u64 };
            }
            self.exposures.sent.extend(exposed.is_posted.then_some(exposed.id));
        }
        self.posted.world_ended();
        self.completions.end(None);
        let unwritten = |lane: &Stream| lane.reader.space.is_some_and(|space| !space.is_written);
        let ended: Vec<_> = self.lanes.iter().filter(|(_, lane)| unwritten(lane)).map(|(key, _)| *key).collect();
        ended.into_iter().for_each(|key| self.end_receive(key, false));
    }

    /// Returns all memory to its owners, because the thread no longer calls MPI.
    pub fn left(&mut self) {
        self.exposures.asked.clear();
        let going = std::mem::take(&mut self.exposures.going);
        self.exposures.sent.extend(going.into_iter().filter(|(_, going)| going.is_posted).map(|(id, _)| id));
        self.posted.left();
        self.completions.end(None);
        let all: Vec<_> = self.lanes.keys().copied().collect();
        for key in all {
            if let Some(lane) = self.lanes.get_mut(&key) {
                (lane.exposed.queued, lane.exposed.going, lane.posting) = (0, 0, 0);
            }
            self.end_receive(key, false);
            self.woken.insert(key);
        }
    }
}

#[cfg(test)]
mod tests;
