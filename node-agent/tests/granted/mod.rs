//! A session as a coordinator announces it, for tests of an agent's rules.

use accord_types::{SessionGrant, SessionId, SessionKey};

/// Returns the grant of a session of Alice's, with the agent's first device.
pub(crate) fn grant(session: SessionId, ends_in_ms: Option<u64>) -> SessionGrant {
    SessionGrant {
        session,
        key: SessionKey([7; SessionKey::LEN]),
        user: "alice".to_owned(),
        ends_in_ms,
        program: "app".to_owned(),
        node_name: "h0".to_owned(),
        pid: 1,
        rank: None,
        ordinals: vec![0],
        memory_quota: 0,
        stream_quota: 4,
        plain_tcp: false,
        opened_unix_ms: 0,
        job: None,
    }
}
