//! Queries about devices that wait for the agents of the devices' nodes.

use super::input::ClientId;
use super::steps::counted;
use accord_types::{DeviceId, NodeId};
use std::collections::BTreeSet;

/// Most waiting queries of a program.
pub(super) const OF_CLIENT_MAX: usize = 16;

/// Devices of nodes whose agents may be about to reconnect, and the programs that want to use them.
#[derive(Debug, Default)]
pub(super) struct HeldUses {
    by_device: BTreeSet<(DeviceId, ClientId)>,
    by_client: BTreeSet<(ClientId, DeviceId)>,
}

impl HeldUses {
    pub(super) fn is_empty(&self) -> bool {
        self.by_device.is_empty()
    }

    /// Whether another query of the program may wait.
    pub(super) fn has_space(&self, client: ClientId) -> bool {
        self.by_client.range(of_client(client)).take(OF_CLIENT_MAX).count() < OF_CLIENT_MAX
    }

    pub(super) fn push(&mut self, client: ClientId, device: DeviceId) {
        self.by_device.insert((device, client));
        self.by_client.insert((client, device));
    }

    /// Drops the queries of a connection.
    pub(super) fn remove(&mut self, client: ClientId) {
        for (client, device) in self.by_client.range(of_client(client)).copied().collect::<Vec<_>>() {
            self.by_client.remove(&(client, device));
            self.by_device.remove(&(device, client));
        }
    }

    /// Removes and returns the queries about devices of a node, or all.
    pub(super) fn take(&mut self, node: Option<NodeId>) -> Vec<(DeviceId, ClientId)> {
        let first = DeviceId { node: node.unwrap_or(NodeId(0)), ordinal: 0 };
        let last = DeviceId { node: node.unwrap_or(NodeId(u32::MAX)), ordinal: u32::MAX };
        let of_node = (first, ClientId(0))..=(last, ClientId(u64::MAX));
        let taken: Vec<_> = counted(self.by_device.range(of_node)).copied().collect();
        for (device, client) in &taken {
            self.by_device.remove(&(*device, *client));
            self.by_client.remove(&(*client, *device));
        }
        taken
    }
}

fn of_client(client: ClientId) -> std::ops::RangeInclusive<(ClientId, DeviceId)> {
    let device = |number| DeviceId { node: NodeId(number), ordinal: number };
    (client, device(0))..=(client, device(u32::MAX))
}
