//! Sessions of earlier coordinators that have ended.

use accord_types::SessionId;
use std::collections::{BTreeSet, VecDeque};

/// The latest of these sessions. A full table drops the one that ended first.
#[derive(Debug, Default)]
pub(super) struct EndedSessions {
    in_order: VecDeque<SessionId>,
    known: BTreeSet<SessionId>,
}

impl EndedSessions {
    pub(super) fn insert(&mut self, session: SessionId, max: usize) {
        if !self.known.insert(session) {
            return;
        }
        self.in_order.push_back(session);
        if self.in_order.len() > max
            && let Some(first) = self.in_order.pop_front()
        {
            self.known.remove(&first);
        }
    }

    pub(super) fn contains(&self, session: SessionId) -> bool {
        self.known.contains(&session)
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_forgets_the_session_that_ended_first() {
        let mut ended = EndedSessions::default();
        for session in [5, 1, 5, 3] {
            ended.insert(SessionId(session), 2);
        }
        assert_eq!([5, 1, 3].map(|session| ended.contains(SessionId(session))), [false, true, true]);
        assert_eq!(ended.len(), 2);
    }
}
