//! What lanes have to do with room that waits for its message, see `posted_rooms.rs`.

use super::Streams;
use crate::transport::mpi::loan::{Going, Lent};
use crate::transport::mpi::message::{Header, LANDED, LaneKey, MessageKind, THROWN_AWAY};
use crate::transport::mpi::posted_rooms::RoomOf;
use std::io::{self, ErrorKind};

impl Streams {
    /// Posts room for one message of `len` bytes from the lane's peer: its id, and its tag there. None if the lane has come to its end, or too
    /// much is posted.
    pub fn post(&mut self, key: LaneKey, len: u64) -> Option<(u64, u16)> {
        self.lanes.get(&key).filter(|lane| !lane.closed && !lane.finished)?;
        self.posted.add(key, len)
    }

    /// The peer has said that it sends nothing there. Whether the memory is its owner's again: it is not while MPI writes there all the same.
    pub fn withdraw(&mut self, id: u64) -> bool {
        let is_free = self.abandon(id);
        if let Some((tag, _)) = self.posted.of_id(id).filter(|_| is_free) {
            self.posted.end(tag, false);
        }
        is_free
    }

    /// Nobody wants what comes there. Whether the memory is its owner's again.
    pub fn abandon(&mut self, id: u64) -> bool {
        let Some((_, posted)) = self.posted.of_id(id) else { return true };
        posted.is_abandoned |= !posted.is_written;
        !posted.is_written
    }

    /// Room that has ended since, and whether its bytes are there.
    pub fn next_ended_room(&mut self) -> Option<(u64, bool)> {
        self.posted.ended.pop()
    }

    /// A message for lent room is there: where it goes. From now on MPI writes there.
    ///
    /// # Errors
    /// If nobody has asked `from` for it.
    pub fn comes(&mut self, from: u32, tag: u16, len: usize) -> io::Result<RoomOf> {
        let Some(posted) = self.posted.rooms.get_mut(&tag) else {
            return self.comes_to_reader(from, tag, len).map(RoomOf::Reader);
        };
        if posted.lane.peer != from || posted.len != len as u64 || posted.is_written {
            return Err(io::Error::new(ErrorKind::InvalidData, "a rank sends what nobody has room for"));
        }
        posted.is_written = true;
        Ok(if posted.is_abandoned { RoomOf::Nobody } else { RoomOf::Posted(posted.id) })
    }

    /// All of that message is there.
    pub fn came(&mut self, tag: u16) {
        let Some(posted) = self.posted.rooms.get(&tag) else { return self.came_to_reader(tag) };
        let (LaneKey { peer, opened_here: by_opener, number }, kind) = (posted.lane, MessageKind::Landed);
        let value = if posted.is_abandoned { THROWN_AWAY } else { LANDED };
        self.notes.push_back((peer, Header { kind, by_opener, number, value, tag }));
        self.posted.end(tag, true);
    }

    /// Sends `len` bytes, more than 0, into room that the lane's peer has posted: by which id [`Streams::next_lent`] gives them,
    /// [`Streams::next_sent`] says that they are not needed any more, and [`Streams::next_landed`] whether they are there.
    ///
    /// # Errors
    /// When this side has said that no more comes.
    pub fn send_posted(&mut self, key: LaneKey, tag: u16, len: usize) -> io::Result<u64> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Err(ErrorKind::BrokenPipe.into()) };
        lane.check_open()?;
        lane.posting += 1;
        let loans = &mut self.loans;
        loans.ids += 1;
        let id = loans.ids;
        loans.going.insert(id, Going { lane: key, len: len as u64, is_posted: true });
        self.completions.add(key, tag, id);
        loans.asked.push_back(Lent { lane: key, to: key.peer, tag, id, offset: 0, len, is_posted: true });
        Ok(id)
    }

    /// The next bytes for posted room that are not needed any more, by their id.
    pub fn next_sent(&mut self) -> Option<u64> {
        self.loans.sent.pop()
    }

    /// The next bytes for posted room of which it is known whether they are there, by their id. If not, the lane's peer says elsewhere what became
    /// of them, or has ended.
    pub fn next_landed(&mut self) -> Option<(u64, bool)> {
        self.completions.told.pop()
    }

    /// Nobody wants to know of these bytes any more.
    pub fn forget_completion(&mut self, id: u64) {
        self.completions.forget(id);
    }

    /// Whether room is posted still.
    pub fn is_posted(&mut self, id: u64) -> bool {
        self.posted.of_id(id).is_some()
    }
}

#[cfg(test)]
mod tests;
