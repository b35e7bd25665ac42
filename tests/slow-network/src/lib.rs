//! A network as between machines that are apart, between the hosts of a local cluster: every frame from host to host takes a fixed time,
//! and goes through links of a fixed rate.
//!
//! `accord run --local-cluster HxD -- slow-network -- PROGRAM` puts a switch of its own in the place of the kernel's bridge between the
//! hosts' network namespaces, and then starts the program. [`Switch`] decides, without I/O or clock; [`run`] has the packet sockets around it.
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
pub use switch::{ADDRESSES_MAX, BYTES_MAX, Counts, FRAMES_MAX, Leaving, Switch};

/// Why there is no such network, in words.
pub type Result<T, E = String> = std::result::Result<T, E>;
