//! Simulates 10,000 programs with devices of other nodes. `ACCORD_SIM_SEED=N` runs one seed again, `ACCORD_SIM_SEEDS=N`
//! that many.

use accord_sim::{connection, seeds};

/// Seeds of the short tier, and of the long one.
const SHORT: u64 = 500;
const LONG: u64 = 10_000;

#[test]
fn invariants_hold_in_every_seed() {
    seeds::run(SHORT, LONG, connection::run);
}
