//! The interface to a message passing library.

use super::exposed_memory::{ReceiveBuffer, SendBuffer};
use std::io;

/// The result of [`World::receive`].
#[derive(Debug)]
pub enum ReceivedItem {
    /// A message, from a rank.
    Message(u32, Vec<u8>),
    /// The message with this tag has been received into its buffer.
    Filled(u16),
    /// The message of exposed bytes with this id has been sent, and the library has released its memory.
    Sent(u64),
}

/// Returns the buffer for a message, by rank, tag and length. An error ends the world.
pub type FindReceiveBuffer<'a> = &'a mut dyn FnMut(u32, u16, usize) -> io::Result<ReceiveBuffer>;

/// The ranks of a job, as one of them sees them. Messages arrive whole, once, and in order from each rank. Buffers for
/// exposed bytes are requested in that order too, but filled in any order.
///
/// A world belongs to the thread that created it, as MPI's does.
pub trait World {
    /// Returns this rank, from 0.
    fn rank(&self) -> u32;

    /// Returns the number of ranks.
    fn size(&self) -> u32;

    /// Starts to send a message to another rank, or to this one.
    ///
    /// # Errors
    /// Returns an error if the world has failed.
    fn send(&mut self, to: u32, message: Vec<u8>) -> io::Result<()>;

    /// Starts to send bytes in place, to the other rank's buffer for a message with this tag. [`ReceivedItem::Sent`] reports that
    /// the bytes are released.
    ///
    /// # Errors
    /// Returns an error if the world has failed.
    fn send_exposed(&mut self, to: u32, tag: u16, bytes: SendBuffer, id: u64) -> io::Result<()>;

    /// Returns the number of messages in flight from this rank, and of those with exposed bytes.
    fn sending(&self) -> (usize, usize);

    /// Whether exposed bytes are in flight from this rank or into a buffer of it.
    fn moves_exposed(&self) -> bool;

    /// Progresses the messages in flight, and returns one result. `space` returns the buffers for arriving exposed bytes.
    ///
    /// # Errors
    /// Returns an error if the world has failed.
    fn receive(&mut self, space: FindReceiveBuffer<'_>) -> io::Result<Option<ReceivedItem>>;
}
