//! Transfers. Their bytes are sent in chunks on bulk lanes (program and executor) and peer lanes (executor and
//! executor). A transfer occupies a lane from its first chunk to its last, so that it never waits for another one's bytes
//! there.
//!
//! * [`Outbox`], [`Inbox`]: both sides of lanes that carry bytes. Receives are posted before their bytes are sent.
//! * [`ControlSender`], [`receive_control`]: the messages from a copy's target to its pusher.
//! * `rendezvous`: the state of each copy between devices. Decisions without I/O.
//! * [`ExchangeCore`]: all copies of a process, by these decisions. Also without I/O.
//! * [`Exchange`]: [`ExchangeCore`] with threads that block and lanes that carry the bytes.

mod chunk_io;
mod control;
mod exchange;
mod inbox;
mod lane_pool;
mod outbox;
mod rendezvous;

pub(crate) use chunk_io::LENT_MIN;
pub use chunk_io::{read_bytes, read_chunk, write_chunk};
pub use control::{ControlMessage, ControlSender, RoomWord, TransferControl, receive_control};
pub use exchange::pushing::Pushing;
pub use exchange::{
    DeviceRoom, DeviceRooms, DirectWays, Ending, Exchange, ExchangeCore, ExchangeEffect, Export, IncomingBytes,
    IncomingTransfer, RoomPlace, Starter, TellOver,
};
pub use inbox::{Inbox, Incoming, Receive};
pub use lane_pool::LanePool;
pub use outbox::{Outbox, Outgoing, PushingStream};
pub use rendezvous::{PushStep, TRANSFERS_MAX};

#[cfg(test)]
pub(crate) use rendezvous::simulation::Random;

#[cfg(test)]
mod tests;
