//! The start and the end of executors.

use super::executors::{ExecutorId, Stage};
use super::state::Node;
use accord_fabric::ending::ExecutorEnding;
use accord_types::SessionId;
use std::time::Duration;

impl Node {
    /// Records that an executor of [`Node::begin`] has started. It ends at once if its session has ended meanwhile, or
    /// the agent stops.
    pub fn started(&mut self, now: Duration, session: SessionId, executor: ExecutorId, ends: &mut Vec<ExecutorId>) {
        let is_wanted = !self.stopping && self.grants.find(now, session).is_some();
        let Some(place) = self.executors.of_executor(session, executor) else { return };
        place.stage = Stage::Runs;
        if !is_wanted {
            place.end(ends);
        }
    }

    /// Records that an executor could not be started.
    pub fn not_started(&mut self, session: SessionId, executor: ExecutorId) {
        self.executors.over(session, executor);
    }

    /// Records that an executor has ended; `why` is empty for an orderly end. Returns whether the end was expected.
    pub fn ended(&mut self, session: SessionId, executor: ExecutorId, why: &str) -> bool {
        self.used_last(session);
        let is_expected = self.executors.over(session, executor) == Some(Stage::Ending);
        self.grants.note_end(session, if is_expected { "" } else { why });
        if !is_expected && !why.is_empty() && self.reported.contains(&session) {
            self.reasons.insert(session, why.to_owned());
        }
        is_expected
    }

    /// Ends an executor that accepts no lanes.
    pub fn unreachable(&mut self, session: SessionId, executor: ExecutorId, ends: &mut Vec<ExecutorId>) {
        if let Some(place) = self.executors.of_executor(session, executor) {
            place.end(ends);
        }
    }

    /// Returns why an executor was asked to end, if its program learns that from it, and not from the coordinator.
    pub fn ending(&self, executor: ExecutorId) -> Option<&ExecutorEnding> {
        self.executors.ending(executor)
    }

    /// Returns the number of executors.
    pub fn executors(&self) -> usize {
        self.executors.count()
    }

    /// Whether no executor runs any more.
    pub fn is_idle(&self) -> bool {
        self.executors.is_empty()
    }

    /// Records that an ended session of the user still has processes; they count as an executor of the user.
    pub fn remains(&mut self, user: &str) {
        self.executors.remains(user);
    }

    /// Records that the processes of [`Node::remains`] have ended.
    pub fn remains_gone(&mut self, user: &str) {
        self.executors.remains_gone(user);
    }

    /// Ends all executors, and starts no others.
    pub fn stop(&mut self, ends: &mut Vec<ExecutorId>) {
        self.stopping = true;
        self.executors.end_all(&ExecutorEnding::AgentStopped, ends);
    }

    /// Whether the agent is stopping and accepts nothing any more.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }
}
