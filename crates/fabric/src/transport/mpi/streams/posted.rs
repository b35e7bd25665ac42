//! Posted receives of lanes, see `posted_receives.rs`.

use super::Streams;
use crate::transport::mpi::exposed_buffers::{ExposedPart, MessageInFlight};
use crate::transport::mpi::message::{Header, LANDED, LaneKey, MessageKind, THROWN_AWAY};
use crate::transport::mpi::posted_receives::{ReceiveState, ReceiveTarget};
use std::io::{self, ErrorKind};

impl Streams {
    /// Posts a receive for one message of `len` bytes from the lane's peer. Returns its id and its tag, or `None` if the lane
    /// has ended or too many receives are posted.
    pub fn post(&mut self, key: LaneKey, len: u64) -> Option<(u64, u16)> {
        self.lanes.get(&key).filter(|lane| !lane.closed && !lane.finished)?;
        self.posted.add(key, len)
    }

    /// Withdraws a receive for which the peer has promised to send no message. Returns whether its buffer is free. It is not
    /// if MPI is writing into it nevertheless.
    pub fn withdraw(&mut self, id: u64) -> bool {
        let is_free = self.abandon(id);
        if let Some((tag, _)) = self.posted.of_id(id).filter(|_| is_free) {
            self.posted.end(tag, false);
        }
        is_free
    }

    /// Abandons a receive. Returns whether its buffer is free.
    pub fn abandon(&mut self, id: u64) -> bool {
        let Some((_, posted)) = self.posted.of_id(id) else { return true };
        posted.abandon();
        !posted.is_written()
    }

    /// Returns the next receive that is over, and whether it was filled.
    pub fn next_ended_receive(&mut self) -> Option<(u64, bool)> {
        self.posted.ended.pop()
    }

    /// Records that a message without a header has arrived, and returns its destination. MPI is writing there from now on.
    ///
    /// # Errors
    /// Returns `InvalidData` if no receive is posted for this rank, tag and length.
    pub fn comes(&mut self, from: u32, tag: u16, len: usize) -> io::Result<ReceiveTarget> {
        let Some(posted) = self.posted.receives.get_mut(&tag) else {
            return self.begin_reader_receive(from, tag, len).map(ReceiveTarget::Reader);
        };
        if posted.lane.peer != from || posted.len != len as u64 || posted.is_written() {
            return Err(io::Error::new(ErrorKind::InvalidData, "a rank sends bytes for which no receive is posted"));
        }
        let (state, target) = match posted.state {
            ReceiveState::Abandoned => (ReceiveState::Discarding, ReceiveTarget::Abandoned),
            _ => (ReceiveState::Receiving, ReceiveTarget::Posted(posted.id)),
        };
        posted.state = state;
        Ok(target)
    }

    /// Records that the message has been received completely.
    pub fn received(&mut self, tag: u16) {
        let Some(posted) = self.posted.receives.get(&tag) else { return self.end_reader_receive(tag) };
        let (LaneKey { peer, opened_here: by_opener, number }, kind) = (posted.lane, MessageKind::Landed);
        let value = if posted.state == ReceiveState::Discarding { THROWN_AWAY } else { LANDED };
        self.notes.push_back((peer, Header { kind, by_opener, number, value, tag }));
        self.posted.end(tag, true);
    }

    /// Sends `len` bytes, more than 0, to a receive that the lane's peer has posted. Returns the send's id.
    /// [`Streams::next_exposed`] yields the message, [`Streams::next_sent`] reports that its bytes are released, and
    /// [`Streams::next_landed`] reports its outcome.
    ///
    /// # Errors
    /// Returns `BrokenPipe` if the lane has ended.
    pub fn send_posted(&mut self, key: LaneKey, tag: u16, len: usize) -> io::Result<u64> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Err(ErrorKind::BrokenPipe.into()) };
        lane.check_open()?;
        lane.posting += 1;
        let exposures = &mut self.exposures;
        exposures.ids += 1;
        let id = exposures.ids;
        exposures.going.insert(id, MessageInFlight { lane: key, len: len as u64, is_posted: true });
        self.completions.add(key, tag, id);
        exposures.asked.push_back(ExposedPart { lane: key, to: key.peer, tag, id, offset: 0, len, is_posted: true });
        Ok(id)
    }

    /// Returns the id of the next send whose bytes are released.
    pub fn next_sent(&mut self) -> Option<u64> {
        self.exposures.sent.pop()
    }

    /// Returns the id of the next send with a known outcome, and whether it was received. If not, the lane's peer reports the
    /// copy's outcome elsewhere, or has ended.
    pub fn next_landed(&mut self) -> Option<(u64, bool)> {
        self.completions.reported.pop()
    }

    /// Drops a send whose caller has gone.
    pub fn forget_completion(&mut self, id: u64) {
        self.completions.forget(id);
    }

    /// Whether the receive is still posted.
    pub fn is_posted(&mut self, id: u64) -> bool {
        self.posted.of_id(id).is_some()
    }
}

#[cfg(test)]
mod tests;
