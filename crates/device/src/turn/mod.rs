//! Turns on a device that several processes share. The node's agent gives them out; a process without a turn holds its
//! regions back.
//!
//! A [`TurnKeeper`] has a thread for each device, which follows the agent's messages and moves the gate of the device's
//! [`TurnWords`]. Threads that launch regions read the gate, and nothing else while it is open.

mod keeper;
mod suspension;
mod words;

pub use keeper::{Activity, GatedDevice};
pub use keeper::{TurnAgent, TurnKeeper};
pub use suspension::{hold_anyway, resume, suspend};
pub use words::TurnWords;
