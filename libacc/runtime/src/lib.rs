//! OpenACC's rules without its surroundings: what a construct or a routine means for the
//! present table, the queues and the devices.
//!
//! The C shell (`libacc`) turns calls into values and calls [`Runtime`]; the drivers
//! (`accord-client`) implement [`ports`]. Nothing here does I/O, reads a clock or is `unsafe`.
#![forbid(unsafe_code)]

mod address_space;
mod bare_pointers;
pub mod bench;
mod block_copies;
mod bounds;
pub mod compare;
mod construct;
mod device;
mod device_rules;
mod explain;
mod failed_launch;
mod growth;
mod icv;
mod issue;
mod local_thread;
mod memory;
mod numbering;
mod outside;
mod pending_copies_out;
mod plan;
mod pointer_log;
pub mod ports;
mod present;
mod present_around;
pub mod prof;
mod program;
mod queues;
mod routine;
mod runtime;
#[cfg(test)]
mod tests;
mod waits_in_turn;
mod write_back;

pub use construct::{Entries, Placement, Tags, on_host};
pub use local_thread::LocalThread;
pub use program::{Global, GlobalKind, Settings};
pub use routine::AnyDone;
pub use runtime::Runtime;
