//! Moves bytes from memory to memory by a library, without copies in between.

use accord_types::NativeRange;
use std::fmt;
use std::io;
use std::num::NonZeroU16;
use std::sync::Arc;

/// A kind of memory that a library may access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryKind {
    /// The process's own memory.
    Host,
    /// A device's own memory.
    Device,
}

/// Bytes that are sent in place.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Bytes of the process.
    Host(&'a [u8]),
    /// Bytes in a device's own memory.
    Device(NativeRange),
}

/// A lane's capability to move bytes between the memory of its two ends, see [`super::Lane::remote_memory`].
///
/// Bytes of [`RemoteMemory::send`] are part of the lane's stream. Bytes of [`RemoteMemory::send_posted`] are not: they go
/// to a receive that the peer has posted and whose key it has announced by other means.
pub trait RemoteMemory: Send + Sync {
    /// Sends all of `bytes` to the buffer of the peer's reader. Blocks until they may be reused. They stay on this side until
    /// the peer reads.
    ///
    /// # Errors
    /// Returns the errors of [`super::Lane::write`], and [`io::ErrorKind::Unsupported`] for memory that the lane can't
    /// access.
    fn send(&self, bytes: Source<'_>) -> io::Result<()>;

    /// Reads as [`super::Lane::read`] into device memory, and blocks without a limit. Returns `None`, without reading, if the
    /// host has to read the next bytes.
    ///
    /// # Errors
    /// Returns the errors of [`super::Lane::read`], and [`io::ErrorKind::UnexpectedEof`] if the lane ends before the first
    /// byte.
    fn receive(&self, space: NativeRange) -> io::Result<Option<usize>>;

    /// Posts a receive for one message of the peer that is as long as `space`. Returns its key and the receive, or `None` if
    /// the lane can't access such memory or too many are posted.
    fn post(&self, space: NativeRange, ended: ReceiveEnded) -> Option<(NonZeroU16, Arc<dyn PostedReceive>)>;

    /// Sends bytes of device memory to the receive with this key, which the peer has posted on the same lane. The bytes must
    /// stay unchanged until [`PostedSend::wait`] has returned.
    ///
    /// # Errors
    /// Returns the errors of [`RemoteMemory::send`].
    fn send_posted(&self, key: NonZeroU16, bytes: NativeRange) -> io::Result<Box<dyn PostedSend>>;
}

/// Bytes in flight to a posted receive. Dropping the value blocks until they may be reused.
pub trait PostedSend: fmt::Debug + Send {
    /// Blocks until the bytes may be reused, and returns whether they have arrived. If not, the poster of the receive knows
    /// the outcome, or is gone.
    ///
    /// # Errors
    /// Returns an error if the bytes may not have been sent.
    fn wait(&mut self) -> io::Result<bool>;
}

/// Called once when a posted receive is over, on a thread of its own. The argument is `true` if the bytes have arrived, and
/// `false` if no valid bytes will arrive. Not called for a receive that was withdrawn or dropped before.
pub type ReceiveEnded = Box<dyn FnOnce(bool) + Send>;

/// A posted receive, see [`RemoteMemory::post`]. Its memory must stay until [`PostedReceive::await_free`] has returned or
/// [`ReceiveEnded`] was called. Dropping it abandons the receive.
pub trait PostedReceive: fmt::Debug + Send + Sync {
    /// Ends a receive for which the peer sends no message, or whose key the peer does not know. Returns whether the memory is
    /// free: it is not while a message is nevertheless being written there.
    fn withdraw(&self) -> bool;

    /// Discards the message if it arrives, unless it is already being written.
    fn abandon(&self);

    /// Whether no message arrives any more, though [`ReceiveEnded`] may not have been called yet.
    fn has_ended(&self) -> bool;

    /// Abandons as [`PostedReceive::abandon`]. Blocks until no message is being written.
    fn await_free(&self);
}
