//! Copies between GPUs of this process and those that executors of this machine drive, see docs/design/ipc.md.

use super::remote_node::NodeSpec;
use accord_device::Device;
use accord_device::{MappedRange, SameHostPeers};
use accord_fabric::exchange::{Placer, Pushing};
use accord_fabric::handshake::FROM_PROGRAM;
use accord_fabric::local::{Caller, Role, connect};
use accord_fabric::wire::Party;
use accord_types::{DevicePtr, Result};
use std::sync::Arc;

/// The other end of copies to and from one executor.
#[derive(Clone)]
pub(super) struct SameHostPeer {
    same_host: Arc<SameHostPeers>,
    party: Party,
}

impl NodeSpec {
    /// The executor at the other end, if GPUs of this process may copy to its GPUs directly.
    pub(super) fn same_host_peer(&self, party: Party) -> Option<SameHostPeer> {
        Some(SameHostPeer { same_host: self.same_host.clone()?, party })
    }

    /// Looks whether the executor is on this machine. It is known to listen.
    pub(super) fn discover(&self, party: Party) {
        let Some(SameHostPeer { same_host, party }) = self.same_host_peer(party) else { return };
        let discover = |role| connect(self.session, self.node, Caller { from: FROM_PROGRAM, role }, &self.key);
        if let Some(socket) = discover(Role::Take) {
            same_host.import_from(party, socket);
            if let Some(socket) = discover(Role::Give) {
                same_host.export_to(party, socket);
            }
        }
    }
}

impl SameHostPeer {
    /// Says where a transfer goes, when it may come.
    pub(super) fn placer(&self, device: &Arc<dyn Device>, dst: DevicePtr, len: u64) -> Placer {
        let (peer, device) = (self.clone(), device.clone());
        Box::new(move || peer.same_host.handle(peer.party, &*device, dst, len))
    }

    /// Where a push from `device` goes, if the target has said so and the device reaches it.
    pub(super) fn mapped_range(
        &self,
        pushing: &mut Pushing,
        device: &dyn Device,
        len: u64,
    ) -> Result<Option<MappedRange>> {
        let Self { same_host, party, .. } = self;
        pushing.reach(|| same_host.imports_from(*party), |handle| same_host.map(*party, device, handle, len))
    }
}
