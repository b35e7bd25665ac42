//! What is asked of a message passing library.

use super::lent::{LentBytes, LentRoom};
use std::io;

/// What [`World::receive`] tells.
#[derive(Debug)]
pub enum Came {
    /// A message, from a rank.
    Message(u32, Vec<u8>),
    /// The message with this tag is in its room.
    Filled(u16),
    /// The message of lent bytes that has this id has been sent: nobody reads them any more.
    Sent(u64),
}

/// Says where a message with a tag from a rank goes, of so many bytes; an error ends the world.
pub type FindRoom<'a> = &'a mut dyn FnMut(u32, u16, usize) -> io::Result<LentRoom>;

/// The ranks of a job, seen from one of them: messages arrive whole, once, and in their order from each rank. The room for a message of lent bytes
/// is asked for in that order, too; that it is filled is told at any time after.
///
/// It belongs to the thread that made it, as MPI's does.
pub trait World {
    /// This rank, from 0.
    fn rank(&self) -> u32;

    /// How many ranks there are.
    fn size(&self) -> u32;

    /// Begins to send a message to another rank, or to this one.
    ///
    /// # Errors
    /// When the world has failed.
    fn send(&mut self, to: u32, message: Vec<u8>) -> io::Result<()>;

    /// Begins to send bytes from where they are, into room that the other rank has for a message with this tag. [`Came::Sent`] tells when they
    /// are not needed any more.
    ///
    /// # Errors
    /// When the world has failed.
    fn send_lent(&mut self, to: u32, tag: u16, bytes: LentBytes, id: u64) -> io::Result<()>;

    /// Messages that are not sent yet, and of these, such of lent bytes.
    fn sending(&self) -> (usize, usize);

    /// Whether lent bytes are on their way from here or into room of this rank.
    fn moves_lent(&self) -> bool;

    /// Goes on with what is under way, and returns what has become of it. `room` is asked where lent bytes go when they come.
    ///
    /// # Errors
    /// When the world has failed.
    fn receive(&mut self, room: FindRoom<'_>) -> io::Result<Option<Came>>;
}
