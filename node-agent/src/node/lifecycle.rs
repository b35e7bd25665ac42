//! Executors begin and end.

use super::executors::{ExecutorId, Stage};
use super::state::Node;
use accord_fabric::ending::ExecutorEnding;
use accord_types::SessionId;
use std::time::Duration;

impl Node {
    /// An executor is there that [`Node::begin`] has asked for. It ends at once if its session has ended meanwhile, or the agent does.
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

    /// Records that an executor has ended, and why, if that was no orderly end. Returns whether the end was expected.
    pub fn ended(&mut self, session: SessionId, executor: ExecutorId, why: &str) -> bool {
        self.used_last(session);
        let is_expected = self.executors.over(session, executor) == Some(Stage::Ending);
        self.grants.note_end(session, if is_expected { "" } else { why });
        if !is_expected && !why.is_empty() && self.told.contains(&session) {
            self.reasons.insert(session, why.to_owned());
        }
        is_expected
    }

    /// Gives up an executor that takes no lanes.
    pub fn unreachable(&mut self, session: SessionId, executor: ExecutorId, ends: &mut Vec<ExecutorId>) {
        if let Some(place) = self.executors.of_executor(session, executor) {
            place.end(ends);
        }
    }

    /// Returns why an executor was told to end, if its program shall learn that from it, and not from the coordinator.
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

    /// A session of the user's has ended, and some of its processes the kernel has not: they count as an executor of the user's.
    pub fn remains(&mut self, user: &str) {
        self.executors.remains(user);
    }

    /// The processes of [`Node::remains`] have ended.
    pub fn remains_gone(&mut self, user: &str) {
        self.executors.remains_gone(user);
    }

    /// Ends all executors, and begins no other one.
    pub fn stop(&mut self, ends: &mut Vec<ExecutorId>) {
        self.stopping = true;
        self.executors.end_all(&ExecutorEnding::AgentStopped, ends);
    }

    /// Whether the agent is about to end: it takes nothing any more.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }
}
