//! Transfers. Their bytes are sent in chunks on bulk lanes (program and executor) and peer lanes (executor and
//! executor). A transfer occupies a lane from its first chunk to its last, so that it never waits for another one's bytes
//! there.
//!
//! * [`Outbox`], [`Inbox`]: both sides of lanes that carry bytes. Receives are posted before their bytes are sent.
//! * [`ControlSender`], [`receive_control`]: the messages from a copy's target to its source.
//! * [`TransferTable`]: all copies between devices of a process, each one record with one state. Decisions without I/O.
//! * [`Exchange`]: [`TransferTable`] with threads that block and lanes that carry the bytes.

mod chunk_io;
mod control;
mod exchange;
mod inbox;
mod lane_pool;
mod outbox;
mod table;

pub(crate) use chunk_io::EXPOSED_MIN;
pub use chunk_io::{read_bytes, read_chunk, write_chunk};
pub use control::{ControlMessage, ControlSender, ReceiveAnnouncement, TransferControl, receive_control};
pub use exchange::pushing::Pushing;
pub use exchange::{DeviceReceives, Exchange, IncomingBytes, ReportOver, TransferEnding, TransferTarget};
pub use inbox::{Inbox, Incoming, Receive};
pub use lane_pool::LanePool;
pub use outbox::{Outbox, Outgoing, PushingStream};
pub use table::{Offer, PushStep, TRANSFERS_MAX, TransferEffect, TransferTable};

#[cfg(test)]
pub(crate) use table::tests::simulation::Random;

#[cfg(test)]
mod tests;
