//! What is asked of a message passing library.

use std::io;

/// The ranks of a job, seen from one of them: messages arrive whole, once, and in their order from each rank.
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

    /// Messages that are not sent yet.
    fn sending(&self) -> usize;

    /// Goes on with what is under way, and returns the next message that has come whole, and from whom.
    ///
    /// # Errors
    /// When the world has failed.
    fn receive(&mut self) -> io::Result<Option<(u32, Vec<u8>)>>;
}
