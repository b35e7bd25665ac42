//! State of the agent's departure: an agent that is told to stop waits until sessions and jobs of its node have ended.

use std::time::Duration;

/// A departure that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Departure {
    /// The agent leaves then, whatever uses the node.
    pub(super) by: Duration,
    pub(super) notice: Notice,
}

/// The coordinator's knowledge of a departure, on this connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Notice {
    /// No notice has been sent.
    Unsent,
    /// The notice has been sent. Sessions that the coordinator opened before may still arrive.
    Sent,
    /// The coordinator has answered, and opens no further session here.
    Answered,
}
