//! Reports on the use of devices, from executors to the coordinator.

use super::effect::{AgentReport, Effect};
use super::state::Node;
use accord_proto::bounds::USES_MAX;
use accord_types::{DeviceLoad, DeviceUse, SessionId};

impl Node {
    /// Records an executor's report of its session's use of devices, by their ordinals.
    pub fn used(&mut self, session: SessionId, reports: &[(u32, DeviceUse)]) {
        self.uses.take(session, reports);
    }

    /// Records that a session's executor has ended, after its last report.
    pub(super) fn used_last(&mut self, session: SessionId) {
        self.uses.executor_ended(session);
    }

    /// Reports the ends of executors whose last report was sent. The ends of sessions are sent before, because an
    /// ending session waits for no report.
    pub(super) fn report_ended_uses(&mut self, effects: &mut Vec<Effect>) {
        let ended: Vec<SessionId> = self.uses.take_ended().into_iter().collect();
        effects.extend(ended.chunks(USES_MAX).map(|sessions| Effect::Send(AgentReport::UseEnded(sessions.to_vec()))));
    }

    /// Records the load of a device of this node by all programs.
    pub fn loaded(&mut self, ordinal: u32, load: DeviceLoad) {
        self.loads.take(ordinal, load);
    }

    /// Records that the loads of all devices are unknown from now on.
    pub fn loads_unknown(&mut self) {
        self.loads.forget();
    }

    /// Reports changed loads to the coordinator.
    pub(super) fn report_loads(&mut self, effects: &mut Vec<Effect>) {
        let changed = self.loads.changed();
        effects.extend((!changed.is_empty()).then_some(Effect::Send(AgentReport::Loads(changed))));
    }

    /// Reports changes to the coordinator.
    pub(super) fn report_uses(&mut self, effects: &mut Vec<Effect>) {
        let Self { uses, executors, grants, .. } = self;
        let changed = uses.changed(|session| executors.has(session) || grants.knows(session));
        effects.extend(changed.chunks(USES_MAX).map(|uses| Effect::Send(AgentReport::Used(uses.to_vec()))));
    }
}
