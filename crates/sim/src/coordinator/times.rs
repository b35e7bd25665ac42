//! Sessions that may last for so long only.

use super::world::World;
use accord_coordinator::cluster::Origin;
use accord_types::SessionId;

/// How much later than its time a session may be known or served: what messages and the coordinator's clock take.
const ON_TIME: u64 = 1_000;

impl World {
    /// When the time of a session is over.
    pub(super) fn end_of(&self, session: SessionId) -> u64 {
        let limit = self.plan.session_time;
        let opened = self.opened.get(&session).filter(|_| limit > 0);
        opened.map_or(u64::MAX, |(opened, _)| opened + limit)
    }

    /// What stands still reads late what was said in time.
    fn is_overdue(&self, session: SessionId, stood_still_until: u64) -> bool {
        let opened = self.opened.get(&session).map_or(0, |(opened, _)| *opened);
        let slack = if stood_still_until > opened { self.plan.outage } else { 0 };
        self.queue.now() > self.end_of(session).saturating_add(ON_TIME + slack)
    }

    /// An agent serves no session whose time is over, whether a coordinator is there or not.
    pub(super) fn check_times_at(&self, agent: usize) -> Result<(), String> {
        let state = &self.agents[agent];
        match state.running().find(|session| self.is_overdue(*session, state.silent_until)) {
            Some(id) => {
                Err(format!("{} serves {id} {} ms after its end", state.name, self.queue.now() - self.end_of(id)))
            }
            None => Ok(()),
        }
    }

    /// Nor does the coordinator keep such a session. A session that only its program knows, which came back to another
    /// coordinator, lasts as long as if it had begun then: no agent serves it.
    pub(super) fn check_times(&self) -> Result<(), String> {
        let Some(cluster) = self.cluster.as_ref().filter(|_| self.plan.session_time > 0) else { return Ok(()) };
        // What agents say of an earlier coordinator's sessions they may have read late, too.
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
