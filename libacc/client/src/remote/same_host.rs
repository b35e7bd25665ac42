//! Copies between GPUs of this process and those that executors of this machine drive, see docs/design/ipc.md.

use super::node_spec::NodeSpec;
use accord_device::Device;
use accord_device::{MappedRange, SameHostPeers};
use accord_fabric::peer::PeerId;
use accord_fabric::transfer::{Export, Pushing};
use accord_fabric::transport::same_host::{Caller, Role, connect};
use accord_types::{DevicePtr, Result};
use std::sync::Arc;

/// The other end of copies to and from one executor.
#[derive(Clone)]
pub(super) struct SameHostPeer {
    same_host: Arc<SameHostPeers>,
    peer: PeerId,
}

impl NodeSpec {
    /// The executor at the other end, if GPUs of this process may copy to its GPUs directly.
    pub(super) fn same_host_peer(&self, peer: PeerId) -> Option<SameHostPeer> {
        Some(SameHostPeer { same_host: self.same_host.clone()?, peer })
    }

    /// Looks whether the executor is on this machine. It is known to listen.
    pub(super) fn discover(&self, peer: PeerId) {
        let Some(SameHostPeer { same_host, peer }) = self.same_host_peer(peer) else { return };
        let discover = |role| connect(self.session, self.node, Caller { from: PeerId::PROGRAM, role }, &self.key);
        if let Some(socket) = discover(Role::Import) {
            same_host.import_from(peer.raw(), socket);
            if let Some(socket) = discover(Role::Export) {
                same_host.export_to(peer.raw(), socket);
            }
        }
    }
}

impl SameHostPeer {
    /// Says where a transfer goes, when it may come.
    pub(super) fn export(&self, device: &Arc<dyn Device>, dst: DevicePtr, len: u64) -> Export {
        let (peer, device) = (self.clone(), device.clone());
        Box::new(move || peer.same_host.handle(peer.peer.raw(), &*device, dst, len))
    }

    /// Where a push from `device` goes, if the target has said so and the device reaches it.
    pub(super) fn mapped_range(
        &self,
        pushing: &mut Pushing,
        device: &dyn Device,
        len: u64,
    ) -> Result<Option<MappedRange>> {
        let Self { same_host, peer, .. } = self;
        pushing.reach(|| same_host.imports_from(peer.raw()), |handle| same_host.map(peer.raw(), device, handle, len))
    }
}
