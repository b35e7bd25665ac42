//! Copies to GPUs that other processes of this machine drive, see docs/design/transports.md.

use crate::config::ExecutorConfig;
use accord_device::Device;
use accord_device::{MappedRange, SameHostPeers};
use accord_fabric::Key;
use accord_fabric::copy_way::{CopyWay, CopyWays};
use accord_fabric::peer::PeerId;
use accord_fabric::transfer::Pushing;
use accord_fabric::transport::same_host::{Caller, Listener, Role, connect};
use accord_telemetry::log::report_line;
use accord_types::threads::spawn;
use accord_types::{DevicePtr, Result, SessionId};
use std::sync::Arc;
use std::time::Duration;

/// The number and interval of attempts to bind the name at which this executor is discovered.
const BIND_ATTEMPTS: u32 = 10;
const BIND_PAUSE: Duration = Duration::from_millis(20);

/// The other end of copies, which may be on this host.
#[derive(Clone)]
pub struct SameHostPeer {
    /// All that are.
    pub same_host: Arc<SameHostPeers>,
    /// The peer's name.
    pub peer: PeerId,
    /// The ways of copies to the peer, with their costs.
    pub ways: CopyWays,
}

impl SameHostPeer {
    /// Returns a handle of a device's memory, for the peer to import, or an empty one if the memory can't be exported.
    pub(crate) fn export(&self, device: &dyn Device, dst: DevicePtr, len: u64) -> Vec<u8> {
        self.same_host.handle(self.peer.raw(), device, dst, len)
    }

    /// Returns the mapped target of a push to the peer from `device`. Returns `None` if the peer has exported no target, the
    /// device can't access it, or a lane is faster.
    ///
    /// # Errors
    /// Returns an error if the peer refuses or is gone.
    pub fn mapped_range(&self, pushing: &mut Pushing, device: &dyn Device, len: u64) -> Result<Option<MappedRange>> {
        if !self.may_reach(pushing, len) {
            return Ok(None);
        }
        let Self { same_host, peer, .. } = self;
        pushing.reach(|handle| same_host.map(peer.raw(), device, handle, len))
    }

    /// Whether [`SameHostPeer::mapped_range`] may return a target.
    pub fn may_reach(&self, pushing: &Pushing, len: u64) -> bool {
        // The first lane reveals which peers are on this host. Others get the bytes as soon as they may be sent.
        self.maps(len) && (!pushing.is_connected() || self.same_host.imports_from(self.peer.raw()))
    }
}

impl SameHostPeer {
    /// Whether to use mapped memory for so many bytes, where available: it is not slower than a lane, or was not measured.
    fn maps(&self, len: u64) -> bool {
        self.ways.choose(len).is_none_or(|choice| choice.way == CopyWay::Mapped)
    }
}

/// This executor's peers on this host, and the listener by which they discover it.
pub(crate) struct Local {
    session: SessionId,
    key: Key,
    same_host: Arc<SameHostPeers>,
    /// `None` if the name is taken: no process then accesses this process's memory.
    listener: Option<Arc<Listener>>,
    ways: CopyWays,
}

impl Local {
    /// Creates the value, or returns `None` if the session's devices here can't share memory.
    pub(crate) fn new(config: &ExecutorConfig) -> Option<Arc<Self>> {
        if !config.devices.ipc() {
            return None;
        }
        let (name, session) = (config.node_name.clone(), config.session);
        let same_host = SameHostPeers::new(move |why| {
            report_line(format_args!(
                "accord-node-agent executor: {name}, session {session}: copies go over the network: {why}"
            ));
        });
        // The session's previous executor may still be ending and hold the name.
        let bind = |attempt| {
            if attempt > 0 {
                std::thread::sleep(BIND_PAUSE);
            }
            Listener::bind(session, config.node, &config.key).ok().map(Arc::new)
        };
        let listener = (0..BIND_ATTEMPTS).find_map(bind);
        if let Some(listener) = listener.clone() {
            let same_host = same_host.clone();
            // Without a thread no peer is discovered, and copies use lanes.
            let _ = spawn("accord-local", move || {
                listener.serve(|caller, socket| match caller.role {
                    Role::Import => same_host.export_to(caller.from.raw(), socket),
                    Role::Export => same_host.import_from(caller.from.raw(), socket),
                });
            });
        }
        Some(Arc::new(Self { session, key: config.key.clone(), same_host, listener, ways: config.ways }))
    }

    /// Discovers whether another node's executor is on this machine, before the first copy to it.
    pub(crate) fn discover(&self, own: PeerId, other: PeerId) {
        let caller = Caller { from: own, role: Role::Import };
        if let Some(socket) = connect(self.session, other.node(), caller, &self.key) {
            self.same_host.import_from(other.raw(), socket);
        }
    }

    /// Returns a peer, which may be on this host.
    pub(crate) fn peer(&self, peer: PeerId) -> SameHostPeer {
        SameHostPeer { same_host: self.same_host.clone(), peer, ways: self.ways }
    }

    pub(crate) fn close(&self) {
        if let Some(listener) = &self.listener {
            listener.close();
        }
        self.same_host.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_fabric::copy_way::measured;
    use accord_types::PathTimes;

    fn peer(ways: CopyWays) -> SameHostPeer {
        SameHostPeer { same_host: SameHostPeers::new(|_| ()), peer: PeerId::PROGRAM, ways }
    }

    #[test]
    fn memory_is_mapped_unless_a_lane_was_measured_to_take_less() {
        let usual = CopyWays::usual([CopyWay::Mapped, CopyWay::Lane]);
        let cost = |small, rate| measured(PathTimes::new(small, small, rate));
        let both = usual.with(CopyWay::Mapped, cost(60_000, 1 << 34)).with(CopyWay::Lane, cost(20_000, 1 << 30));
        let maps = |ways, len| peer(ways).maps(len);
        assert!([8, 1 << 30].into_iter().all(|len| maps(usual, len) && maps(CopyWays::default(), len)));
        assert!(!maps(both, 8) && maps(both, 1 << 30));
        assert!(maps(usual.with(CopyWay::Lane, cost(1, 1 << 40)), 8), "only a part was measured");
    }
}
