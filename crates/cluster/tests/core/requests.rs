//! Requests of test programs to a coordinator.

use accord_types::{OrderPolicy, SessionRequest};

/// Returns a request for a session by a program on this node.
pub(crate) fn request(node_name: &str) -> SessionRequest {
    SessionRequest {
        node_name: node_name.into(),
        pid: 1,
        program: "app".into(),
        rank: None,
        kind: None,
        order: OrderPolicy::Local,
        devices: None,
        job: None,
    }
}
