//! The coordinator's core: inputs and times go in, effects come out, and invariants hold after each input.

mod allocations;
mod bench;
mod device_faults;
mod device_uses;
mod executor_ends;
mod kept;
mod leaving;
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
