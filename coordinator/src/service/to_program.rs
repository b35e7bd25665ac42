//! What the driver has for a program's connection.

use accord_cluster::LeaseDraft;
use accord_fabric::frame::session::Message;

/// A message to a program, in the outbox of its connection.
pub enum ToProgram {
    /// A message as it is sent.
    Message(Message),
    /// The program gets a session. The connection's task describes the devices, because that takes long where there are many, and the driver
    /// has a lock.
    Granted(LeaseDraft),
}

impl ToProgram {
    /// Returns the message to send.
    pub fn message(self) -> Message {
        match self {
            Self::Message(message) => message,
            Self::Granted(draft) => Message::Granted(draft.lease()),
        }
    }
}
