//! A cluster's reports on its routes: `accord explain d2d` and `launch`.

use accord_tests::{Finished, Job, Tool, libacc, no_mpi, tool};
use serde_json::Value;

fn accord() -> Job {
    Job::new(tool(Tool::Accord).unwrap())
        .with_mpi()
        .env("ACCORD_LIBACC", libacc().unwrap())
        .env("ACCORD_CPU_DEVICES", "2")
        .env("ACCORD_CPU_MEMORY", "64M")
}

/// Returns `accord run OPTIONS -- accord explain ARGUMENTS`.
fn explain(options: &[&str], arguments: &[&str]) -> Job {
    accord()
        .arg("run")
        .args(options.iter().copied())
        .arg("--")
        .arg(tool(Tool::Accord).unwrap())
        .arg("explain")
        .args(arguments.iter().copied())
}

fn succeeded(job: Job) -> Finished {
    let finished = job.run().unwrap();
    assert!(finished.code() == 0 && finished.left_behind.is_empty(), "{}", finished.report());
    finished
}

fn json(job: Job) -> Value {
    serde_json::from_str(&succeeded(job.arg("--json")).stdout).unwrap()
}

fn hops(reported: &Value) -> Vec<&str> {
    reported["hops"].as_array().unwrap().iter().map(|hop| hop["hop"].as_str().unwrap()).collect()
}

#[test]
fn a_copy_is_explained_for_devices_of_one_process_one_executor_and_two_nodes() {
    let here = json(accord().args(["explain", "d2d", "0", "1", "64M"]));
    assert_eq!((&here["route"], &here["taken"]["way"]), (&"in this process".into(), &"peer".into()), "{here:#}");
    assert_eq!(hops(&here).len(), 3);

    let local = ["--local-cluster", "2x2", "--remote-only"];
    let remote = json(explain(&local, &["d2d", "0", "1", "8"]));
    assert_eq!((&remote["route"], &remote["taken"]["way"]), (&"in one executor".into(), &"peer".into()), "{remote:#}");
    let apart = json(explain(&local, &["d2d", "1", "2", "1M"]));
    assert_eq!(apart["taken"]["way"], "lane", "{apart:#}");
    assert!(apart["taken"]["us"].as_f64().unwrap() > 0.0 && apart["bytes"] == 1 << 20, "{apart:#}");
    let possible: Vec<_> = apart["ways"].as_array().unwrap().iter().map(|way| way["possible"] == true).collect();
    assert_eq!(possible, [false, false, false, true], "{apart:#}");
    let nodes = hops(&apart);
    assert!(nodes[0].contains("of h2") && nodes[1] == "executor on h2" && nodes[3] == "executor on h3", "{nodes:?}");
}

/// Returns the hop over the lane between two nodes.
fn lane(reported: &Value) -> &Value {
    let is_lane = |hop: &&Value| {
        ["tls (", "tcp (", "shm (", "mpi ("].iter().any(|name| hop["hop"].as_str().unwrap().starts_with(name))
    };
    reported["hops"].as_array().unwrap().iter().find(is_lane).unwrap_or_else(|| panic!("no lane: {reported:#}"))
}

fn is_measured(hop: &Value) -> bool {
    hop["source"] == "measured" && hop["us"].as_f64().is_some_and(|us| us > 0.0)
}

/// Asserts that all parts of a copy between two nodes are measured in a newly started cluster.
fn measured_parts(options: &[&str]) {
    let reported = json(explain(options, &["d2d", "1", "2", "64M", "--wait", "2m"]).env("ACCORD_CACHE", "off"));
    let hops = reported["hops"].as_array().unwrap();
    assert!(is_measured(lane(&reported)) && is_measured(&hops[0]) && is_measured(hops.last().unwrap()), "{reported:#}");
    assert_eq!(reported["taken"]["source"], "estimated", "{reported:#}");
    let whole = reported["taken"]["us"].as_f64().unwrap();
    assert!(whole >= lane(&reported)["us"].as_f64().unwrap(), "it is a part of it: {reported:#}");
}

#[test]
fn agents_measure_their_devices_and_the_paths_between_them() {
    measured_parts(&["--local-cluster", "3x1"]);
    measured_parts(&["--local-cluster", "3x1", "--loopback"]);
}

#[test]
fn agents_of_an_mpi_job_measure_their_paths_over_mpi() {
    match no_mpi() {
        Some(why) => println!("skipped: {why}"),
        None => measured_parts(&["--local-cluster", "3x1", "--loopback", "--fabric", "mpi"]),
    }
}

