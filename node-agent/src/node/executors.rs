//! Executors, one for each session that uses the node. A session never has two at one time, because its devices are
//! free only when the previous one has ended.

use accord_fabric::ending::ExecutorEnding;
use accord_types::{SessionId, SessionKey};
use std::collections::BTreeMap;

/// Most executors at one time.
pub const EXECUTORS_MAX: usize = 1_024;

/// An executor. Its number is never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExecutorId(pub u64);

#[derive(Debug, Default)]
pub(super) struct Executors {
    places: BTreeMap<SessionId, SessionExecutor>,
    made: u64,
    /// Number of each user's ended sessions with processes that the kernel has not ended.
    remains: BTreeMap<String, usize>,
}

/// The executor of a session.
#[derive(Debug)]
pub(super) struct SessionExecutor {
    pub(super) executor: ExecutorId,
    user: String,
    /// The key of its session's job.
    job: Option<SessionKey>,
    /// The reason for its end, if its program learns that from the executor.
    ending: Option<ExecutorEnding>,
    pub(super) stage: Stage,
    /// Number of command lanes that wait for its end, to start another one.
    pub(super) successors: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Starting,
    Runs,
    /// The executor was asked to end.
    Ending,
    /// The executor has ended, and successors wait.
    Over,
}

impl Executors {
    pub(super) fn count(&self) -> usize {
        self.places.len() + self.remains.values().sum::<usize>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn of_user(&self, user: &str) -> usize {
        let places = self.places.values().filter(|place| place.user == user).count();
        places + self.remains.get(user).copied().unwrap_or(0)
    }

    /// Records that an ended session of the user still has processes.
    pub(super) fn remains(&mut self, user: &str) {
        *self.remains.entry(user.to_owned()).or_default() += 1;
    }

    pub(super) fn remains_gone(&mut self, user: &str) {
        if let Some(remains) = self.remains.get_mut(user) {
            *remains -= 1;
            if *remains == 0 {
                self.remains.remove(user);
            }
        }
    }

    pub(super) fn has(&self, session: SessionId) -> bool {
        self.places.contains_key(&session)
    }

    /// Whether a session of the job has an executor, or is about to.
    pub(super) fn has_job(&self, job: SessionKey) -> bool {
        self.places.values().any(|place| place.job == Some(job))
    }

    /// Returns the running executors of a job.
    pub(super) fn of_job(&self, job: SessionKey) -> Vec<ExecutorId> {
        let of_job = self.places.values().filter(|place| place.job == Some(job) && place.stage == Stage::Runs);
        of_job.map(|place| place.executor).collect()
    }

    pub(super) fn place(&mut self, session: SessionId) -> Option<&mut SessionExecutor> {
        self.places.get_mut(&session)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&SessionId, &SessionExecutor)> {
        self.places.iter()
    }

    /// Returns the session's executor if it runs and was not asked to end.
    pub(super) fn of(&self, session: SessionId) -> Option<ExecutorId> {
        self.places.get(&session).filter(|place| place.stage == Stage::Runs).map(|place| place.executor)
    }

    /// Returns the sessions that have an executor, or will have one soon.
    pub(super) fn running(&self) -> impl Iterator<Item = SessionId> {
        let goes_on =
            |place: &SessionExecutor| matches!(place.stage, Stage::Starting | Stage::Runs) || place.successors > 0;
        self.places.iter().filter(move |(_, place)| goes_on(place)).map(|(session, _)| *session)
    }

    /// Creates an executor for a session without one.
    pub(super) fn make(&mut self, session: SessionId, user: &str, job: Option<SessionKey>) -> ExecutorId {
        self.made += 1;
        let executor = ExecutorId(self.made);
        let successors = self.places.get(&session).map_or(0, |place| place.successors);
        let user = user.to_owned();
        self.places
            .insert(session, SessionExecutor { executor, user, job, ending: None, stage: Stage::Starting, successors });
        executor
    }

    /// Ends a running executor. A starting one ends once it runs.
    pub(super) fn end(&mut self, session: SessionId, ending: Option<&ExecutorEnding>, ends: &mut Vec<ExecutorId>) {
        if let Some(place) = self.places.get_mut(&session) {
            place.end_for(ending, ends);
        }
    }

    pub(super) fn end_all(&mut self, ending: &ExecutorEnding, ends: &mut Vec<ExecutorId>) {
        self.places.values_mut().for_each(|place| place.end_for(Some(ending), ends));
    }

    /// Returns why an executor was asked to end, if its program learns that from it.
    pub(super) fn ending(&self, executor: ExecutorId) -> Option<&ExecutorEnding> {
        self.places.values().find(|place| place.executor == executor)?.ending.as_ref()
    }

    /// Returns this executor's place, unless another executor has it.
    pub(super) fn of_executor(&mut self, session: SessionId, executor: ExecutorId) -> Option<&mut SessionExecutor> {
        self.places.get_mut(&session).filter(|place| place.executor == executor)
    }

    /// Records that an executor has ended, or never began.
    pub(super) fn over(&mut self, session: SessionId, executor: ExecutorId) -> Option<Stage> {
        let place = self.of_executor(session, executor)?;
        let before = std::mem::replace(&mut place.stage, Stage::Over);
        self.tidy(session);
        Some(before)
    }

    /// Removes a place without an executor and without successors.
    pub(super) fn tidy(&mut self, session: SessionId) {
        if self.places.get(&session).is_some_and(|place| place.stage == Stage::Over && place.successors == 0) {
            self.places.remove(&session);
        }
    }
}

impl SessionExecutor {
    fn end_for(&mut self, ending: Option<&ExecutorEnding>, ends: &mut Vec<ExecutorId>) {
        // The first reason counts.
        self.ending = self.ending.take().or_else(|| ending.cloned());
        self.end(ends);
    }

    pub(super) fn end(&mut self, ends: &mut Vec<ExecutorId>) {
        if self.stage == Stage::Runs {
            self.stage = Stage::Ending;
            ends.push(self.executor);
        }
    }
}
