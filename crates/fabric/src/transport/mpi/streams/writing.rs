//! The writing side of a lane.

use super::{Finish, Stream, Streams};
use crate::transport::mpi::message::{HEADER_LEN, LaneKey};
use std::io::{self, ErrorKind, IoSlice};

impl Streams {
    /// Queues as much of `parts` as fits. Returns `None` if there is no space.
    ///
    /// # Errors
    /// Returns `BrokenPipe` if the peer reads no more, or this side has ended the stream.
    pub fn write(&mut self, key: LaneKey, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Err(ErrorKind::BrokenPipe.into()) };
        lane.check_open()?;
        let written: usize = parts.iter().map(|part| lane.queue.put(part)).sum();
        if written == 0 {
            let nothing = parts.iter().all(|part| part.is_empty());
            return Ok(nothing.then_some(0));
        }
        self.take_turn(key);
        Ok(Some(written))
    }

    /// Returns the number of bytes that [`Streams::write_message`] accepts, or `None` if there is no space.
    ///
    /// # Errors
    /// Returns the errors of [`Streams::write`].
    pub fn space(&mut self, key: LaneKey) -> io::Result<Option<usize>> {
        let Some(lane) = self.lanes.get(&key) else { return Err(ErrorKind::BrokenPipe.into()) };
        lane.check_open()?;
        Ok(Some(lane.queue.space()).filter(|space| *space > 0))
    }

    /// Queues a message whose bytes follow space for its header. The caller has checked [`Streams::space`].
    ///
    /// # Errors
    /// Returns the errors of [`Streams::write`].
    pub fn write_message(&mut self, key: LaneKey, message: Vec<u8>) -> io::Result<()> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Err(ErrorKind::BrokenPipe.into()) };
        lane.check_open()?;
        if message.len() > HEADER_LEN {
            lane.queue.push(message);
            self.take_turn(key);
        }
        Ok(())
    }

    /// Whether a blocked writer should be woken.
    pub fn has_space(&self, key: LaneKey) -> bool {
        let has_space = |lane: &Stream| lane.unread || lane.finish != Finish::Open || lane.queue.has_space();
        self.lanes.get(&key).is_none_or(has_space)
    }

    /// Queues a short write as [`Streams::write_message`], or appends it to a message that was not sent yet.
    ///
    /// # Errors
    /// Returns the errors of [`Streams::write`].
    pub fn take_write(&mut self, key: LaneKey, message: Vec<u8>) -> io::Result<()> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Err(ErrorKind::BrokenPipe.into()) };
        if lane.queue.is_empty() {
            return self.write_message(key, message);
        }
        lane.check_open()?;
        let taken = lane.queue.put(&message[HEADER_LEN..]);
        debug_assert_eq!(taken, message.len() - HEADER_LEN, "what is handed in has room");
        Ok(())
    }

    /// Returns the number of bytes that a lane has queued, or `None` if it accepts no more.
    pub fn queued(&self, key: LaneKey) -> Option<usize> {
        self.lanes.get(&key).filter(|lane| lane.check_open().is_ok()).map(|lane| lane.queue.bytes())
    }
}

impl Stream {
    /// Returns `BrokenPipe` if the lane accepts no more bytes.
    pub(super) fn check_open(&self) -> io::Result<()> {
        if self.unread || self.finish != Finish::Open { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}
