//! Sessions with a limited time.

use super::world::World;
use accord_cluster::Origin;
use accord_types::SessionId;

/// Tolerance for the end of a session: delays of messages and the coordinator's tick.
const ON_TIME: u64 = 1_000;

impl World {
    /// Returns when the time of a session is over.
    pub(super) fn end_of(&self, session: SessionId) -> u64 {
        let limit = self.plan.session_time;
        let opened = self.opened.get(&session).filter(|_| limit > 0);
        opened.map_or(u64::MAX, |(opened, _)| opened + limit)
    }

    /// Whether a session is overdue, with a tolerance for a process that was stopped and reads late.
    fn is_overdue(&self, session: SessionId, stood_still_until: u64) -> bool {
        let opened = self.opened.get(&session).map_or(0, |(opened, _)| *opened);
        let slack = if stood_still_until > opened { self.plan.outage } else { 0 };
        self.queue.now() > self.end_of(session).saturating_add(ON_TIME + slack)
    }

    /// Checks that an agent serves no session whose time is over, with or without a coordinator.
    pub(super) fn check_times_at(&self, agent: usize) -> Result<(), String> {
        let state = &self.agents[agent];
        match state.running().find(|session| self.is_overdue(*session, state.silent_until)) {
            Some(id) => {
                Err(format!("{} serves {id} {} ms after its end", state.name, self.queue.now() - self.end_of(id)))
            }
            None => Ok(()),
        }
    }

    /// Checks that the coordinator keeps no such session. The time of a session that only its program knew is counted
    /// from the program's reconnect, and no agent serves it.
    pub(super) fn check_times(&self) -> Result<(), String> {
        let Some(cluster) = self.cluster.as_ref().filter(|_| self.plan.session_time > 0) else { return Ok(()) };
        // Stopped agents may have read late of an earlier coordinator's sessions.
        let agents = self.agents.iter().map(|agent| agent.silent_until).max().unwrap_or(0);
        let is_overdue = |id: SessionId, origin: Origin, known: u64| match origin {
            Origin::Own => self.is_overdue(id, self.paused_until),
            Origin::Agent => self.is_overdue(id, self.paused_until.max(agents)),
            Origin::Program => self.queue.now() > known + self.plan.session_time + ON_TIME,
        };
        match cluster.sessions().find(|known| is_overdue(known.id, known.origin, self.started + known.since.0)) {
            Some(known) => Err(format!("{} is open after its end, at {}: {known:?}", known.id, self.end_of(known.id))),
            None => Ok(()),
        }
    }
}
