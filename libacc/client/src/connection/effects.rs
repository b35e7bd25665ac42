//! Actions that a machine asks for.

use accord_types::TransferId;
use smallvec::SmallVec;

/// The line of a transfer, with lanes of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyLine {
    /// Sent unrequested: the bytes may wait on the lane until the executor reaches the copy.
    Eager,
    /// Requested by the executor, which reads the bytes at once.
    Asked,
}

/// An action that the machine can't take itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect<W> {
    /// Wake this thread: it is its turn, or its wait is over.
    Wake(W),
    /// Wake a thread that sends copies of this line.
    WakeCopyThread(CopyLine),
    /// Start another thread for this line.
    StartCopyThread(CopyLine),
    /// Wake the watcher.
    WakeWatcher,
    /// Wake or start the flusher.
    WakeFlusher,
    /// Discard the bytes of this copy out if they arrive.
    Discard(TransferId),
}

/// Actions for the caller, in order. Usually there are few, without a heap allocation.
pub type Effects<W> = SmallVec<[Effect<W>; 4]>;
