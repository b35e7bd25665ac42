//! The variables that a procedure shares with its internal procedures. GCC keeps them in one object, the procedure's frame, and maps
//! all of it `tofrom` ahead of a compute construct's own entries, as soon as a clause names one of them. The region's code finds the
//! variables by their own entries; it needs the frame only to call internal procedures.

use super::kind::{Data, Kind};
use super::map::{Mapping, Mode, Stop};
use crate::plan::FRAME_MAX;
use crate::present::Found;
use accord_types::{HostRange, QueueId};

impl Mapping<'_, '_> {
    /// Whether the construct's first entry may be a frame: other entries lie in it, and it lies on the caller's stack.
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

    /// Maps it. Where variables in it are present by themselves, the region gets a copy of the rest for the launch. The host
    /// goes on with variables in it while an asynchronous region runs, so only what clauses name is copied out of that.
    pub(super) fn frame(&mut self, range: HostRange, data: Data) -> Result<(), Stop> {
        if let Found::Partly(_) = self.state.table.find(range.start, range.len) {
            return self.private(0, range);
        }
        let copy_out = data.copy_out && self.queue == QueueId::SYNC;
        self.data(0, range, Data { copy_out, ..data })
    }
}
