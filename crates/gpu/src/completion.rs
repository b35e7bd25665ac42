//! The host's remaining work after the device has reached a position in a stream.

use super::staging::progress::Tracker;
use super::staging::slot_pool::Slot;
use accord_device::CopySink;
use accord_device::stream::{HostWork, Stage};
use accord_types::HostRange;
use std::sync::Arc;

/// Work on the host once the device has reached a position.
pub(crate) enum Completion<S> {
    /// Passes bytes from a slot to their sink, on the first thread that waits for them.
    Small { slot: Slot, len: usize, sink: CopySink },
    /// Passes several pieces of equal length, adjacent in one slot, to their sinks.
    Rows { slot: Slot, len: usize, sinks: Vec<CopySink> },
    /// The copying threads move the bytes.
    Moved(Arc<Tracker>, HostRange),
    /// This stream waits for another one, whose own completions therefore precede.
    Other(Arc<S>, u64),
}

impl<S> HostWork for Completion<S> {
    fn stage(&self) -> Stage {
        match self {
            Self::Small { .. } | Self::Rows { .. } => Stage::Ready,
            Self::Moved(tracker, _) if tracker.is_done() => Stage::Ready,
            Self::Moved(..) | Self::Other(..) => Stage::Elsewhere,
        }
    }

    fn may_write(&self, range: HostRange) -> bool {
        match self {
            Self::Small { sink, .. } => sink.may_write(range),
            Self::Rows { sinks, .. } => sinks.iter().any(|sink| sink.may_write(range)),
            Self::Moved(_, target) => target.overlaps(range),
            // The answer would need another stream's lock.
            Self::Other(..) => true,
        }
    }
}
