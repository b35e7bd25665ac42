//! Event pairs and regions that have begun and not ended.

use super::context::Outer;
use super::info::{Construct, Event, Records};
use super::{callbacks, context};
use accord_runtime::prof::Subject;

/// An event pair that has not ended. Callbacks of its start and its end get the same records, so that a tool finds its
/// `tool_info` again.
pub(crate) struct Open {
    pub(super) end: Event,
    pub(super) records: Records,
    /// The surrounding construct.
    pub(super) outer: Outer,
}

/// A `data` or `host_data` region of a thread, for the event of its end.
pub(crate) struct OpenRegion {
    /// Number of surrounding regions.
    pub(super) depth: usize,
    pub(super) construct: Construct,
    /// Line of the start.
    pub(super) line: i32,
    pub(super) subject: Option<Subject>,
}

impl Open {
    /// Raises the end event.
    pub(crate) fn end(mut self) {
        self.records.set_event(self.end);
        callbacks::call(self.end, &mut self.records);
        context::leave(self.outer);
    }
}
