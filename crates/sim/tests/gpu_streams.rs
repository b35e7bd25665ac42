//! 10,000 programs on the streams of a GPU. `ACCORD_SIM_SEED=N` runs one again, `ACCORD_SIM_SEEDS=N` that many.

use accord_sim::gpu_streams::{Fault, run, run_with};
use accord_sim::seeds;

/// Seeds of the short tier, and of the long one.
const SHORT: u64 = 1_000;
const LONG: u64 = 10_000;

#[test]
fn invariants_hold_in_every_seed() {
    seeds::run(SHORT, LONG, run);
}

#[test]
fn each_planted_fault_is_found() {
    let is_missed = |fault: &Fault| (0..LONG).all(|seed| run_with(seed, Some(*fault)).is_ok());
    let missed: Vec<_> = Fault::ALL.into_iter().filter(is_missed).collect();
    assert!(missed.is_empty(), "no seed of {LONG} finds {missed:?}");
}
