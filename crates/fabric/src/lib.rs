//! What the processes of a cluster say to each other, and how.
//!
//! * [`door`]: how a program opens a session at the coordinator.
//! * [`handshake`]: who is there, with the same version and the same key.
//! * [`frame`], [`wire`]: commands and events of the command lane, and their bounds.
//! * [`bulk`]: transfers in chunks. [`matching`]: who waits for whom in a copy between devices.
//! * [`words`]: what targets of copies say. [`exchange`]: copies between devices of different processes.
//! * [`local`]: connections between processes of one machine, besides the lanes.
//! * [`transport`]: what carries lanes, and where peers are. [`route`]: which of them to take.
// One file shares memory with other processes.
#![deny(unsafe_code)]

pub mod bulk;
pub mod clock;
pub mod door;
pub mod exchange;
pub mod frame;
pub mod handshake;
mod key;
pub mod local;
pub mod matching;
mod program;
pub mod route;
pub mod stats;
pub mod transport;
pub mod wire;
pub mod words;

pub use key::Key;
pub use program::ProgramSpec;
