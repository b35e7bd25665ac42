//! The present loads of devices.

use accord_types::{DeviceId, DeviceLoad, NodeId};
use std::collections::BTreeMap;

/// Loads of devices of registered nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct DeviceLoads {
    devices: BTreeMap<DeviceId, DeviceLoad>,
}

impl DeviceLoads {
    /// Keeps the load of a device.
    pub(super) fn take(&mut self, device: DeviceId, load: DeviceLoad) {
        self.devices.insert(device, load);
    }

    /// Returns the load of a device, if it is known.
    pub(super) fn get(&self, device: DeviceId) -> Option<DeviceLoad> {
        self.devices.get(&device).copied()
    }

    /// Forgets the loads of a node, whose agent registers.
    pub(super) fn forget(&mut self, node: NodeId) {
        let all = DeviceId { node, ordinal: 0 }..=DeviceId { node, ordinal: u32::MAX };
        let known: Vec<DeviceId> = self.devices.range(all).map(|(device, _)| *device).collect();
        for device in known {
            self.devices.remove(&device);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_of_a_node_are_forgotten_when_its_agent_registers() {
        let mut loads = DeviceLoads::default();
        let device = |node, ordinal| DeviceId { node: NodeId(node), ordinal };
        let load = DeviceLoad { busy_percent: Some(37), memory_used: None };
        for (node, ordinal) in [(1, 0), (1, 7), (2, 0)] {
            loads.take(device(node, ordinal), load);
        }
        loads.forget(NodeId(1));
        assert_eq!(
            [device(1, 0), device(1, 7), device(2, 0)].map(|device| loads.get(device)),
            [None, None, Some(load)]
        );
    }
}
