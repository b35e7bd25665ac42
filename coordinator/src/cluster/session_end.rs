//! Why a session ends that its program has not ended.

use accord_types::SessionId;
use accord_types::texts::{closed_by_administrator, time_is_over};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The reason for a session's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionEnd {
    /// An administrator has closed it.
    Administrator,
    /// It has lasted as long as it may.
    TimeIsOver,
    /// Its job has ended: why, and a remedy behind a semicolon.
    Job(Arc<str>),
}

impl SessionEnd {
    /// Returns the text for its program. The remedy follows a semicolon.
    pub fn text(&self, session: SessionId) -> String {
        match self {
            Self::Administrator => closed_by_administrator(session),
            Self::TimeIsOver => time_is_over(session),
            Self::Job(text) => text.to_string(),
        }
    }
}

/// The reasons for sessions' ends, for programs and agents that come back and ask. A full table forgets the session
/// with the lowest number, which is the oldest of its coordinator.
#[derive(Debug, Default)]
pub(super) struct SessionEnds(BTreeMap<SessionId, SessionEnd>);

impl SessionEnds {
    pub(super) fn insert(&mut self, session: SessionId, end: SessionEnd, max: usize) {
        self.0.insert(session, end);
        if self.0.len() > max {
            self.0.pop_first();
        }
    }

    pub(super) fn of(&self, session: SessionId) -> Option<SessionEnd> {
        self.0.get(&session).cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_forgets_the_oldest_session() {
        let mut ends = SessionEnds::default();
        for number in 1..=4 {
            ends.insert(SessionId(number), SessionEnd::TimeIsOver, 3);
        }
        assert_eq!((ends.len(), ends.of(SessionId(1))), (3, None));
        assert_eq!(ends.of(SessionId(4)), Some(SessionEnd::TimeIsOver));
    }
}
