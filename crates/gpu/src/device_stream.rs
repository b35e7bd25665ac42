//! A device's interface to its streams.

use accord_device::Activity;
use accord_types::{QueueId, Result};
use cudarc::driver::sys::CUstream;

/// A stream, as code that handles all streams of a device sees it. Not used on hot paths.
pub(crate) trait DeviceStream: Send + Sync {
    /// Returns the stream's index on the device.
    fn index(&self) -> u32;

    /// Returns the queue that the stream was created for.
    fn queue(&self) -> QueueId;

    /// The driver's.
    fn raw(&self) -> CUstream;

    /// Returns the regions that ran since the stream was last known to be empty, as far as known.
    fn recent_kernels(&self) -> Vec<u32>;

    /// Returns whether regions run or wait. The context is current.
    fn activity(&self) -> Activity;

    /// Whether no operation is listed, or in the driver's stream. The context is current.
    fn is_idle(&self) -> bool;

    /// Issues held-back copies. An error fails the stream, which reports it.
    fn flush_held_back(&self);

    /// Wakes all threads that sleep on the stream.
    fn wake(&self);

    /// Blocks while a caller is enqueuing an operation.
    fn pass(&self);

    /// Blocks until the driver's stream is empty, ignoring errors. The context is current.
    fn drain(&self);

    /// Blocks until the copy with position `seq` is done or has failed. Needs no current context.
    fn settle(&self, seq: u64) -> Result<()>;
}
