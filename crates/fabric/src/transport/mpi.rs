//! Lanes over messages between ranks, as MPI has them: the agents of a job form one world, and one thread of each owns it.
//!
//! ```text
//! lane.rs      what a lane promises, for the threads that read and write
//! intake.rs    short writes, on their way to the thread
//! mailbox.rs   short messages, on their way to a reader
//! slots.rs     the ring that both are made of
//! streams.rs   the lanes of a rank as one machine: what is sent next, what has come        (pure)
//! credit.rs    how much may be on its way to whom                                          (pure)
//! message.rs   what is on the wire                                                         (pure)
//! backoff.rs   how long the thread looks, and when it sleeps                               (pure)
//! loan.rs      what is lent, and how far that is                                          (pure)
//! lent.rs      memory that goes to MPI as it is
//! posted_rooms.rs  room whose message comes unasked                                    (pure)
//! posts.rs     where that is, and bytes for such
//! posted.rs    posting it, and who is told when the message is there
//! signal.rs    who waits, and how that one is told
//! shared.rs    what lanes and the thread share
//! fabric.rs    the thread, and opening and taking lanes
//! world.rs     what is asked of a message passing library
//! object.rs    MPI itself, in an object that is loaded when it is asked for
//! spare.rs     buffers of messages, used again
//! short_buffers.rs  short messages while MPI has them
//! trial.rs     whether devices' own memory may be lent
//! relay.rs     bytes of one lane to another, without a look at them
//! ```

mod apart;
mod backoff;
mod credit;
mod fabric;
mod intake;
mod lane;
#[allow(unsafe_code)]
mod lent;
mod loan;
mod mailbox;
mod message;
#[allow(unsafe_code)]
mod object;
mod passing;
mod posted;
mod posted_rooms;
mod posts;
mod reading;
mod relay;
mod shared;
#[allow(unsafe_code)]
mod short_buffers;
mod slots;
mod spare;
mod streams;
mod trial;
mod world;

pub(super) use fabric::own;
pub use fabric::{MpiFabric, belong_to};
pub use lent::{LentBytes, LentRoom};
pub use loan::{Lent, Loan};
pub use message::{HEADER_LEN, Header, LaneKey, MessageKind};
pub use object::{MpiObject, ObjectNews};
pub use posted_rooms::RoomOf;
pub use relay::relay;
pub use shared::Counts;
pub use streams::{Next, Outgoing, Streams};
pub use trial::try_native;
pub use world::{Came, FindRoom, World};

#[cfg(test)]
mod tests {
    mod all_to_all;
}
