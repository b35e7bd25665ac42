//! A network as between distant machines, between the hosts of a local cluster: every frame from host to host takes a fixed time,
//! over links of a fixed rate.
//!
//! `accord run --local-cluster HxD -- slow-network -- PROGRAM` replaces the kernel's bridge between the hosts' network namespaces by its
//! own switch, and then starts the program. [`Switch`] decides, without I/O or a clock; [`run`] connects it to packet sockets.
#![forbid(unsafe_code)]

mod drive;
mod frame;
mod hosts;
mod packet_socket;
mod switch;

pub use drive::{Carried, run};
pub use frame::{Frame, OFFLOAD_LEN};
pub use hosts::{Between, Hosts};
pub use packet_socket::PacketSocket;
pub use switch::{ADDRESSES_MAX, BYTES_MAX, Counts, FRAMES_MAX, OutgoingFrame, Switch};

/// The reason why there is no such network, for display.
pub type Result<T, E = String> = std::result::Result<T, E>;