#[test]
fn an_agent_that_may_not_measure_leaves_what_is_usual() {
    let local = ["--local-cluster", "2x1", "--loopback"];
    let reported = json(explain(&local, &["d2d", "0", "1", "8"]).env("ACCORD_MEASURE", "off"));
    assert_eq!(
        (&reported["taken"]["source"], &lane(&reported)["us"]),
        (&"default".into(), &Value::Null),
        "{reported:#}"
    );
}

#[test]
fn measurements_of_a_node_are_cached_across_restarts() {
    let cache = tempfile::tempdir().unwrap();
    let reported = || {
        json(
            explain(&["--local-cluster", "1x1", "--loopback"], &["launch", "0", "--wait", "2m"])
                .env("ACCORD_CACHE", cache.path()),
        )
    };
    let first = reported();
    assert!(first["us"].as_f64().is_some_and(|us| us > 0.0), "{first:#}");
    let files = || std::fs::read_dir(cache.path().join("figures")).unwrap().map(|file| file.unwrap().path());
    assert_eq!(files().count(), 1);
    // No measurement has such a result.
    let file = files().next().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let line = text.lines().find(|line| line.starts_with("device 0 ")).unwrap();
    let (rest, _) = line.rsplit_once(' ').unwrap();
    std::fs::write(&file, text.replace(line, &format!("{rest} 123456789"))).unwrap();
    assert_eq!(reported()["us"], 123_456.789);
}

#[test]
fn a_launch_is_explained_with_the_processes_that_it_passes() {
    let far = json(explain(&["--local-cluster", "2x1"], &["launch", "1"]));
    let names = hops(&far);
    assert!(names[0] == "program on h1" && names[2] == "executor on h2" && names[3].contains("of h2"), "{far:#}");
    let table = succeeded(accord().args(["explain", "launch", "1"])).stdout;
    assert!(table.starts_with("a launch on device 1 (") && table.contains("in this process"), "{table}");
}

#[test]
fn in_an_mpi_job_agents_are_on_the_way() {
    if let Some(why) = no_mpi() {
        println!("skipped: {why}");
        return;
    }
    let job = ["--local-cluster", "2x1", "--loopback", "--fabric", "mpi"];
    let reported = json(explain(&job, &["d2d", "1", "0", "8"]));
    let names = hops(&reported);
    let expected = ["executor on h2", "agent of h2", "mpi (ACCORD_TRANSPORT=mpi)", "agent of h1", "program on h1"];
    assert_eq!(names[1..6], expected, "{reported:#}");
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let finished = accord().args(["explain", "d2d", "0", "7", "8"]).run().unwrap();
    assert!(finished.code() == 125 && finished.stderr.contains("no device 7"), "{}", finished.report());
    assert!(finished.stderr.contains("has 2 of acc_device_cpu"), "{}", finished.report());
}

#[test]
fn the_doctor_looks_at_every_hop_of_a_cluster() {
    let doctor = |options: &[&str]| {
        let job = accord().arg("run").args(options.iter().copied()).arg("--").arg(tool(Tool::Accord).unwrap());
        let finished = job.args(["doctor", "--json"]).run().unwrap();
        let reported: Value = serde_json::from_str(&finished.stdout).unwrap();
        let errors = reported.as_array().unwrap().iter().filter(|item| item["status"] == "error").count();
        // Warnings do not count.
        assert_eq!(finished.code(), i32::from(errors > 0), "{}", finished.report());
        reported
    };
    let reported = (0..4).map(|_| doctor(&["--local-cluster", "2x1", "--loopback"]));
    let has = |reported: &Value, what: &str| reported.as_array().unwrap().iter().any(|item| item["what"] == what);
    let reported =
        reported.into_iter().find(|reported| has(reported, "path between h1 and h2")).expect("a measurement");
    for what in ["agent of node h1", "memory of node h2", "device 0 of node h2", "clock, beside the coordinator's"] {
        assert!(has(&reported, what), "{what}: {reported:#}");
    }
    let of = |what: &str| reported.as_array().unwrap().iter().find(|item| item["what"] == what).unwrap();
    // Tests need GCC, so it is here.
    assert_eq!((&of("C compiler")["status"], &of("test program")["status"]), (&"ok".into(), &"ok".into()));
    for item in reported.as_array().unwrap() {
        // One hint for each item that is not in order.
        assert_eq!(item["status"] != "ok", item["hint"].is_string(), "{item:#}");
    }
}
