//! Lanes over messages between ranks, as MPI has them: the agents of a job form one world, and one thread of each owns it.
//!
//! ```text
//! lane.rs      what a lane promises, for the threads that read and write
//! streams.rs   the lanes of a rank as one machine: what is sent next, what has come        (pure)
//! credit.rs    how much may be on its way to whom                                          (pure)
//! message.rs   what is on the wire                                                         (pure)
//! backoff.rs   how long the thread looks, and when it sleeps                               (pure)
//! shared.rs    what lanes and the thread share
//! fabric.rs    the thread, and opening and taking lanes
//! world.rs     what is asked of a message passing library
//! object.rs    MPI itself, in an object that is loaded when it is asked for
//! spare.rs     buffers of messages, used again
//! relay.rs     bytes of one lane to another, without a look at them
//! ```

mod backoff;
mod credit;
mod fabric;
mod lane;
mod message;
#[allow(unsafe_code)]
mod object;
mod relay;
mod shared;
mod spare;
mod streams;
mod world;

pub(super) use fabric::own;
pub use fabric::{MpiFabric, belong_to};
pub use message::{HEADER_LEN, Header, MessageKind};
pub use object::{MpiObject, ObjectNews};
pub use relay::relay;
pub use streams::{LaneKey, Outgoing, Streams};
pub use world::World;
