//! The two ends of a copy that are not the device's own memory.
//!
//! Every end moves bytes through the host. What only some ends can do is a trait of its own, which the end's owner names
//! when it creates the [`crate::CopySource`] or [`crate::CopySink`].

use crate::ipc::MappedRange;
use accord_types::{HostRange, NativeRange, Result};

/// Supplies the bytes of a copy to a device, in pieces and in order.
///
/// Called on one of the device's own threads when the stream has reached the copy; may block.
pub trait Source: Send {
    /// Fills `piece` completely with the next bytes.
    ///
    /// # Errors
    /// Returns an error that fails the operation and its stream from there on.
    fn fill(&mut self, piece: &mut [u8]) -> Result<()>;
}

/// A source with a library that writes into device memory.
pub trait NativeSource: Source {
    /// Receives the next contiguous bytes into device memory, by a library that can address it, and returns their number.
    /// Returns 0 if [`Source::fill`] must supply them. Called when no other operation uses that memory; may block.
    ///
    /// # Errors
    /// Returns the errors of [`Source::fill`].
    fn fill_native(&mut self, space: NativeRange) -> Result<usize>;
}

/// Receives the bytes of a copy from a device, in pieces and in order.
///
/// Called on one of the device's own threads when the stream has reached the copy; may block.
pub trait Sink: Send {
    /// Receives the next bytes.
    ///
    /// # Errors
    /// Returns an error that fails the operation and its stream from there on.
    fn drain(&mut self, piece: &[u8]) -> Result<()>;

    /// Ends the copy, after [`Sink::drain`] has received all bytes. Not called after an error. The bytes have left the device: the stream's next operation
    /// may begin before this returns, though it is not done before.
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether [`Sink::drain`] may write to this part of the program's memory. Most sinks write to none of it.
    fn may_write(&self, range: HostRange) -> bool {
        let _ = range;
        false
    }
}

/// The memory to which bytes may be copied before it is their sink's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchTo {
    /// None: the bytes stay in place.
    Nowhere,
    /// The host's memory, from which the bytes go through [`Sink::drain`].
    Host,
    /// Other memory of the device, which a library probably reads.
    Device,
}

/// The way of the bytes of a copy to another process.
pub enum PeerWay {
    /// Through the host, by [`Sink::drain`].
    Host,
    /// From the device's memory, by the sink's library: [`PeerSink::native`] has it.
    Library,
    /// Into this memory of the other process, by the device.
    Mapped(MappedRange),
}

/// A sink whose bytes go to a device of another process, over a network or by shared memory.
pub trait PeerSink: Sink {
    /// Returns the memory to which a device may copy the bytes, if they are few, before it is the sink's turn.
    fn fetch_to(&self) -> FetchTo;

    /// Whether the sink accepts its bytes before earlier sinks of the stream, which have received theirs, are finished by [`Sink::finish`]. The device
    /// then finishes them in order. Does not block.
    fn follows(&self) -> bool;

    /// Chooses the way of the bytes. A device that shares memory, or has memory for libraries, calls this once, before any
    /// byte moves, when its stream has reached the copy; may block. It then calls [`Sink::finish`] once the bytes have left,
    /// whatever the way. `is_fetched`: they are in [`FetchTo::Device`], so that [`PeerWay::Mapped`] does not apply.
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn way(&mut self, is_fetched: bool) -> Result<PeerWay>;

    /// Returns the sink's library, or `None` if it has none and [`PeerSink::way`] never returns [`PeerWay::Library`].
    fn native(&mut self) -> Option<&mut dyn NativeSink>;
}

/// The library of a sink, which reads device memory.
pub trait NativeSink {
    /// Whether the bytes may be read from the device's own memory, and arrive, concurrently with other such copies of the stream, in any order.
    /// Does not block. If `true`, [`PeerSink::way`] returns [`PeerWay::Library`], without blocking.
    fn is_concurrent(&self) -> bool;

    /// Starts to read all bytes from the device's own memory. They stay unchanged until [`NativeSink::wait`] has returned, or the sink was
    /// dropped.
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn start(&mut self, bytes: NativeRange) -> Result<()>;

    /// Blocks until the bytes were read. Called after [`NativeSink::start`].
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn wait(&mut self) -> Result<()>;
}
