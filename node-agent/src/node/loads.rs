//! The load of the node's devices by all programs, until it is sent to the coordinator.

use accord_types::DeviceLoad;
use std::collections::BTreeMap;

/// The present loads by the devices' ordinals, and those that the coordinator knows.
#[derive(Debug, Default)]
pub(super) struct Loads {
    present: BTreeMap<u32, DeviceLoad>,
    reported: BTreeMap<u32, DeviceLoad>,
}

impl Loads {
    /// Keeps the present load of a device.
    pub(super) fn take(&mut self, ordinal: u32, load: DeviceLoad) {
        self.present.insert(ordinal, load);
    }

    /// Makes the loads of all devices unknown.
    pub(super) fn forget(&mut self) {
        self.present.values_mut().for_each(|load| *load = DeviceLoad::default());
    }

    /// Returns the changes since the last report to the coordinator.
    pub(super) fn changed(&mut self) -> Vec<(u32, DeviceLoad)> {
        let Self { present, reported } = self;
        let is_new = |(ordinal, load): &(&u32, &DeviceLoad)| reported.get(ordinal) != Some(load);
        let changed: Vec<_> = present.iter().filter(is_new).map(|(ordinal, load)| (*ordinal, *load)).collect();
        reported.extend(changed.iter().copied());
        changed
    }

    /// Makes the next report complete, for another coordinator.
    pub(super) fn report_again(&mut self) {
        self.reported.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_reported_once_and_all_again_to_another_coordinator() {
        let mut loads = Loads::default();
        let load = |percent| DeviceLoad { busy_percent: Some(percent), memory_used: Some(1) };
        assert_eq!(loads.changed(), []);
        loads.take(0, load(5));
        loads.take(2, load(0));
        assert_eq!(loads.changed(), [(0, load(5)), (2, load(0))]);
        loads.take(0, load(5));
        loads.take(2, load(7));
        assert_eq!(loads.changed(), [(2, load(7))]);
        loads.report_again();
        assert_eq!(loads.changed(), [(0, load(5)), (2, load(7))]);
        loads.forget();
        assert_eq!(loads.changed(), [(0, DeviceLoad::default()), (2, DeviceLoad::default())]);
    }
}
