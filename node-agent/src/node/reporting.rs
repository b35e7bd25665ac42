//! Reports on the use of devices, from executors to the coordinator.

use super::effect::{AgentReport, Effect};
use super::state::Node;
use accord_proto::bounds::USES_MAX;
use accord_types::{DeviceUse, SessionId};

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

    /// Reports changes to the coordinator.
    pub(super) fn report_uses(&mut self, effects: &mut Vec<Effect>) {
        let Self { uses, executors, grants, .. } = self;
        let changed = uses.changed(|session| executors.has(session) || grants.knows(session));
        effects.extend(changed.chunks(USES_MAX).map(|uses| Effect::Send(AgentReport::Used(uses.to_vec()))));
    }
}
