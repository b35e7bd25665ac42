//! What is left to do on the host after the device has got somewhere in a stream.

use super::staging::progress::Tracker;
use super::staging::slot_pool::Slot;
use crate::any_end::CopySink;
use accord_types::HostRange;
use std::sync::Arc;

/// Completions kept for a stream, beyond which a caller that makes it wait for another stream handles the first of
/// them: a program that never waits could enqueue any number. That always ends, as all of them are in the driver's
/// streams, which never wait for the host.
pub const COMPLETIONS_MAX: usize = 4096;

/// Work on the host once the device has got to a position.
pub(crate) enum Completion<S> {
    /// Bytes go from a slot to their sink, on whichever thread waits for them first.
    Small { slot: Slot, len: usize, sink: CopySink },
    /// The same for several of one length that lie side by side in a slot.
    Rows { slot: Slot, len: usize, sinks: Vec<CopySink> },
    /// The copying threads are at it.
    Moved(Arc<Tracker>, HostRange),
    /// This stream waits for that one, whose own completions therefore come first.
    Other(Arc<S>, u64),
}
