//! Programs' connections: served by the coordinator that leads, and referred to it by the others.

use super::caller::Caller;
use super::referral::Referral;
use super::session_endpoint::{SessionEndpoint, refuse};
use accord_fabric::frame::session::Message;
use accord_proto::Stream;
use accord_types::Error;
use std::time::Duration;

/// The handling of programs' connections.
pub(super) enum Programs {
    Served(SessionEndpoint),
    Referred {
        to: Referral,
        /// The longest silence of a program's machine.
        lost_after: Duration,
    },
}

impl Programs {
    /// Serves one program's connection to its end.
    pub(super) async fn enter(&self, stream: Stream, caller: &Caller) {
        match self {
            Self::Served(endpoint) => endpoint.enter(stream, caller).await,
            Self::Referred { to, lost_after } => refuse(stream, Message::NotLeading(to.text()), *lost_after).await,
        }
    }

    /// Tells a program why there is no session for it.
    pub(super) async fn refuse(&self, stream: Stream, error: Error) {
        let lost_after = match self {
            Self::Served(endpoint) => endpoint.program_lost_after(),
            Self::Referred { lost_after, .. } => *lost_after,
        };
        refuse(stream, Message::Refused(error), lost_after).await;
    }
}
