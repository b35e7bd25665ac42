//! The pure core of the coordinator: inputs and times in, effects out, and what must hold after each of them.

mod allocations;
mod bench;
mod device_faults;
mod device_uses;
mod election;
mod executor_ends;
mod kept;
mod lies;
mod liveness;
mod paths;
mod policies;
#[path = "../../../crates/scheduler/tests/random/mod.rs"]
mod random;
#[path = "../requests/mod.rs"]
mod requests;
mod reservations;
mod returns;
mod worlds;
