//! Every target takes a fixed number of inputs, of a fixed seed. `make fuzz` goes on from there.

use accord_fuzz::{ALL, Budget, TEST_SEED, drive};

fn fuzz(name: &str) {
    let target = ALL.iter().find(|target| target.name == name).unwrap();
    let taken = drive(target, Budget::Inputs(target.inputs), TEST_SEED).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(taken, target.inputs);
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
    figures,
    certificates,
    settings,
    protocols,
    hosts,
);
