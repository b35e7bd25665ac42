//! Jobs that end while their programs drive devices of their own node themselves: the devices stop, the programs get
//! the reason, and the next job gets the devices.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, Finished, Running, test_program};
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Duration;

const ENDLESS: &str = "cluster/endless.c";
const AFTER: &str = "cluster/after_its_job.c";
/// The program's work meanwhile, as arguments of `cluster/endless.c`, and the number of devices that it takes.
const WORKS: [(&[&str], u32); 3] = [(&["launch", "0"], 1), (&["copy", "0"], 1), (&["d2d", "0", "1"], 2)];

fn cluster() -> Cluster {
    Cluster::builder().hosts(1).devices(2).memory("64M").env("ACCORD_LOG", "info").start().unwrap()
}

/// Starts a working program on the only host, whose devices it drives itself.
fn works(cluster: &Cluster, program: &str, args: &[&str], request: &str) -> Running {
    let job = cluster.job(0, &test_program(program).unwrap()).unwrap().args(args.iter().copied());
    let running = job.env("ACCORD_DEVICES", request).timeout(Duration::from_secs(120)).start().unwrap();
    running.await_output("ready").unwrap_or_else(|error| panic!("{error}\n{}", cluster.messages()));
    running
}

/// Returns the number of the only job.
fn only_job(cluster: &Cluster) -> String {
    let queue = cluster.accord_as("program").unwrap().args(["queue", "--json"]).run().unwrap().success().unwrap();
    let queue: serde_json::Value = serde_json::from_str(&queue.stdout).unwrap();
    assert_eq!(queue["jobs"].as_array().map(Vec::len), Some(1), "{queue}");
    queue["jobs"][0]["job"].to_string()
}

fn cancel(cluster: &Cluster) {
    cluster.accord_as("program").unwrap().args(["cancel", &only_job(cluster)]).run().unwrap().success().unwrap();
}

/// Asserts that the program failed with this reason, without consequential errors.
#[track_caller]
fn assert_reports(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.code(), 1, "{}", finished.report());
    for word in words {
        assert!(finished.stderr.contains(word), "no {word:?}: {}", finished.report());
    }
    for other in ["was killed", "shut down", "not started", "no answer"] {
        assert!(!finished.stderr.contains(other), "{other:?}: {}", finished.report());
    }
}

/// Asserts that the next job gets all devices.
#[track_caller]
fn are_free(cluster: &Cluster) {
    let counts: &Path = &test_program("cluster/device_count.c").unwrap();
    let next = cluster.job(0, counts).unwrap().env("ACCORD_DEVICES", "2:cpu wait=60s");
    let next = next.run().unwrap().success().unwrap_or_else(|error| panic!("{error}\n{}", cluster.messages()));
    assert!(next.stdout.starts_with("devices=2\n"), "{}", next.report());
}

#[test]
fn a_program_stops_at_its_jobs_limit() {
    let cluster = cluster();
    for (args, devices) in WORKS {
        let running = works(&cluster, ENDLESS, args, &format!("{devices}:cpu limit=2s"));
        assert_reports(&running.finish().unwrap(), &["has ended: its time limit", "ask for a longer limit", "h0"]);
        are_free(&cluster);
    }
}

#[test]
fn a_program_stops_when_its_job_is_cancelled() {
    let cluster = cluster();
    for (args, devices) in WORKS {
        let running = works(&cluster, ENDLESS, args, &format!("{devices}:cpu"));
        cancel(&cluster);
        assert_reports(&running.finish().unwrap(), &["has ended: cancelled by", "h0"]);
        are_free(&cluster);
    }
}

#[test]
fn a_region_that_does_not_end_stops_with_its_job() {
    let cluster = cluster();
    let running = works(&cluster, AFTER, &["endless"], "1:cpu limit=2s");
    assert_reports(&running.finish().unwrap(), &["has ended: its time limit"]);
    are_free(&cluster);
}

#[test]
fn a_program_that_uses_no_device_goes_on_after_its_job() {
    let cluster = cluster();
    let (input, ends) = std::io::pipe().unwrap();
    let program = test_program(AFTER).unwrap();
    let running = cluster.job(0, &program).unwrap().arg("later").env("ACCORD_DEVICES", "2:cpu").stdin(input);
    let running = running.start().unwrap();
    running.await_output("ready").unwrap();
    cancel(&cluster);
    are_free(&cluster);
    assert!(running.goes_on());
    drop(ends);
    assert_reports(&running.finish().unwrap(), &["has ended: cancelled by"]);
}

#[test]
fn a_program_that_does_not_stop_is_ended_by_the_agent() {
    let cluster = cluster();
    let running = works(&cluster, ENDLESS, &["launch", "0"], "2:cpu");
    running.signal(Signal::SIGSTOP).unwrap();
    cancel(&cluster);
    are_free(&cluster);
    let finished = running.finish().unwrap();
    assert!(!finished.timed_out && finished.code() != 0, "{}", finished.report());
    let says = cluster.await_messages(|messages| messages.contains("has not stopped them in 30 s: it is ended"));
    says.unwrap_or_else(|why| panic!("{why}"));
}

/// The program has no job.
#[test]
fn a_program_stops_when_an_administrator_closes_its_session() {
    let cluster = cluster();
    let program = test_program(ENDLESS).unwrap();
    for (args, _) in WORKS {
        let running = cluster.job(0, &program).unwrap().args(args.iter().copied()).start().unwrap();
        running.await_output("ready").unwrap();
        let session = cluster.info().unwrap()["sessions"][0]["id"].to_string();
        cluster.accord_as("admin").unwrap().args(["close", &session]).run().unwrap().success().unwrap();
        assert_reports(&running.finish().unwrap(), &["an administrator has closed session", "ask them why"]);
    }
}
