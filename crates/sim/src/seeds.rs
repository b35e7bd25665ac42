//! Runs a simulation with many seeds and names the one that failed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs this one seed, to reproduce a failure.
pub const SEED: &str = "ACCORD_SIM_SEED";
/// Number of seeds to run.
pub const SEEDS: &str = "ACCORD_SIM_SEEDS";

/// Runs `simulate` on all processors: for `short` seeds of the day, or for all seeds below `long` in the long tier.
///
/// # Panics
/// Panics if a seed fails, with its number and the command to run it again.
pub fn run(short: u64, long: u64, simulate: impl Fn(u64) -> Result<(), String> + Sync) {
    if let Some(seed) = number(SEED) {
        check(seed, &simulate);
        return;
    }
    let (first, count) = match number(SEEDS) {
        Some(count) => (0, count),
        None => (accord_test_tier::first_seed(short), accord_test_tier::pick(short, long)),
    };
    let end = first.saturating_add(count);
    let next = AtomicU64::new(first);
    let failed = AtomicU64::new(u64::MAX);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    while failed.load(Ordering::Relaxed) == u64::MAX {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end {
                            return;
                        }
                        let outcome = catch_unwind(AssertUnwindSafe(|| check(seed, &simulate)));
                        if let Err(panic) = outcome {
                            failed.fetch_min(seed, Ordering::Relaxed);
                            resume_unwind(panic);
                        }
                    }
                })
            })
            .collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                resume_unwind(panic);
            }
        }
    });
}

fn check(seed: u64, simulate: &impl Fn(u64) -> Result<(), String>) {
    let outcome = catch_unwind(AssertUnwindSafe(|| simulate(seed)));
    let why = match outcome {
        Ok(Ok(())) => return,
        Ok(Err(why)) => why,
        Err(panic) => panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "panicked".to_owned()),
    };
    panic!("seed {seed}: {why}\nrun it again with {SEED}={seed}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
