//! The actions of an administrator by `accord drain`, `accord close` and `accord shutdown`, which no other role may
//! take.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, Finished, Job, Tool, test_program, tool};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::time::{Duration, Instant};

fn cluster() -> Cluster {
    Cluster::builder().hosts(2).devices(1).memory("64M").start().unwrap()
}

/// Runs `accord` with the certificates of one role.
fn accord(cluster: &Cluster, user_name: &str, arguments: &[&str]) -> Finished {
    let job = Job::new(tool(Tool::Accord).unwrap()).args(arguments.iter().copied());
    job.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls_of(user_name)).run().unwrap()
}

fn states(info: &Value) -> Vec<&str> {
    let nodes = info["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    nodes.iter().filter_map(|node| node["state"].as_str()).collect()
}

#[test]
fn a_drained_node_takes_part_in_no_new_session_until_that_is_taken_back() {
    let mut cluster = cluster();
    let drained = accord(&cluster, "admin", &["drain", "h1"]);
    assert_eq!(drained.stdout, "h1 takes part in no new session; no session uses it\n", "{}", drained.report());
    cluster.await_devices(1).unwrap();
    assert_eq!(states(&cluster.info().unwrap()), ["up", "draining"]);
    // A replacement coordinator keeps it, too.
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    let begin = Instant::now();
    while states(&cluster.info().unwrap()).len() < 2 && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(states(&cluster.info().unwrap()), ["up", "draining"]);
    let unknown = accord(&cluster, "admin", &["drain", "h9", "h0", "--undo"]);
    assert_eq!(unknown.code(), 125, "{}", unknown.report());
    assert!(unknown.stderr.contains("there is no node h9"), "{}", unknown.report());
    assert!(
        unknown.stdout.contains("h0 takes part in new sessions again"),
        "the others are tried: {}",
        unknown.report()
    );
    assert_eq!(accord(&cluster, "admin", &["drain", "--undo", "h1"]).code(), 0);
    cluster.await_devices(2).unwrap();
}

#[test]
fn program_is_notified_when_its_session_is_closed() {
    let cluster = cluster();
    let program = test_program("cluster/endless.c").unwrap();
    let running = cluster.job(0, &program).unwrap().args(["launch", "1"]).start().unwrap();
    running.await_output("ready").unwrap();
    let session = cluster.info().unwrap()["sessions"][0]["id"].to_string();
    let used = format!("h1 takes part in no new session; session {session} still uses it\n");
    // The agent's report of the executor's start may reach the coordinator later than the executor's first answer
    // reaches the program.
    let begin = Instant::now();
    loop {
        let drained = accord(&cluster, "admin", &["drain", "h1"]);
        if drained.stdout == used {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", drained.report());
    }
    let closed = accord(&cluster, "admin", &["close", &session]);
    assert_eq!(closed.stdout, format!("session {session} is ended\n"), "{}", closed.report());
    let finished = running.finish().unwrap();
    assert_eq!(finished.code(), 1, "{}", finished.report());
    assert!(finished.stderr.contains("an administrator has closed session"), "{}", finished.report());
    let again = accord(&cluster, "admin", &["close", &session]);
    assert!(again.stderr.contains("there is no session"), "{}", again.report());
}

#[test]
fn a_drain_that_waits_returns_once_the_node_is_free_and_an_interrupted_one_stays() {
    let cluster = cluster();
    let program = test_program("cluster/endless.c").unwrap();
    let running = cluster.job(0, &program).unwrap().args(["launch", "1"]).start().unwrap();
    running.await_output("ready").unwrap();
    let session = cluster.info().unwrap()["sessions"][0]["id"].to_string();
    // The coordinator may learn of the executor's start later than the program gets its first answer.
    let begin = Instant::now();
    while !accord(&cluster, "admin", &["drain", "h1"]).stdout.contains(&session) {
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", cluster.messages());
    }
    let wait = || {
        let job = Job::new(tool(Tool::Accord).unwrap()).args(["drain", "h1", "--wait"]);
        let job = job.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls_of("admin"));
        let job = job.start().unwrap();
        job.await_output(&format!("h1 waits for session {session}\n")).unwrap();
        job
    };
    let (interrupted, waits) = (wait(), wait());
    interrupted.signal(Signal::SIGINT).unwrap();
    assert_ne!(interrupted.finish().unwrap().code(), 0);
    assert_eq!(states(&cluster.info().unwrap()), ["up", "draining"]);
    assert_eq!(accord(&cluster, "admin", &["close", &session]).code(), 0);
    let finished = waits.finish().unwrap();
    assert!(finished.code() == 0 && finished.stdout.ends_with("h1 is free\n"), "{}", finished.report());
    drop(running);
}

#[test]
fn a_tenant_is_refused() {
    let cluster = cluster();
    for arguments in [&["drain", "h1"][..], &["close", "1"], &["shutdown", "--agents"]] {
        let refused = accord(&cluster, "program", arguments);
        assert_eq!(refused.code(), 125, "{}", refused.report());
        assert!(refused.stderr.contains("refuses: "), "{}", refused.report());
    }
    assert_eq!(states(&cluster.info().unwrap()), ["up", "up"]);
}

#[test]
fn a_shutdown_ends_the_coordinator_and_its_agents() {
    let mut cluster = cluster();
    let stopped = accord(&cluster, "admin", &["shutdown", "--agents"]);
    assert_eq!(stopped.stdout, "the coordinator and its agents stop\n", "{}", stopped.report());
    cluster.await_ended().unwrap();
    let unanswered = accord(&cluster, "admin", &["drain", "h0"]);
    assert!(unanswered.stderr.contains("no coordinator answers"), "{}", unanswered.report());
}

#[test]
fn without_a_coordinator_the_setting_is_named() {
    let job = Job::new(tool(Tool::Accord).unwrap()).args(["shutdown"]);
    let finished = job.run().unwrap();
    assert_eq!(finished.code(), 125, "{}", finished.report());
    assert!(finished.stderr.contains("ACCORD_COORDINATOR is not set"), "{}", finished.report());
}
