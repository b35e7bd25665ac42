//! What whoever writes a lane does.

use super::{Finish, QUEUE_MAX, Stream, Streams, WAKE_ROOM};
use crate::transport::mpi::message::{DATA_MAX, HEADER_LEN, LaneKey};
use crate::transport::mpi::spare;
use std::io::{self, ErrorKind, IoSlice};

impl Streams {
    /// Takes as much of `parts` as there is room for; none if there is none.
    ///
    /// # Errors
    /// When nobody reads them, or this side has said that no more comes.
    pub fn write(&mut self, key: LaneKey, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Err(ErrorKind::BrokenPipe.into()) };
        lane.check_open()?;
        let written: usize = parts.iter().map(|part| lane.put(part)).sum();
        if written == 0 {
            let nothing = parts.iter().all(|part| part.is_empty());
            return Ok(nothing.then_some(0));
        }
        self.take_turn(key);
        Ok(Some(written))
    }

    /// How many bytes [`Streams::write_message`] takes; none if there is no room.
    ///
    /// # Errors
    /// As for [`Streams::write`].
    pub fn room(&mut self, key: LaneKey) -> io::Result<Option<usize>> {
        let Some(lane) = self.lanes.get(&key) else { return Err(ErrorKind::BrokenPipe.into()) };
        lane.check_open()?;
        Ok(Some(QUEUE_MAX - lane.queued).filter(|room| *room > 0))
    }

    /// Takes bytes that are in a message already, with anything in the place of its header: no more than there is room for.
    ///
    /// # Errors
    /// As for [`Streams::write`].
    pub fn write_message(&mut self, key: LaneKey, message: Vec<u8>) -> io::Result<()> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Err(ErrorKind::BrokenPipe.into()) };
        lane.check_open()?;
        if message.len() > HEADER_LEN {
            lane.queued += message.len() - HEADER_LEN;
            lane.queue.push_back(message);
            self.take_turn(key);
        }
        Ok(())
    }

    /// Whether a writer that waits should go on.
    pub fn has_room(&self, key: LaneKey) -> bool {
        self.lanes
            .get(&key)
            .is_none_or(|lane| lane.unread || lane.finish != Finish::Open || lane.queued <= QUEUE_MAX - WAKE_ROOM)
    }

    /// Takes a short write, as [`Streams::write_message`] does, and as part of the message before if that waits to be sent.
    ///
    /// # Errors
    /// As for [`Streams::write`].
    pub fn take_write(&mut self, key: LaneKey, message: Vec<u8>) -> io::Result<()> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Err(ErrorKind::BrokenPipe.into()) };
        if lane.queue.is_empty() {
            return self.write_message(key, message);
        }
        lane.check_open()?;
        let taken = lane.put(&message[HEADER_LEN..]);
        debug_assert_eq!(taken, message.len() - HEADER_LEN, "what is handed in has room");
        Ok(())
    }

    /// The bytes of a lane that wait to be sent; none if it takes no more.
    pub fn queued(&self, key: LaneKey) -> Option<usize> {
        self.lanes.get(&key).filter(|lane| lane.check_open().is_ok()).map(|lane| lane.queued)
    }
}

impl Stream {
    /// Whether something may be written.
    pub(super) fn check_open(&self) -> io::Result<()> {
        if self.unread || self.finish != Finish::Open { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    /// Queues as much of `bytes` as there is room for.
    fn put(&mut self, bytes: &[u8]) -> usize {
        let room = QUEUE_MAX - self.queued;
        let mut left = &bytes[..bytes.len().min(room)];
        let taken = left.len();
        while !left.is_empty() {
            let full = self.queue.back().is_none_or(|last| last.len() >= HEADER_LEN + DATA_MAX);
            if full {
                let mut message = spare::empty(HEADER_LEN + left.len().min(DATA_MAX));
                message.extend_from_slice(&[0; HEADER_LEN]);
                self.queue.push_back(message);
            }
            let Some(last) = self.queue.back_mut() else { break };
            let (now, later) = left.split_at(left.len().min(HEADER_LEN + DATA_MAX - last.len()));
            last.extend_from_slice(now);
            left = later;
        }
        self.queued += taken;
        taken
    }
}
