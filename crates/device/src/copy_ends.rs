//! The two ends of a copy that are not the device's own memory.

use crate::ipc::MappedRange;
use crate::memory_handle::MemoryHandle;
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

    /// Whether `fill` never blocks and may run on the thread that issues the copy.
    fn immediate(&self) -> bool {
        false
    }

    /// Whether [`Source::fill_native`] may receive bytes.
    fn fills_native(&self) -> bool {
        false
    }

    /// Receives the next contiguous bytes into device memory, by a library that can address it, and returns their number.
    /// Returns 0 if [`Source::fill`] must supply them. Called when no other operation uses that memory; may block.
    ///
    /// # Errors
    /// Returns the errors of [`Source::fill`].
    fn fill_native(&mut self, space: NativeRange) -> Result<usize> {
        let _ = space;
        Ok(0)
    }

    /// Returns the location of the bytes, if the device may read them itself. It may then use several threads, from the moment
    /// when it would have called [`Source::fill`] until the copy is done. Other devices call [`Source::fill`].
    fn memory(&self) -> Option<MemoryHandle> {
        None
    }
}

/// The memory to which bytes may be copied before it is their sink's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchTo {
    /// None: the bytes stay in place.
    Nowhere,
    /// The host's memory. Neither [`Sink::drains_native`] nor [`Sink::mapped_range`] applies.
    Host,
    /// Other memory of the device. [`Sink::mapped_range`] does not apply; [`Sink::drains_native`] probably does.
    Device,
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

    /// Whether `drain` never blocks and may run on the thread that issues the copy.
    fn immediate(&self) -> bool {
        false
    }

    /// Returns the target of the bytes, if the device may write them itself, in any order. It then calls neither
    /// [`Sink::drain`] nor [`Sink::finish`]. Other devices call both.
    fn memory(&self) -> Option<MemoryHandle> {
        None
    }

    /// Whether [`Sink::drain`] may write to this part of this process's memory.
    fn may_write(&self, range: HostRange) -> bool {
        self.memory().and_then(|memory| memory.host()).is_some_and(|memory| memory.overlaps(range))
    }

    /// Whether another mechanism than waiting for the stream reports the bytes' arrival. [`Sink::drain`] may then be called
    /// after the stream has moved on.
    fn detached(&self) -> bool {
        false
    }

    /// Returns the memory to which a device may copy the bytes, if they are few, before it is the sink's turn.
    fn fetch_to(&self) -> FetchTo {
        FetchTo::Nowhere
    }

    /// Whether the sink accepts its bytes before earlier sinks of the stream, which have received theirs, are finished by [`Sink::finish`]. The device
    /// then finishes them in order. Does not block.
    fn follows(&self) -> bool {
        false
    }

    /// Whether a library reads the bytes from device memory. A device with such memory calls this once, before
    /// [`Sink::drain`], when its stream has reached the copy; may block. If this returns `true`, the device calls
    /// [`Sink::drain_native`] with all bytes in place of [`Sink::drain`], and then [`Sink::finish`].
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn drains_native(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Starts to read all bytes from the device's own memory. They stay unchanged until [`Sink::await_native`] has returned, or the sink was
    /// dropped.
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn drain_native(&mut self, bytes: NativeRange) -> Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// Blocks until the bytes were read. Called after [`Sink::drain_native`].
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn await_native(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether the bytes may be read from the device's own memory, and arrive, concurrently with other such copies of the stream, in any order.
    /// Does not block. If `true`, [`Sink::drains_native`] returns `true` too, without blocking.
    fn is_concurrent(&mut self) -> bool {
        false
    }

    /// Returns memory of another process that the device can write to. Called once, by a device that shares memory, when its stream has reached the copy;
    /// may block. If there is such memory, the device does not call [`Sink::drain`], and calls [`Sink::finish`] once the bytes are written.
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn mapped_range(&mut self) -> Result<Option<MappedRange>> {
        Ok(None)
    }
}
