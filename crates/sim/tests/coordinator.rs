//! Simulates 10,000 clusters with trouble. `ACCORD_SIM_SEED=N` runs one seed again, `ACCORD_SIM_SEEDS=N` that many.

use accord_sim::coordinator::{Plan, run};
use accord_sim::random::Random;
use accord_sim::seeds;

/// Seeds of the short tier, and of the long one.
const SHORT: u64 = 150;
const LONG: u64 = 10_000;
/// Every this many seeds there is a cluster of 1,000 agents with 8 devices each, and two of half an hour with outages
/// of minutes.
const FULL_EVERY: u64 = 100;

#[test]
fn invariants_hold_in_every_seed() {
    seeds::run(SHORT, LONG, |seed| {
        let plan = match seed % FULL_EVERY {
            7 => Plan::full(),
            3 | 57 => Plan::long(&mut Random::new(!seed)),
            _ => Plan::small(&mut Random::new(!seed)),
        };
        run(seed, plan)
    });
}
