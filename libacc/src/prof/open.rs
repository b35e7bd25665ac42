//! What has begun and not ended: pairs of events, and regions.

use super::context::Outer;
use super::info::{Construct, Event, Records};
use super::{callbacks, context};
use accord_runtime::prof::Subject;

/// An event pair whose end has not come. The same records are passed to callbacks of the start and the
/// end, so that a tool finds its `tool_info` again.
pub(crate) struct Open {
    pub(super) end: Event,
    pub(super) records: Records,
    /// The construct around it.
    pub(super) outer: Outer,
}

/// A `data` or `host_data` region of a thread, as its end has to tell it.
pub(crate) struct OpenRegion {
    /// Number of regions around it.
    pub(super) depth: usize,
    pub(super) construct: Construct,
    /// Line where it started.
    pub(super) line: i32,
    pub(super) subject: Option<Subject>,
}

impl Open {
    /// Raises the end.
    pub(crate) fn end(mut self) {
        self.records.set_event(self.end);
        callbacks::call(self.end, &mut self.records);
        context::leave(self.outer);
    }
}
