//! What a machine wants done.

use accord_types::TransferId;
use smallvec::SmallVec;

/// The line of a transfer, and the lanes that it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Sent without being asked for: the bytes may stand on the lane until the executor gets there.
    Eager,
    /// The executor takes them at once.
    Asked,
}

/// An action that the machine can't take itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect<W> {
    /// Wake this thread: it is its turn, or what it waits for has come.
    Wake(W),
    /// Wake a thread that sends copies of this line.
    WakeCopyThread(Way),
    /// Start one more.
    StartCopyThread(Way),
    /// Wake the watcher.
    WakeWatcher,
    /// Wake or start the flusher.
    WakeFlusher,
    /// Throw the bytes of this copy out away should they come.
    Discard(TransferId),
}

/// Actions for the caller, in this order. As a rule there are few, which need nothing from the heap.
pub type Effects<W> = SmallVec<[Effect<W>; 4]>;
