//! The two ends of a copy that are not the device's own memory.

use crate::ipc::MappedRange;
use crate::memory_handle::MemoryHandle;
use accord_types::{HostRange, NativeRange, Result};

/// Gives the bytes of a copy to a device, piece by piece and in order.
///
/// Called on one of the device's own threads when the stream has got there; may block.
pub trait Source: Send {
    /// Fills `piece` completely with the next bytes.
    ///
    /// # Errors
    /// An error fails the stream's operation and the stream after it.
    fn fill(&mut self, piece: &mut [u8]) -> Result<()>;

    /// `fill` never blocks and may run on the thread that asks for the copy.
    fn immediate(&self) -> bool {
        false
    }

    /// Whether [`Source::fill_native`] may put something there.
    fn fills_native(&self) -> bool {
        false
    }

    /// Receives the next contiguous bytes into device memory, by a library that can address it, and returns their
    /// number. Returns 0 if [`Source::fill`] has to provide them. Called when nothing else uses that memory; may block.
    ///
    /// # Errors
    /// Returns the errors of [`Source::fill`].
    fn fill_native(&mut self, room: NativeRange) -> Result<usize> {
        let _ = room;
        Ok(0)
    }

    /// Returns the place of the bytes, if the device may reach them itself: by several threads, from the moment when
    /// [`Source::fill`] would have been called until the copy is done. A device that can't calls [`Source::fill`].
    fn memory(&self) -> Option<MemoryHandle> {
        None
    }
}

/// A place where bytes may be copied before their sink takes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchTo {
    /// They stay where they are.
    Nowhere,
    /// The host's memory. Neither [`Sink::drains_native`] nor [`Sink::mapped_range`] gives anything.
    Host,
    /// Other memory of the device's. [`Sink::mapped_range`] gives nothing; [`Sink::drains_native`] does, as far as is known.
    Device,
}

/// Takes the bytes of a copy from a device, piece by piece and in order.
///
/// Called on one of the device's own threads when the stream has got there; may block.
pub trait Sink: Send {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// An error fails the stream's operation and the stream after it.
    fn drain(&mut self, piece: &[u8]) -> Result<()>;

    /// All bytes were given to [`Sink::drain`]. Not called after an error. They have left the device: what comes next in the stream may begin before
    /// this returns, though it is not done before.
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// `drain` never blocks and may run on the thread that asks for the copy.
    fn immediate(&self) -> bool {
        false
    }

    /// Returns the place for the bytes, if the device may write them itself, in any order; then [`Sink::drain`] and
    /// [`Sink::finish`] are not called. A device that can't calls them.
    fn memory(&self) -> Option<MemoryHandle> {
        None
    }

    /// Whether [`Sink::drain`] may put some of the bytes into this part of this process's memory.
    fn may_write(&self, range: HostRange) -> bool {
        self.memory().and_then(|memory| memory.host()).is_some_and(|memory| memory.overlaps(range))
    }

    /// Whether the bytes' arrival is reported in another way than by waiting for the stream: [`Sink::drain`] may then
    /// be called after the stream has gone on.
    fn detached(&self) -> bool {
        false
    }

    /// Returns where a device may bring the bytes, if they are few, before it is the sink's turn.
    fn fetch_to(&self) -> FetchTo {
        FetchTo::Nowhere
    }

    /// Whether the bytes may be given though those that sinks before it were given have not come to their end, for which [`Sink::finish`] waits. These
    /// are finished afterwards, in their order. Does not wait.
    fn follows(&self) -> bool {
        false
    }

    /// Whether a library takes the bytes from device memory. A device with such memory calls it once, before
    /// [`Sink::drain`], when its stream has reached the copy; may block. If it returns `true`, [`Sink::drain_native`]
    /// is called with all bytes in place of [`Sink::drain`]; then [`Sink::finish`].
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn drains_native(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Has all bytes taken out of the device's own memory, where they stay as they are until [`Sink::await_native`] has returned, or the sink was
    /// dropped.
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn drain_native(&mut self, bytes: NativeRange) -> Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// The bytes were taken when it returns. Called after [`Sink::drain_native`].
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn await_native(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether the bytes may be taken out of the device's own memory, and arrive, at the same time as those of other copies of the stream that say so,
    /// before or after it. Does not block; [`Sink::drains_native`] says yes then, and does not block either.
    fn goes_beside(&mut self) -> bool {
        false
    }

    /// The bytes go to memory of another process that the device reaches. Asked once, by a device that shares memory, when its stream
    /// has got there; may block. If there is such memory [`Sink::drain`] is not called, and [`Sink::finish`] when the bytes are there.
    ///
    /// # Errors
    /// Returns the errors of [`Sink::drain`].
    fn mapped_range(&mut self) -> Result<Option<MappedRange>> {
        Ok(None)
    }
}
