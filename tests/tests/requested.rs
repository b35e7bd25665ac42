//! Programs that ask for devices: a machine alone gives them, and what takes a scheduler is refused by its word.

use accord_tests::{Cluster, Finished, Job, Tool, libacc, test_program, tool};
use std::path::Path;

/// It prints how many devices it has.
const PROGRAM: &str = "cluster/device_count.c";

fn with_variable(program: &Path, request: &str) -> Finished {
    let job = Job::new(program).env("LD_PRELOAD", libacc().unwrap()).env("ACCORD_CPU_MEMORY", "64M");
    job.env("ACCORD_DEVICES", request).run().unwrap()
}

fn with_options(program: &Path, options: &[&str]) -> Finished {
    let job =
        Job::new(tool(Tool::Accord).unwrap()).args(["run"]).args(options.iter().copied()).args(["--"]).args([program]);
    job.env("ACCORD_CPU_MEMORY", "64M").run().unwrap()
}

fn failed(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code(), code, "{}", finished.report());
    assert!(finished.stdout.is_empty(), "{}", finished.report());
    for word in words {
        assert!(finished.stderr.contains(word), "no {word:?}: {}", finished.report());
    }
}

#[test]
fn a_machine_alone_gives_type_count_and_memory_and_refuses_the_rest() {
    let program = test_program(PROGRAM).unwrap();
    for request in ["3:cpu", "3:nvidia else 3:cpu:32M local"] {
        let finished = with_variable(&program, request).success().unwrap();
        assert!(finished.stdout.starts_with("devices=3\n"), "{}", finished.report());
    }
    let finished = with_options(&program, &["--devices", "2:cpu", "--near"]).success().unwrap();
    assert!(finished.stdout.starts_with("devices=2\n"), "{}", finished.report());

    failed(&with_variable(&program, "1:radeon"), 1, &["ACCORD_DEVICES", "wrong at \"radeon\"", "no device type"]);
    failed(&with_variable(&program, "2:cpu:1G"), 1, &["ACCORD_DEVICES is \"2:cpu:1G\"", "too few such devices"]);
    failed(&with_variable(&program, "1:cpu limit=2h"), 1, &["limit takes a cluster's scheduler"]);
    failed(
        &with_options(&program, &["--devices", "1:cpu", "--limit", "2h"]),
        2,
        &["limit takes a cluster's scheduler"],
    );
    let marked = "did you mean cpu?\n  4:cpuu near\n    ^^^^";
    failed(&with_options(&program, &["--devices", "4:cpuu", "--near"]), 2, &[marked]);
}

#[test]
fn a_coordinator_that_takes_no_requests_is_not_asked() {
    let program = test_program(PROGRAM).unwrap();
    let cluster = Cluster::builder().hosts(1).devices(1).memory("64M").start().unwrap();
    let finished = cluster.job(0, &program).unwrap().env("ACCORD_DEVICES", "1:cpu").run().unwrap();
    failed(&finished, 1, &["this cluster's coordinator takes no requests", "unset ACCORD_DEVICES"]);
    let local = ["--local-cluster", "1x1", "--loopback", "--devices", "1:cpu"];
    failed(&with_options(&program, &local), 125, &["a cluster's coordinator takes no requests"]);
}
