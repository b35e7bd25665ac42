//! Copies between GPUs of this process and those that executors of this machine drive, see docs/design/ipc.md.

use super::link::LinkSpec;
use accord_device::Device;
use accord_device::cuda::{Neighbors, Reached};
use accord_fabric::exchange::{Placer, Pushing};
use accord_fabric::handshake::FROM_PROGRAM;
use accord_fabric::local::{Caller, Role, connect};
use accord_fabric::wire::Party;
use accord_types::{DevicePtr, Result};
use std::sync::Arc;

/// The other end of copies to and from one executor.
#[derive(Clone)]
pub(super) struct Neighbor {
    neighbors: Arc<Neighbors>,
    party: Party,
}

impl LinkSpec {
    /// The executor at the other end, if GPUs of this process may copy to its GPUs directly.
    pub(super) fn neighbor(&self, party: Party) -> Option<Neighbor> {
        Some(Neighbor { neighbors: self.neighbors.clone()?, party })
    }

    /// Looks whether the executor is on this machine. It is known to listen.
    pub(super) fn meet(&self, party: Party) {
        let Some(Neighbor { neighbors, party }) = self.neighbor(party) else { return };
        let meet = |role| connect(self.session, self.node, Caller { from: FROM_PROGRAM, role }, &self.key);
        if let Some(socket) = meet(Role::Take) {
            neighbors.take(party, socket);
            if let Some(socket) = meet(Role::Give) {
                neighbors.give(party, socket);
            }
        }
    }
}

impl Neighbor {
    /// Says where a transfer goes, when it may come.
    pub(super) fn placer(&self, device: &Arc<dyn Device>, dst: DevicePtr, len: u64) -> Placer {
        let (neighbor, device) = (self.clone(), device.clone());
        Box::new(move || neighbor.neighbors.place(neighbor.party, &*device, dst, len))
    }

    /// Where a push from `device` goes, if the target has said so and the device reaches it.
    pub(super) fn reach(&self, pushing: &mut Pushing, device: &dyn Device, len: u64) -> Result<Option<Reached>> {
        let Self { neighbors, party, .. } = self;
        pushing.reach(|| neighbors.takes_from(*party), |place| neighbors.reach(*party, device, place, len))
    }
}
