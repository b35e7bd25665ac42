//! Copies to GPUs that other processes of this machine drive, see docs/design/ipc.md.

use crate::config::ExecutorConfig;
use crate::threads::spawn;
use accord_device::Device;
use accord_device::{MappedRange, SameHostPeers};
use accord_fabric::Key;
use accord_fabric::peer::PeerId;
use accord_fabric::transfer::{Export, Pushing};
use accord_fabric::transport::same_host::{Caller, Listener, Role, connect};
use accord_types::{DevicePtr, Result, SessionId};
use std::sync::Arc;
use std::time::Duration;

/// How often and after what time it is tried to get the name at which this executor is discovered.
const BIND_ATTEMPTS: u32 = 10;
const BIND_PAUSE: Duration = Duration::from_millis(20);

/// The other end of copies, if it is on this host.
#[derive(Clone)]
pub struct SameHostPeer {
    /// All that are.
    pub same_host: Arc<SameHostPeers>,
    /// Which one.
    pub peer: PeerId,
}

impl SameHostPeer {
    /// Says where a transfer from it goes, when it may come.
    pub fn export(&self, device: &Arc<dyn Device>, dst: DevicePtr, len: u64) -> Export {
        let (Self { same_host, peer }, device) = (self.clone(), device.clone());
        Box::new(move || same_host.handle(peer.raw(), &*device, dst, len))
    }

    /// Where a push to it from `device` goes, if it has said so and the device reaches that.
    ///
    /// # Errors
    /// When it refuses or is gone.
    pub fn mapped_range(&self, pushing: &mut Pushing, device: &dyn Device, len: u64) -> Result<Option<MappedRange>> {
        let Self { same_host, peer } = self;
        pushing.reach(|| same_host.imports_from(peer.raw()), |handle| same_host.map(peer.raw(), device, handle, len))
    }
}

/// This executor's peers on this host, and where it discovers them.
pub(crate) struct Local {
    session: SessionId,
    key: Key,
    same_host: Arc<SameHostPeers>,
    /// None if somebody else has the name: then nobody takes memory from here.
    listener: Option<Arc<Listener>>,
}

impl Local {
    /// None if the session's devices here are not reached in this way.
    pub(crate) fn new(config: &ExecutorConfig) -> Option<Arc<Self>> {
        if !config.devices.ipc() {
            return None;
        }
        let (name, session) = (config.node_name.clone(), config.session);
        let same_host = SameHostPeers::new(move |why| {
            eprintln!("accord-node-agent executor: {name}, session {session}: copies go over the network: {why}");
        });
        // The session's executor before this one may still be ending, and have the name.
        let bind = |attempt| {
            if attempt > 0 {
                std::thread::sleep(BIND_PAUSE);
            }
            Listener::bind(session, config.node, &config.key).ok().map(Arc::new)
        };
        let listener = (0..BIND_ATTEMPTS).find_map(bind);
        if let Some(listener) = listener.clone() {
            let same_host = same_host.clone();
            spawn("accord-local", move || {
                listener.serve(|caller, socket| match caller.role {
                    Role::Import => same_host.export_to(caller.from.raw(), socket),
                    Role::Export => same_host.import_from(caller.from.raw(), socket),
                });
            });
        }
        Some(Arc::new(Self { session, key: config.key.clone(), same_host, listener }))
    }

    /// Looks whether another node's executor is on this machine, before the first copy to it.
    pub(crate) fn discover(&self, own: PeerId, other: PeerId) {
        let caller = Caller { from: own, role: Role::Import };
        if let Some(socket) = connect(self.session, other.node(), caller, &self.key) {
            self.same_host.import_from(other.raw(), socket);
        }
    }

    /// One of the peers, if it is on this host.
    pub(crate) fn peer(&self, peer: PeerId) -> SameHostPeer {
        SameHostPeer { same_host: self.same_host.clone(), peer }
    }

    pub(crate) fn close(&self) {
        if let Some(listener) = &self.listener {
            listener.close();
        }
        self.same_host.close();
    }
}
