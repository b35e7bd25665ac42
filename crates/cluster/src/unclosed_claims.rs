//! Ended sessions that only their programs had named, and whose end the agents of some nodes have not received.

use accord_types::{NodeId, SessionId, SessionKey};
use std::collections::BTreeMap;

/// The sessions by node, with the keys that their programs named. A full table takes no more.
#[derive(Debug, Default)]
pub(super) struct UnclosedClaims(BTreeMap<(NodeId, SessionId), SessionKey>);

impl UnclosedClaims {
    /// Notes that a node's agent, which is away, has to end a session if it knows the session by this key.
    pub(super) fn insert(&mut self, node: NodeId, session: SessionId, key: SessionKey, max: usize) {
        if self.0.len() < max {
            self.0.insert((node, session), key);
        }
    }

    /// Removes and returns the sessions that a node's agent has to end.
    pub(super) fn take(&mut self, node: NodeId) -> Vec<(SessionId, SessionKey)> {
        let of_node = (node, SessionId(0))..=(node, SessionId(u64::MAX));
        let sessions: Vec<_> = self.0.range(of_node).map(|((_, session), key)| (*session, *key)).collect();
        for (session, _) in &sessions {
            self.0.remove(&(node, *session));
        }
        sessions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_takes_no_more_and_each_node_has_its_own() {
        let (mut unclosed, key) = (UnclosedClaims::default(), SessionKey([7; SessionKey::LEN]));
        for (node, session) in [(1, 5), (2, 5), (1, 6), (1, 7)] {
            unclosed.insert(NodeId(node), SessionId(session), key, 3);
        }
        assert_eq!(unclosed.take(NodeId(1)), [(SessionId(5), key), (SessionId(6), key)]);
        assert_eq!((unclosed.take(NodeId(1)).len(), unclosed.take(NodeId(2)).len()), (0, 1));
    }
}
