//! Devices of the program's own node, which it drives itself, at the end of its session. The coordinator gives them to
//! other jobs as soon as the agent reports them as free, so the program stops them.

use crate::cluster::LocalDeviceClient;
use crate::driver_lane::DriverLane;
use crate::executor_ends::LaneEnd;
use accord_types::{NodeId, threads};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a region may go on before the user is warned.
const REGION_MAX: Duration = Duration::from_secs(5);

/// The devices of its own node that a session drives.
#[derive(Default)]
pub(crate) struct OwnDevices {
    devices: Vec<Weak<dyn LocalDeviceClient>>,
    lane: Option<Arc<DriverLane>>,
}

impl OwnDevices {
    pub(crate) fn add(&mut self, device: &Arc<dyn LocalDeviceClient>) {
        self.devices.push(Arc::downgrade(device));
    }

    /// Returns the session's driver lane, created by `new` at the first call.
    pub(crate) fn lane(&mut self, new: impl FnOnce() -> DriverLane) -> Arc<DriverLane> {
        self.lane.get_or_insert_with(|| Arc::new(new())).clone()
    }

    /// Reacts to the loss or replacement of a node's agent.
    pub(crate) fn agent_lost(&self, node: NodeId) {
        if let Some(lane) = self.lane.as_ref().filter(|lane| lane.node() == node) {
            lane.open_anew();
        }
    }

    /// Stops the devices at the end of the session: pending and later calls fail with `why`. Returns once memory and
    /// workers are gone and the lane to the agent is closed. A region on a GPU can't be ended from outside. While one
    /// goes on, the agent ends the process, and `notify` warns of it.
    pub(crate) fn end(&self, why: &str, notify: impl FnOnce(&str)) {
        let Some(error) = LaneEnd::Session(why.to_owned()).error() else { return };
        let devices: Vec<_> = self.devices.iter().filter_map(Weak::upgrade).collect();
        devices.iter().for_each(|device| device.stop(error.clone()));
        let (ended, all) = mpsc::channel::<()>();
        let shut_down = move || {
            for device in devices {
                // The device's callers have got the error already.
                let _ = device.shutdown();
            }
            drop(ended);
        };
        match threads::spawn("accord-end", shut_down) {
            Ok(_) if all.recv_timeout(REGION_MAX) == Err(RecvTimeoutError::Timeout) => {
                notify(&format!("{why}; a region does not end, so that the node's agent ends this process"));
                let _ = all.recv();
            }
            Ok(_) => {}
            // The devices stay until the program ends, or the agent ends it.
            Err(_) => return,
        }
        if let Some(lane) = &self.lane {
            lane.close();
        }
    }
}
