//! The protocols between the processes of a cluster.
//!
//! * [`session_endpoint`]: how a program opens a session at the coordinator.
//! * [`handshake`]: authenticates peers and checks their version. [`peer`]: their names.
//! * [`frame`]: the wire formats and their bounds.
//! * [`link`]: all connections between two processes of a session, over any transport.
//! * [`measurement`]: a lane's latency and bandwidth. [`memory_claims`]: claims to a device's memory. [`turn_messages`]:
//!   turns on a device.
//! * [`transfer`]: the bytes of copies, and their ordering.
//! * [`transport`]: the carriers of lanes, and peers' addresses. [`route`]: the choice of a transport. [`copy_way`]: the
//!   choice of the way of a copy between two devices.
// One file shares memory with other processes.
#![deny(unsafe_code)]

pub mod clock;
pub mod copy_way;
pub mod ending;
pub mod frame;
pub mod handshake;
mod key;
pub mod link;
pub mod measurement;
pub mod memory_claims;
pub mod peer;
mod program;
pub mod route;
pub mod session_endpoint;
pub mod stalls;
pub mod stats;
pub mod transfer;
pub mod transport;
pub mod turn_messages;
pub mod use_report;
mod wait_display;

pub use key::{Key, new_session_key};
pub use program::ProgramSpec;
