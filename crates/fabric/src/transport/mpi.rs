//! Lanes over messages between MPI ranks. The agents of a job form one world, and one thread of each process owns MPI.
//!
//! ```text
//! lane.rs      `Lane` for the threads that read and write
//! intake.rs    short writes, queued for the thread
//! mailbox.rs   short messages, queued for a reader
//! slots.rs     the ring of slots that both use
//! streams.rs   all lanes of a rank: what to send next, and what was received               (pure)
//! credit.rs    the bound on bytes in flight to each peer                                   (pure)
//! message.rs   the wire format                                                             (pure)
//! backoff.rs   how long the thread spins, and when it blocks                               (pure)
//! exposed_buffers.rs      the state of an exposed buffer                                             (pure)
//! exposed_memory.rs      memory that MPI uses without a copy
//! posted_receives.rs  receives posted by tag                                              (pure)
//! posts.rs     addresses of posted receives, and sends to them
//! posted.rs    posting a receive, and notifying its waiter
//! signal.rs    a waiting thread, and how it is woken
//! shared.rs    state that lanes and the thread share
//! fabric.rs    the thread, and opening and accepting lanes
//! world.rs     the interface to a message passing library
//! object.rs    MPI itself, in an object that is loaded on demand
//! spare.rs     a pool of message buffers
//! short_buffers.rs  short messages while MPI uses them
//! trial.rs     tests whether MPI supports device memory
//! relay.rs     forwards bytes between this lane and one of shared memory, uninspected
//! piece.rs     a message's worth of forwarded bytes
//! ```

mod backoff;
mod cache_padded;
mod credit;
mod exposed_buffers;
#[allow(unsafe_code)]
mod exposed_memory;
mod fabric;
mod forwarding;
mod intake;
mod lane;
mod mailbox;
mod message;
#[allow(unsafe_code)]
mod object;
mod piece;
mod posted;
mod posted_receives;
mod posts;
mod reading;
mod relay;
mod send_queue;
mod shared;
#[allow(unsafe_code)]
mod short_buffers;
mod slots;
mod spare;
mod streams;
mod trial;
mod world;

pub use exposed_buffers::{ExposedPart, ExposureState};
pub use exposed_memory::{ReceiveBuffer, SendBuffer};
pub(super) use fabric::own;
pub use fabric::{MpiFabric, belong_to};
pub use message::{HEADER_LEN, Header, LaneKey, MessageKind};
pub use object::{MpiObject, ObjectFacts};
pub use posted_receives::ReceiveTarget;
pub(super) use relay::relay;
pub use shared::Counts;
pub use streams::{Next, Outgoing, Streams};
pub use trial::try_native;
pub use world::{FindReceiveBuffer, ReceivedItem, World};

#[cfg(test)]
mod tests {
    mod all_to_all;
}
