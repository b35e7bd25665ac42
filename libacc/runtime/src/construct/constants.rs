//! Makes the constants that a region names present: see [`crate::constants`].

use super::Entries;
use super::kind::{Absent, Kind};
use crate::device::Device;
use crate::ports::HostMemory;
use crate::present::{Backing, DataLocation, Entry, Found, Lifetime};
use accord_types::HostRange;
use std::sync::Arc;

impl Device {
    /// Makes the constants that a region names present. The region's code does not change, so once is enough.
    #[cold]
    pub(crate) fn publish_constants(&self, host: &dyn HostMemory, function: usize, entries: &Entries<'_>) {
        let mut added = Vec::new();
        if !self.sees_named_memory_only() {
            let ranges = (0..entries.hosts.len()).filter_map(|i| {
                let is_data =
                    matches!(Kind::decode(entries.kinds[i]), Ok(Kind::Data(data)) if data.absent == Absent::Create);
                let range = HostRange { start: entries.hosts[i], len: entries.len_of(i) };
                (is_data && range.len > 0).then_some(range)
            });
            // The loader is queried without the lock.
            let found: Vec<_> =
                ranges.filter_map(|range| Some((range, host.constant_with_addresses(range)?))).collect();
            let mut state = self.lock();
            for (range, spec) in found {
                if self.constants.has_room() && state.table.find(range.start, range.len) == Found::Absent {
                    let place = DataLocation::Global(Arc::new(spec));
                    state.table.insert(Entry::new(range, place, Backing::Foreign, Lifetime::Global));
                    added.push(range);
                }
            }
        }
        self.constants.add(function, added);
    }

    /// Handles the unloading of an object: its constants are no longer present. The others are found again.
    pub(crate) fn forget_constants(&self) {
        let present = self.constants.forget();
        let mut state = self.lock();
        for range in present {
            for id in state.table.overlapping(range) {
                if state.table[id].lifetime == Lifetime::Global {
                    state.table.remove(id);
                }
            }
        }
    }
}
