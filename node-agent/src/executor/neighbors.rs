//! Copies to GPUs that other processes of this machine drive, see docs/design/ipc.md.

use super::ExecutorConfig;
use super::session::spawn;
use accord_device::Device;
use accord_device::cuda::{Neighbors, Reached};
use accord_fabric::Key;
use accord_fabric::exchange::{Placer, Pushing};
use accord_fabric::local::{Caller, Listener, Role, connect};
use accord_fabric::wire::{Party, node_of};
use accord_types::{DevicePtr, Result, SessionId};
use std::sync::Arc;
use std::time::Duration;

/// How often and after what time it is tried to get the name at which this executor is met.
const BIND_ATTEMPTS: u32 = 10;
const BIND_PAUSE: Duration = Duration::from_millis(20);

/// This executor's neighbours, and where it meets them.
pub(super) struct Local {
    session: SessionId,
    key: Key,
    neighbors: Arc<Neighbors>,
    /// None if somebody else has the name: then nobody takes memory from here.
    listener: Option<Arc<Listener>>,
}

impl Local {
    /// None if the session's devices here are not reached in this way.
    pub(super) fn new(config: &ExecutorConfig) -> Option<Arc<Self>> {
        if !config.devices.ipc() {
            return None;
        }
        let (name, session) = (config.node_name.clone(), config.session);
        let neighbors = Neighbors::new(move |why| {
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
            let neighbors = neighbors.clone();
            spawn("accord-local", move || {
                listener.serve(|caller, socket| match caller.role {
                    Role::Take => neighbors.give(caller.from, socket),
                    Role::Give => neighbors.take(caller.from, socket),
                });
            });
        }
        Some(Arc::new(Self { session, key: config.key.clone(), neighbors, listener }))
    }

    /// Looks whether another node's executor is on this machine, before the first copy to it.
    pub(super) fn meet(&self, own: Party, other: Party) {
        let caller = Caller { from: own, role: Role::Take };
        if let Some(socket) = connect(self.session, node_of(other), caller, &self.key) {
            self.neighbors.take(other, socket);
        }
    }

    /// Says where a transfer from `party` goes, when it may come.
    pub(super) fn placer(&self, party: Party, device: &Arc<dyn Device>, dst: DevicePtr, len: u64) -> Placer {
        let (neighbors, device) = (self.neighbors.clone(), device.clone());
        Box::new(move || neighbors.place(party, &*device, dst, len))
    }

    /// Where a push from `device` goes, if the target has said so and the device reaches it.
    pub(super) fn reach(
        &self,
        pushing: &mut Pushing,
        party: Party,
        device: &dyn Device,
        len: u64,
    ) -> Result<Option<Reached>> {
        let neighbors = &self.neighbors;
        pushing.reach(|| neighbors.takes_from(party), |place| neighbors.reach(party, device, place, len))
    }

    pub(super) fn close(&self) {
        if let Some(listener) = &self.listener {
            listener.close();
        }
        self.neighbors.close();
    }
}
