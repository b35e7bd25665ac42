//! `accord bench`, by itself and as the program of `accord run`, over devices of this process, of other nodes, and over
//! MPI.

mod driver;

use accord_tests::{Finished, Job, Tool, libacc, no_mpi, tool};
use serde_json::Value;
use std::collections::BTreeSet;

fn accord() -> Job {
    Job::new(tool(Tool::Accord).unwrap())
        .with_mpi()
        .env("ACCORD_LIBACC", libacc().unwrap())
        .env("ACCORD_CPU_DEVICES", "2")
        .env("ACCORD_CPU_MEMORY", "256M")
}

/// Returns `accord run OPTIONS -- accord bench ARGUMENTS`.
fn nested(options: &[&str], arguments: &[&str]) -> Job {
    let bench = tool(Tool::Accord).unwrap();
    accord()
        .arg("run")
        .args(options.iter().copied())
        .args(["--"])
        .arg(bench)
        .arg("bench")
        .args(arguments.iter().copied())
}

fn succeeded(job: Job) -> Finished {
    let finished = job.run().unwrap();
    assert!(finished.code() == 0 && finished.left_behind.is_empty(), "{}", finished.report());
    assert_eq!(finished.stderr, "", "{}", finished.report());
    finished
}

fn figures(job: Job) -> Vec<Value> {
    let reported: Value = serde_json::from_str(&succeeded(job).stdout).unwrap();
    let figures = reported["figures"].as_array().unwrap().clone();
    // On a busy machine the time may not suffice for all figures.
    assert!(figures.iter().any(|figure| figure["runs"] != 0), "{reported:#}");
    for figure in figures.iter().filter(|figure| figure["runs"] != 0) {
        let [p10, median, p90] = ["p10_us", "median_us", "p90_us"].map(|name| figure[name].as_f64().unwrap());
        assert!(0.0 < p10 && p10 <= median && median <= p90 && figure["runs"].as_u64().unwrap() > 0, "{figure:#}");
    }
    figures
}

/// Returns source, target and size of each figure.
fn cells(figures: &[Value]) -> BTreeSet<(Option<u64>, Option<u64>, Option<u64>)> {
    figures.iter().map(|figure| (figure["from"].as_u64(), figure["to"].as_u64(), figure["bytes"].as_u64())).collect()
}

fn routes(figures: &[Value]) -> BTreeSet<&str> {
    figures.iter().map(|figure| figure["route"].as_str().unwrap()).collect()
}

#[test]
fn copies_of_this_machines_devices_are_measured_both_ways() {
    let figures = figures(accord().args(["bench", "copy", "--sizes", "64K,8,64K", "--seconds", "1", "--json"]));
    let host = None;
    let both =
        |size| [0, 1].into_iter().flat_map(move |device| [(host, Some(device), size), (Some(device), host, size)]);
    assert_eq!(cells(&figures), both(Some(8)).chain(both(Some(64 << 10))).collect());
    assert_eq!(routes(&figures), ["in this process"].into());
}

#[test]
fn launches_are_measured_on_devices_of_all_nodes() {
    let figures = figures(nested(&["--local-cluster", "2x1"], &["launch", "--seconds", "1", "--json"]));
    assert_eq!(cells(&figures), [(None, Some(0), None), (None, Some(1), None)].into());
    assert_eq!(figures[0]["route"], "in this process");
    assert!(figures[1]["route"].as_str().unwrap().starts_with("h2 by "), "{figures:#?}");
}

#[test]
fn copies_between_all_devices_of_a_cluster_are_measured() {
    let options = ["--local-cluster", "3x2", "--remote-only"];
    let figures = figures(nested(&options, &["p2p", "--sizes", "8,1M", "--seconds", "8", "--json"]));
    let pairs = (0..6).flat_map(|from| (0..6).filter(move |&to| to != from).map(move |to| (Some(from), Some(to))));
    let all = pairs.flat_map(|(from, to)| [8, 1 << 20].map(|size| (from, to, Some(size))));
    assert_eq!(cells(&figures), all.collect());
    let routes = routes(&figures);
    let starts = |name: &str| routes.iter().any(|route| route.starts_with(name));
    assert!(routes.len() == 2 && starts("in one executor") && starts("executor to executor, "), "{routes:?}");
}

#[test]
fn the_table_says_what_the_time_did_not_suffice_for() {
    let table = succeeded(accord().args(["bench", "p2p", "--sizes", "8", "--seconds", "1"])).stdout;
    assert!(table.starts_with("8 B, median, us\n\nFROM  "), "{table}");
    assert!(table.contains("in this process"), "{table}");
    let job = nested(&["--local-cluster", "2x4", "--loopback"], &["p2p", "--sizes", "64M", "--seconds", "1"]);
    let table = succeeded(job.env("ACCORD_CPU_MEMORY", "96M")).stdout;
    assert!(table.contains(" of 56 were not reached in 1 s: more with --seconds"), "{table}");
}

#[test]
fn lanes_over_mpi_are_measured_too() {
    if let Some(why) = no_mpi() {
        println!("skipped: {why}");
        return;
    }
    let options = ["--local-cluster", "2x1", "--loopback", "--fabric", "mpi"];
    let figures = figures(nested(&options, &["p2p", "--sizes", "8,1M", "--seconds", "2", "--json"]));
    assert_eq!(routes(&figures), ["program and executor, mpi (ACCORD_TRANSPORT=mpi)"].into());
}

#[test]
fn gpus_are_measured_by_the_driver_that_tests_bring_along() {
    let driver = driver::driver();
    let gpus =
        |job: Job| job.env("LD_LIBRARY_PATH", driver.path()).env("FAKE_CUDA_DEVICES", "2").env("ACCORD_CACHE", "off");
    let job = |what| {
        gpus(Job::new(tool(Tool::Accord).unwrap()).env("ACCORD_LIBACC", libacc().unwrap()).args(["bench", what]))
    };
    let p2p = figures(job("p2p").args(["--sizes", "8,1M", "--seconds", "1", "--json"]));
    assert_eq!(p2p.len(), 4, "{p2p:#?}");
    let copy = figures(job("copy").args(["--sizes", "8", "--seconds", "1", "--json"]));
    assert_eq!(copy.len(), 4, "{copy:#?}");
}

#[test]
fn bench_reports_why_a_measurement_is_impossible() {
    let one = accord().env("ACCORD_CPU_DEVICES", "1").args(["bench", "p2p"]).run().unwrap();
    assert!(one.code() == 125 && one.stderr.contains("p2p takes two devices"), "{}", one.report());
    let large = accord().args(["bench", "copy", "--sizes", "2G"]).run().unwrap();
    assert!(large.code() == 2 && large.stderr.contains("use a size from 1 to 1G"), "{}", large.report());
    let absent = accord().env("ACCORD_LIBACC", "/nowhere/libacc.so").args(["bench", "copy"]).run().unwrap();
    assert!(absent.code() == 125 && absent.stderr.contains("/nowhere/libacc.so"), "{}", absent.report());
}
