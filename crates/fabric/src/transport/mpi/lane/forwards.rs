//! The operations that a relay needs, see `relay.rs`.

use super::{GATHERED_MAX, MpiLane};
use crate::transport::lane::SharedLane;
use crate::transport::mpi::exposed_memory::{ReceiveBuffer, SendBuffer};
use crate::transport::mpi::message::{DATA_MAX, HEADER_LEN};
use crate::transport::mpi::piece::{NextPiece, Piece};
use crate::transport::mpi::spare;
use crate::transport::mpi::streams::{Next, Streams};
use crate::transport::window::Window;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

impl MpiLane {
    /// Blocks until the next message, offer or end. Moves a whole message into `piece`, without a copy.
    ///
    /// # Errors
    /// Returns the errors of [`crate::transport::Lane::read`].
    pub(in crate::transport::mpi) fn next_piece(&self, piece: &mut Piece) -> io::Result<NextPiece> {
        let end = self.limit.end();
        let next = if self.reading.has_left() { None } else { self.await_message(end)? };
        Ok(match next {
            None => {
                piece.fill(|space| self.take(space, end))?;
                NextPiece::Here
            }
            Some(Next::Message(message)) => {
                spare::done(piece.replace(message));
                NextPiece::Here
            }
            Some(Next::Offered(len)) => NextPiece::Offered(usize::try_from(len).unwrap_or(usize::MAX)),
            Some(Next::Nothing | Next::End) => NextPiece::End,
        })
    }

    /// Writes all bytes of `piece`, as one message if there is space for it. `piece` may then hold another buffer.
    ///
    /// # Errors
    /// Returns the errors of [`crate::transport::Lane::write`].
    pub(in crate::transport::mpi) fn write_piece(&self, piece: &mut Piece) -> io::Result<()> {
        let mut all = piece.bytes();
        if all.len() >= GATHERED_MAX && self.wait_for_space(None, Streams::space)? >= all.len() {
            let message = piece.replace(spare::filled(HEADER_LEN + DATA_MAX));
            return self.put_message(message).map(drop);
        }
        while !all.is_empty() {
            all = &all[self.put(&[IoSlice::new(all)], None)?..];
        }
        Ok(())
    }

    /// Lets the thread that receives messages write them to `to`, if no thread then waits for that one. This lane's reader
    /// writes all other bytes to `to`, and reads on once they are written.
    pub(in crate::transport::mpi) fn pass_on_to(&self, to: &SharedLane) {
        let mut state = self.shared.lock();
        state.onward.insert(self.key, Arc::downgrade(to));
        state.streams.pass_on(self.key);
    }

    /// Sends bytes of shared memory in place. Blocks until MPI has released them.
    ///
    /// # Errors
    /// Returns the errors of [`crate::transport::Lane::write`].
    pub(in crate::transport::mpi) fn expose_window(&self, bytes: Window<'_>) -> io::Result<()> {
        self.expose_all(SendBuffer::window(bytes))
    }

    /// Receives bytes announced by [`NextPiece::Offered`] into shared memory. Blocks until they have arrived, and returns
    /// their number.
    ///
    /// # Errors
    /// Returns any error of [`crate::transport::Lane::read`], and [`ErrorKind::UnexpectedEof`] if the lane ends first.
    pub(in crate::transport::mpi) fn fill_window(&self, space: Window<'_>) -> io::Result<usize> {
        let none = || io::Error::new(ErrorKind::InvalidInput, "the next bytes are not exposed ones");
        self.fill(space.len(), |len| ReceiveBuffer::window(space, len))?.ok_or_else(none)
    }
}
