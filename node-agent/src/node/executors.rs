//! Executors: one for each session that uses the node. Of a session never two run at a time, as its devices are free only when the one before
//! has ended.

use accord_types::SessionId;
use std::collections::BTreeMap;

/// Executors at one time.
pub const EXECUTORS_MAX: usize = 1_024;

/// An executor. Its number is never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExecutorId(pub u64);

#[derive(Debug, Default)]
pub(super) struct Executors {
    places: BTreeMap<SessionId, SessionExecutor>,
    made: u64,
}

/// Of a session.
#[derive(Debug)]
pub(super) struct SessionExecutor {
    pub(super) executor: ExecutorId,
    pub(super) stage: Stage,
    /// Command lanes that wait for its end, to begin another one.
    pub(super) successors: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Starting,
    Runs,
    /// It was told to end.
    Ending,
    /// It has ended, and there are successors.
    Over,
}

impl Executors {
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    pub(super) fn has(&self, session: SessionId) -> bool {
        self.places.contains_key(&session)
    }

    pub(super) fn place(&mut self, session: SessionId) -> Option<&mut SessionExecutor> {
        self.places.get_mut(&session)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&SessionId, &SessionExecutor)> {
        self.places.iter()
    }

    /// What runs, and goes on.
    pub(super) fn of(&self, session: SessionId) -> Option<ExecutorId> {
        self.places.get(&session).filter(|place| place.stage == Stage::Runs).map(|place| place.executor)
    }

    /// Sessions that have one, or are about to: also where another one takes its place.
    pub(super) fn running(&self) -> impl Iterator<Item = SessionId> {
        let goes_on =
            |place: &SessionExecutor| matches!(place.stage, Stage::Starting | Stage::Runs) || place.successors > 0;
        self.places.iter().filter(move |(_, place)| goes_on(place)).map(|(session, _)| *session)
    }

    /// Another one, where there is none.
    pub(super) fn make(&mut self, session: SessionId) -> ExecutorId {
        self.made += 1;
        let executor = ExecutorId(self.made);
        let successors = self.places.get(&session).map_or(0, |place| place.successors);
        self.places.insert(session, SessionExecutor { executor, stage: Stage::Starting, successors });
        executor
    }

    /// One that runs has to end. One that is about to start is told when it has.
    pub(super) fn end(&mut self, session: SessionId, ends: &mut Vec<ExecutorId>) {
        if let Some(place) = self.places.get_mut(&session) {
            place.end(ends);
        }
    }

    pub(super) fn end_all(&mut self, ends: &mut Vec<ExecutorId>) {
        self.places.values_mut().for_each(|place| place.end(ends));
    }

    /// The place of this executor, unless another one has it.
    pub(super) fn of_executor(&mut self, session: SessionId, executor: ExecutorId) -> Option<&mut SessionExecutor> {
        self.places.get_mut(&session).filter(|place| place.executor == executor)
    }

    /// It has ended, or never began.
    pub(super) fn over(&mut self, session: SessionId, executor: ExecutorId) -> Option<Stage> {
        let place = self.of_executor(session, executor)?;
        let before = std::mem::replace(&mut place.stage, Stage::Over);
        self.tidy(session);
        Some(before)
    }

    /// A place without executor is for those who wait for it.
    pub(super) fn tidy(&mut self, session: SessionId) {
        if self.places.get(&session).is_some_and(|place| place.stage == Stage::Over && place.successors == 0) {
            self.places.remove(&session);
        }
    }
}

impl SessionExecutor {
    pub(super) fn end(&mut self, ends: &mut Vec<ExecutorId>) {
        if self.stage == Stage::Runs {
            self.stage = Stage::Ending;
            ends.push(self.executor);
        }
    }
}
