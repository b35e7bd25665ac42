//! Accesses of a region to device memory outside its data: how far they are from the nearest data, for the message.

use crate::device::Device;
use accord_types::{DevicePtr, HostRange};

/// Data near an address outside data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NearbyData {
    /// Range of the data in the program.
    pub(crate) host: HostRange,
    /// Bytes from the data to the address.
    pub(crate) distance: u64,
    /// Whether the address is behind the data, not before it.
    pub(crate) is_behind: bool,
}

impl Device {
    /// Returns the data nearest to an address of this device's memory outside data. None for other addresses, or if no data is known.
    pub(crate) fn data_near(&self, address: u64) -> Option<NearbyData> {
        if !self.is_started() || self.observed_client().allocates() {
            return None;
        }
        let (DevicePtr(start), len) = self.observed_client().addresses();
        if address.checked_sub(start).is_none_or(|offset| offset >= len) {
            return None;
        }
        let mut ranges = self.launches.failed.ranges();
        {
            let state = self.lock();
            let present = state.table.iter();
            ranges.extend(present.filter_map(|(_, entry)| Some((entry.device()?, entry.range()))));
            ranges.extend(state.memory.mallocs());
        }
        nearest(ranges.into_iter(), address)
    }
}

fn nearest(ranges: impl Iterator<Item = (DevicePtr, HostRange)>, address: u64) -> Option<NearbyData> {
    let near = ranges.map(|(DevicePtr(first), host)| {
        let end = first.saturating_add(host.len as u64);
        let is_behind = address >= end;
        let distance = if is_behind { address - end } else { first.saturating_sub(address) };
        NearbyData { host, distance, is_behind }
    });
    // If one range contains the address it is data.
    near.min_by_key(|near| near.distance).filter(|near| near.distance > 0 || near.is_behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_data_is_found_on_both_sides() {
        let range = |device, start, len| (DevicePtr(device), HostRange { start, len });
        let all = [range(1000, 10, 100), range(5000, 20, 100)];
        let near =
            |address| nearest(all.into_iter(), address).map(|near| (near.host.start, near.distance, near.is_behind));
        assert_eq!(near(1100), Some((10, 0, true)));
        assert_eq!(near(2000), Some((10, 900, true)));
        assert_eq!(near(4900), Some((20, 100, false)));
        assert_eq!(near(9000), Some((20, 3900, true)));
        assert_eq!(near(10), Some((10, 990, false)));
        assert_eq!(near(5050), None, "it is data");
        assert_eq!(nearest([].into_iter(), 10), None);
    }
}
