//! The load of devices by all programs of their machines, as agents report it. It decides nothing.

use super::effect::Effect;
use super::input::LinkId;
use super::node::Node;
use super::state::Cluster;
use super::time::Millis;
use accord_types::{DeviceId, DeviceLoad};

impl Cluster {
    /// Keeps an agent's report on its devices.
    pub(super) fn agent_loads(
        &mut self,
        now: Millis,
        link: LinkId,
        loads: &[(u32, DeviceLoad)],
        out: &mut Vec<Effect>,
    ) {
        let Some(node) = self.note_alive(now, link, out) else { return };
        for (ordinal, load) in loads {
            if self.nodes.get(&node).is_some_and(|node| node.device(*ordinal).is_some()) {
                self.device_loads.take(DeviceId { node, ordinal: *ordinal }, *load);
            }
        }
    }

    /// Returns the present load of a device by all programs of its machine; unknown unless the node's agent reports it.
    pub fn load_of(&self, device: DeviceId) -> DeviceLoad {
        let is_up = self.nodes.get(&device.node).is_some_and(Node::is_up);
        self.device_loads.get(device).filter(|_| is_up).unwrap_or_default()
    }
}
