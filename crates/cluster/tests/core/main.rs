//! The coordinator's core: inputs and times go in, effects come out, and invariants hold after each input.

mod allocations;
mod bench;
mod clock_jumps;
mod device_faults;
mod device_uses;
mod executor_ends;
mod false_claims;
mod keepers;
mod leaving;
mod liveness;
mod paths;
mod policies;
#[path = "../../../scheduler/tests/random/mod.rs"]
mod random;
mod requests;
mod reservations;
mod returns;
mod saved_state;
mod suspensions;
mod worlds;
