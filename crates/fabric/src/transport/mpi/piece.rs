//! The bytes of one message that is forwarded from one lane to another.

use super::message::{DATA_MAX, HEADER_LEN};
use std::io;

/// The result of [`super::lane::MpiLane::next_piece`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NextPiece {
    /// The piece holds the next bytes.
    Here,
    /// So many bytes are offered. They are sent once there is a receive buffer for them.
    Offered(usize),
    /// The lane has ended.
    End,
}

/// The bytes of at most one message, with space for its header before them.
#[derive(Debug, Default)]
pub(super) struct Piece {
    buffer: Vec<u8>,
    len: usize,
}

impl Piece {
    /// Returns the bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(HEADER_LEN..HEADER_LEN + self.len).unwrap_or_default()
    }

    /// Replaces the bytes by those that `read` writes. Returns their number.
    ///
    /// # Errors
    /// Returns the errors of `read`.
    pub(super) fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        // A buffer that is long enough is not zeroed again.
        if self.buffer.len() < HEADER_LEN + DATA_MAX {
            self.buffer.resize(HEADER_LEN + DATA_MAX, 0);
        }
        self.len = 0;
        self.len = read(&mut self.buffer[HEADER_LEN..])?;
        Ok(self.len)
    }

    /// Replaces the buffer by one whose bytes follow a header. Returns the previous buffer, cut to its bytes.
    pub(super) fn replace(&mut self, buffer: Vec<u8>) -> Vec<u8> {
        let len = buffer.len().saturating_sub(HEADER_LEN);
        let (mut before, had) = (std::mem::replace(&mut self.buffer, buffer), std::mem::replace(&mut self.len, len));
        before.truncate(HEADER_LEN + had);
        before
    }
}
