//! Reasons for the end of a session other than by its program.

use accord_types::SessionId;
use accord_types::texts::{closed_by_administrator, time_is_over};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The reason for a session's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionEnd {
    /// An administrator has closed it.
    Administrator,
    /// The time of the session is over.
    TimeIsOver,
    /// Its job has ended. The text has the reason and, after a semicolon, a remedy.
    Job(Arc<str>),
}

impl SessionEnd {
    /// Returns the text for the program. The remedy follows a semicolon.
    pub fn text(&self, session: SessionId) -> String {
        match self {
            Self::Administrator => closed_by_administrator(session),
            Self::TimeIsOver => time_is_over(session),
            Self::Job(text) => text.to_string(),
        }
    }
}

/// Reasons for the ends of sessions, for programs and agents that reconnect. A full table drops the session with the
/// lowest number, the oldest of its coordinator.
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
