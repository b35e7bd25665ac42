//! Runs every target with a fixed number of inputs: all of one seed in the long tier, a part of a daily seed in the short one.
//! `make fuzz` continues from there.

use accord_fuzz::{ALL, Budget, TEST_SEED, drive};

/// The short tier runs one in so many of a target's inputs.
const SHORT_PART: u32 = 5;

fn fuzz(name: &str) {
    let target = ALL.iter().find(|target| target.name == name).unwrap();
    let inputs = accord_test_tier::pick(target.inputs / SHORT_PART, target.inputs);
    let seed = TEST_SEED + accord_test_tier::first_seed(1);
    let taken = drive(target, Budget::Inputs(inputs), seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    assert_eq!(taken, inputs);
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            fuzz(stringify!($name));
        })*

        #[test]
        fn every_target_has_its_test() {
            let names: Vec<_> = ALL.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

targets!(
    frames,
    payloads,
    headers,
    session,
    mpi_messages,
    mpi_lanes,
    controls,
    transfers,
    handshakes,
    measurements,
    tls_handshakes,
    tls_records,
    meetings,
    gateways,
    exports,
    handovers,
    rings,
    blocks,
    images,
    memory_handles,
    ptx,
    traces,
    objects,
    directives,
    pictures,
    messages,
    answers,
    worker_answers,
    use_reports,
    figures,
    certificates,
    settings,
    protocols,
    hosts,
    requests,
    policies,
    histories,
);
