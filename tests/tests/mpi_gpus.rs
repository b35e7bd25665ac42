//! GPUs of agents that are the ranks of an MPI job, by the driver that the tests bring along. Their memory is the host's, so any MPI copies from
//! and to it. Skipped, with the reason, where there is no MPI or its part was not built (`make mpi`).

mod driver;

use accord_tests::{
    Finished, Job, Language, Optimize, Program, Tool, Variant, compile, libacc, no_mpi, repository_file, tool,
};
use driver::driver;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

fn program() -> PathBuf {
    let source = Program::read(repository_file("tests/programs/c/d2d_sizes.c"), Language::C).expect("a program");
    compile(&source, Variant { optimize: Optimize::Yes, offload: true, linked: false }).expect("gcc").program
}

/// Copies between the GPUs of two agents, neither of which is the program's, and not directly. Also how many went out of a GPU's own memory.
fn run(settings: &[(&str, &str)]) -> Option<(Finished, usize)> {
    if let Some(why) = no_mpi() {
        println!("skipped: {why}");
        return None;
    }
    let driver = driver();
    let mut job = Job::new(tool(Tool::Accord).unwrap())
        .env("LD_LIBRARY_PATH", driver.path())
        .env("FAKE_CUDA_DEVICES", "2")
        .env("ACCORD_LIBACC", libacc().unwrap())
        .env("ACCORD_CACHE", "off")
        .env("ACCORD_IPC", "off")
        .env("ACCORD_LOG", "info")
        .timeout(Duration::from_secs(60));
    for (name, value) in settings {
        job = job.env(name, *value);
    }
    let trace = driver.path().join("trace.json");
    let job = job.args(["run", "--trace"]).arg(&trace);
    let run = ["-v", "--local-cluster", "2x1gpu", "--remote-only", "--loopback", "--fabric", "mpi", "--"];
    let finished = job.args(run).arg(program()).run().unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.report());
    assert!(finished.stdout.contains("PASS") && finished.left_behind.is_empty(), "{}", finished.report());
    let trace: Value = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    let events = trace.as_array().or_else(|| trace["traceEvents"].as_array()).unwrap();
    let pushed = events.iter().filter(|event| event["name"] == "push").count();
    Some((finished, pushed))
}

#[test]
fn what_mpi_reaches_is_tried_and_copied_from_where_it_is() {
    let Some((finished, pushed)) = run(&[]) else { return };
    let tried = finished.stderr.matches("MPI copies from and to GPUs' own memory").count();
    assert_eq!(tried, 2, "{}", finished.report());
    // Of the program's copies there and back those that are worth it.
    assert_eq!(pushed, 2 * 3, "{}", finished.report());
}

#[test]
fn what_mpi_does_not_reach_goes_through_the_host() {
    let Some((finished, pushed)) = run(&[("ACCORD_MPI_GPUS", "off")]) else { return };
    let told = finished.stderr.matches("whose bytes go through the host's: --mpi-gpus off").count();
    assert_eq!((told, pushed), (2, 0), "{}", finished.report());
}
