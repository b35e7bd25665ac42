//! Random programs compared with a model of the specification, through the whole of libacc. A GCC-compiled program
//! executes the operations of a file, on devices in the process, on other nodes, and on one of each.
//!
//! `ACCORD_TEST_SEED` replaces the first seed, and `ACCORD_TEST_OPERATIONS` the number of operations of each test. A
//! failure is shrunk for `ACCORD_TEST_SHRINK` seconds, and printed as a C program. With `ACCORD_TEST_GPU=2` the tests
//! of GPUs use that many of this machine's, instead of the tests' own driver; `ACCORD_TEST_MODEL` is then the compiled
//! driver.c.
#![forbid(unsafe_code)]

#[path = "../driver/mod.rs"]
mod driver;
mod harness;
mod op;
mod plan;
mod shrink;
mod spec;

use harness::{DevicePlace, Harness, Kind};
use op::Op;
use plan::{Abilities, Choice};
use std::time::{Duration, Instant};

/// Choices of one sequence: each is an operation with the waits that it needs.
const CHOICES: usize = 48;
/// Number of sequences per process.
const SEQUENCES: usize = 400;
/// Number of tries of a small sequence: a race does not fail each time.
const TRIES: usize = 40;
const FIRST_SEED: u64 = 1;
/// Seeds per day in the short tier, more than a test uses.
const SEEDS_OF_A_DAY: u64 = 20_000;
/// The short tier runs one in this many of a test's operations.
const SHORT_PART: u64 = 20;
/// The time limit of the search for a smaller sequence.
const SHRINK_S: u64 = 120;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Runs this many operations, or in the short tier a part of them. A failure ends the run.
fn check(kind: Kind, place: DevicePlace, operations: u64) {
    check_by(&Harness::new(place, kind).expect("the driver"), operations);
}

fn check_by(harness: &Harness, operations: u64) {
    let place = harness.place;
    let abilities = Abilities { devices: harness.devices(), across: harness.devices() > 1 };
    let operations = number("ACCORD_TEST_OPERATIONS", accord_test_tier::pick(operations / SHORT_PART, operations));
    let mut seed = number("ACCORD_TEST_SEED", FIRST_SEED + accord_test_tier::first_seed(SEEDS_OF_A_DAY));
    let (begin, mut done, mut sequences) = (Instant::now(), 0, 0);
    while done < operations {
        let all: Vec<Vec<Choice>> = (0..SEQUENCES as u64).map(|i| plan::choices(seed + i, CHOICES)).collect();
        let programs: Vec<Vec<Op>> = all.iter().map(|choices| plan::plan(choices, abilities)).collect();
        let mut some = programs.len();
        let mut count = 0;
        for (index, program) in programs.iter().enumerate() {
            if done + count >= operations {
                some = index;
                break;
            }
            count += program.len() as u64;
        }
        let outcome = harness.run(programs[..some].iter().map(Vec::as_slice)).expect("the driver runs");
        done += count;
        sequences += some;
        if let Some((index, report)) = outcome {
            fail(harness, abilities, seed + index as u64, &all[index], &report, begin.elapsed(), sequences);
        }
        seed += SEQUENCES as u64;
    }
    println!("{place:?}: {done} operations in {sequences} sequences, {:.1} s", begin.elapsed().as_secs_f64());
}

/// Shrinks the failed sequence and reports it.
fn fail(
    harness: &Harness,
    abilities: Abilities,
    seed: u64,
    choices: &[Choice],
    report: &str,
    after: Duration,
    sequences: usize,
) -> ! {
    let fails = |choices: &[Choice]| {
        let ops = plan::plan(choices, abilities);
        harness.run(std::iter::repeat_n(ops.as_slice(), TRIES)).ok().flatten().is_some()
    };
    let limit = Duration::from_secs(number("ACCORD_TEST_SHRINK", SHRINK_S));
    let small = shrink::shrink(choices, limit, fails);
    let ops = plan::plan(&small, abilities);
    let again = harness.run(std::iter::repeat_n(ops.as_slice(), TRIES)).ok().flatten();
    let again = again.map_or_else(|| "it did not fail again".to_owned(), |(_, report)| report);
    panic!(
        "{:?} devices, ACCORD_TEST_SEED={seed}: wrong after {:.1} s, among {sequences} sequences\n{report}\n\
         shrunk to {} of {} choices:\n{}\nwhich says\n{again}",
        harness.place,
        after.as_secs_f64(),
        small.len(),
        choices.len(),
        op::program(&ops),
    )
}

#[test]
fn devices_in_the_process() {
    check(Kind::Cpu, DevicePlace::InProcess, 400_000);
}

#[test]
fn devices_of_other_nodes() {
    check(Kind::Cpu, DevicePlace::Remote, 250_000);
}

#[test]
fn a_device_of_each_kind() {
    check(Kind::Cpu, DevicePlace::Mixed, 250_000);
}

#[test]
fn devices_behind_slow_links() {
    check(Kind::Cpu, DevicePlace::Slow, 100_000);
}

/// A tool observes, and ends the program at the first event that violates the specification.
#[test]
fn events_keep_their_grammar() {
    let (cpu, gpu) = (Kind::Cpu, Kind::Gpu);
    for (kind, place) in [
        (cpu, DevicePlace::InProcess),
        (cpu, DevicePlace::Remote),
        (cpu, DevicePlace::Mixed),
        (gpu, DevicePlace::InProcess),
    ] {
        let harness = Harness::new(place, kind).expect("the driver");
        check_by(&harness.watched().expect("the tool"), 15_000);
    }
}

#[test]
fn gpus_in_the_process() {
    check(Kind::Gpu, DevicePlace::InProcess, 60_000);
}

#[test]
fn gpus_of_other_nodes() {
    check(Kind::Gpu, DevicePlace::Remote, 30_000);
}

#[test]
fn a_gpu_of_each_kind() {
    if harness::gpus() == Some(1) {
        println!("skipped: it takes two GPUs");
        return;
    }
    check(Kind::Gpu, DevicePlace::Mixed, 30_000);
}
