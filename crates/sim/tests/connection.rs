//! 10,000 programs with a device of another node. `ACCORD_SIM_SEED=N` runs one again, `ACCORD_SIM_SEEDS=N` that many.

use accord_sim::{connection, seeds};

/// Seeds of a test run.
const SEEDS: u64 = 10_000;

#[test]
fn invariants_hold_in_every_seed() {
    seeds::run(SEEDS, connection::run);
}
