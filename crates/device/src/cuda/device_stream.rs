//! What the parts of a device know of its streams.

use accord_types::{QueueId, Result};
use cudarc::driver::sys::CUstream;

/// A stream, as those see it who care for all streams of a device. None of this is on a hot path.
pub(crate) trait DeviceStream: Send + Sync {
    /// Returns its index among the device's streams.
    fn index(&self) -> u32;

    /// The queue that it was made for.
    fn queue(&self) -> QueueId;

    /// The driver's.
    fn raw(&self) -> CUstream;

    /// The regions that ran since it was last known to be empty, as far as that can be told now.
    fn recent_kernels(&self) -> Vec<u32>;

    /// Makes copies that it holds back. An error is the stream's, which tells it.
    fn flush_held_back(&self);

    /// Wakes every thread that sleeps there.
    fn wake(&self);

    /// Returns once a caller that is enqueuing an operation has done so.
    fn pass(&self);

    /// Blocks until the driver's stream is empty; what comes of it is of no interest any more. The context is current.
    fn drain(&self);

    /// Blocks until the copy that was to have the position `seq` is done, or failed. No context has to be current.
    fn settle(&self, seq: u64) -> Result<()>;
}
