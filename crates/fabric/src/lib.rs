//! What the processes of a cluster say to each other, and how.
//!
//! * [`session_endpoint`]: how a program opens a session at the coordinator.
//! * [`handshake`]: who is there, with the same version and the same key. [`peer`]: what its name is.
//! * [`frame`]: what is on the wire, and its bounds.
//! * [`link`]: all that two processes of a session have with each other, over whatever carries it.
//! * [`measurement`]: what a lane takes. [`memory_claims`]: who has how much of a device's memory.
//! * [`transfer`]: bytes of copies, and who waits for whom.
//! * [`transport`]: what carries lanes, and where peers are. [`route`]: which of them to take. [`copy_way`]: which way the bytes of a
//!   copy between two devices go.
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
mod shown_wait;
pub mod stalls;
pub mod stats;
pub mod transfer;
pub mod transport;

pub use key::{Key, new_session_key};
pub use program::ProgramSpec;
