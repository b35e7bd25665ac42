//! The host's remaining work after the device has reached a position in a stream.

use super::staging::progress::Tracker;
use super::staging::slot_pool::Slot;
use crate::any_end::CopySink;
use accord_types::HostRange;
use std::sync::Arc;

/// Most completions kept for a stream. Beyond it, a caller that makes the stream wait for another one handles the first
/// completions: a program that never waits could enqueue any number. This always ends, because all of them are in the
/// driver's streams, which never wait for the host.
pub const COMPLETIONS_MAX: usize = 4096;

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
