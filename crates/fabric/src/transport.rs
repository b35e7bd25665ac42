//! Lanes and their transports. All code that names a socket or an address is below this module; other code holds a
//! [`Lane`].

mod acceptor;
mod address;
mod connect;
mod descriptors;
pub mod gateway;
mod handover;
mod inproc;
mod lane;
mod listener;
mod local_server;
mod local_socket;
mod low_water;
pub mod mpi;
mod offered_memory;
#[cfg(accord_tsan)]
mod one_mapping;
mod remote_memory;
mod retransmit;
pub mod same_host;
#[allow(unsafe_code)]
mod shared_memory;
mod shared_words;
mod shm;
mod socket;
#[allow(unsafe_code)]
mod socket_option;
mod time_limit;
mod tls;
mod window;

pub use acceptor::{Acceptor, Outcome, RequiredProof, Waker};
pub use address::{ListenAddress, PeerAddress};
pub use connect::{route, route_now};
pub use descriptors::DESCRIPTORS_MAX;
pub use handover::{Handover, HandoverMessage};
pub use inproc::inproc_pair;
pub use lane::{Lane, LaneDescriptors, LaneProperties, LocalClient, SharedLane, Transport};
pub use listener::{IncomingLane, Listener};
pub use remote_memory::{MemoryKind, PostedReceive, PostedSend, ReceiveEnded, RemoteMemory, Source};
pub use shm::shm_pair;
#[cfg(test)]
pub(crate) use socket::plain;
pub use socket::{adopt, find_dead_host, find_dead_host_soon, local_pair, pair, probe_seldom};
pub use tls::{accept_tls, connect_tls};

pub(crate) use connect::connect;
pub(crate) use local_server::{Refused, connect as connect_local};
pub(crate) use socket::{connect as connect_tcp, probe_often};
