//! The variables that a procedure shares with its internal procedures. GCC keeps them in one object, the procedure's frame. As soon as a
//! clause names one of them, it maps all of it `tofrom` before a compute construct's own entries. The region's code finds the
//! variables by their own entries; it needs the frame only to call internal procedures.

use super::kind::{Data, Kind};
use super::map::{Mapping, Mode, Stop};
use crate::plan::FRAME_MAX;
use crate::present::Found;
use accord_types::{HostRange, QueueId};

impl Mapping<'_, '_> {
    /// Whether the construct's first entry may be a frame: it contains other entries, and lies on the caller's stack.
    pub(super) fn is_frame(&self, range: HostRange, data: Data) -> bool {
        // The caller's arrays of entries are in its frame.
        let near = self.entries.hosts.as_ptr().addr();
        self.mode == Mode::Launch
            && data == Data::BOTH_WAYS
            && range.start.abs_diff(near) < FRAME_MAX.saturating_add(range.len)
            && self.holds_another(range)
    }

    fn holds_another(&self, range: HostRange) -> bool {
        let count = self.entries.hosts.len();
        (1..count).any(|j| {
            let (start, len) = (self.entries.hosts[j], self.entries.len_of(j));
            range.start <= start
                && len < range.len
                && start.saturating_add(len) <= range.start + range.len
                && matches!(self.kind(j), Ok(Kind::Data(_)))
        })
    }

    /// Maps it. If variables in it are present separately, the region gets a copy of the rest for the launch. The host
    /// continues with variables in it while an asynchronous region runs, so only what clauses name is copied out.
    pub(super) fn frame(&mut self, range: HostRange, data: Data) -> Result<(), Stop> {
        if let Found::Partly(_) = self.state.table.find(range.start, range.len) {
            return self.private(0, range);
        }
        let copy_out = data.copy_out && self.queue == QueueId::SYNC;
        self.data(0, range, Data { copy_out, ..data })
    }
}
