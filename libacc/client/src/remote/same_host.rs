//! Copies between GPUs of this process and those that executors of this machine drive, see docs/design/transports.md.

use super::node_spec::NodeSpec;
use accord_executor::same_host::SameHostPeer;
use accord_fabric::copy_way::{CopyWay, CopyWays};
use accord_fabric::peer::PeerId;
use accord_fabric::transport::same_host::{Caller, Role, connect};

impl NodeSpec {
    /// Returns the executor as a peer, if GPUs of this process may copy to its GPUs directly.
    pub(super) fn same_host_peer(&self, peer: PeerId) -> Option<SameHostPeer> {
        // A program has no measurements.
        let ways = CopyWays::usual([CopyWay::Mapped, CopyWay::Lane]);
        Some(SameHostPeer { same_host: self.session.same_host.clone()?, peer, ways })
    }

    /// Connects to an executor that already listens, if it is on this machine, so that GPUs can copy directly.
    pub(super) fn discover(&self, peer: PeerId) {
        let Some(SameHostPeer { same_host, peer, .. }) = self.same_host_peer(peer) else { return };
        let discover =
            |role| connect(self.session.id, self.node, Caller { from: PeerId::PROGRAM, role }, &self.session.key);
        if let Some(socket) = discover(Role::Import) {
            same_host.import_from(peer.raw(), socket);
            if let Some(socket) = discover(Role::Export) {
                same_host.export_to(peer.raw(), socket);
            }
        }
    }
}
