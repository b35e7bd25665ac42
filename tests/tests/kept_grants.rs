//! Agents and coordinators that are killed while a program drives devices of its own node: no other job gets these
//! until the program has ended.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, Job, Running, Tool, libacc, test_program, tool};
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::io::Write;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// Starts a program on the first host that drives the host's only device itself, exclusively, until it is killed.
fn driver(cluster: &Cluster) -> Running {
    let running = ask(cluster, "1:cpu").args(["launch", "0"]).timeout(LIMIT).start().unwrap();
    running.await_output("ready").unwrap();
    running
}

/// Returns a program on the first host that requests devices.
fn ask(cluster: &Cluster, request: &str) -> Job {
    cluster.job(0, &test_program("cluster/endless.c").unwrap()).unwrap().env("ACCORD_DEVICES", request)
}

/// Asserts that a second job gets the device only after the first one's program has ended.
fn is_kept_until_the_end(cluster: &Cluster, driver: Running) {
    is_kept(cluster);
    driver.signal(Signal::SIGKILL).unwrap();
    driver.finish().unwrap();
    is_given(cluster);
}

fn is_kept(cluster: &Cluster) {
    let is_up = |info: &serde_json::Value| {
        info["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(|node| node["state"] == "up"))
    };
    cluster.await_info("the agent", is_up).unwrap();
    let refused = ask(cluster, "1:cpu wait=3s").args(["launch", "0"]).timeout(LIMIT).run().unwrap();
    assert!(refused.code() == 1 && !refused.stdout.contains("ready"), "{}\n{}", refused.report(), cluster.messages());
}

fn is_given(cluster: &Cluster) {
    let next = ask(cluster, "1:cpu wait=60s").args(["launch", "0"]).timeout(LIMIT).start().unwrap();
    next.await_output("ready").unwrap_or_else(|error| panic!("{error}\n{}", cluster.messages()));
    next.signal(Signal::SIGKILL).unwrap();
    next.finish().unwrap();
}

fn cluster() -> Cluster {
    Cluster::builder().hosts(1).devices(1).memory("64M").env("ACCORD_LOG", "info").start().unwrap()
}

#[test]
fn an_agent_that_is_killed_and_restarted_keeps_the_grant_of_a_program_that_drives_its_device() {
    let mut cluster = cluster();
    let driver = driver(&cluster);
    cluster.kill_agent(0);
    cluster.start_agent(0).unwrap();
    is_kept_until_the_end(&cluster, driver);
}

#[test]
fn restarted_coordinator_learns_of_the_grant() {
    let mut cluster = cluster();
    let driver = driver(&cluster);
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    is_kept_until_the_end(&cluster, driver);
}

#[test]
fn agent_and_coordinator_that_are_killed_together_keep_the_grant() {
    let mut cluster = cluster();
    let driver = driver(&cluster);
    cluster.kill_agent(0);
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    cluster.start_agent(0).unwrap();
    is_kept_until_the_end(&cluster, driver);
}

/// The job ends with its only node, and its program stops the device as soon as it can.
#[test]
fn an_agent_that_is_stopped_in_order_and_restarted_keeps_the_grant_until_the_program_has_stopped() {
    let mut cluster = cluster();
    let driver = driver(&cluster);
    driver.signal(Signal::SIGSTOP).unwrap();
    cluster.terminate(Some(0)).unwrap();
    cluster.start_agent(0).unwrap();
    is_kept(&cluster);
    driver.signal(Signal::SIGCONT).unwrap();
    let stopped = driver.finish().unwrap();
    assert!(stopped.code() == 1 && stopped.stderr.contains("job 1 has ended"), "{}", stopped.report());
    is_given(&cluster);
}

/// A program that has stopped the device of its job goes on, also with an agent that was restarted meanwhile.
#[test]
fn an_agent_that_was_restarted_hears_that_a_program_has_stopped_the_device() {
    let mut cluster = cluster();
    let (input, ends) = std::io::pipe().unwrap();
    let program = test_program("cluster/after_its_job.c").unwrap();
    let running = cluster.job(0, &program).unwrap().arg("later").env("ACCORD_DEVICES", "1:cpu").stdin(input);
    let running = running.timeout(LIMIT).start().unwrap();
    running.await_output("ready").unwrap();
    cluster.kill_agent(0);
    cluster.start_agent(0).unwrap();
    is_kept(&cluster);
    cluster.accord_as("program").unwrap().args(["cancel", "1"]).run().unwrap().success().unwrap();
    is_given(&cluster);
    assert!(running.goes_on(), "{}", cluster.messages());
    drop(ends);
    assert!(running.finish().unwrap().stderr.contains("job 1 has ended: cancelled by"));
}

/// An unreachable agent may have confirmed that the job's devices are free.
#[test]
fn a_program_of_a_job_drives_no_device_without_the_agent() {
    let mut cluster = cluster();
    let (input, mut go) = std::io::pipe().unwrap();
    let (accord, program) = (tool(Tool::Accord).unwrap(), test_program("cluster/endless.c").unwrap());
    let mut preload = OsString::from("LD_PRELOAD=");
    preload.push(libacc().unwrap());
    let script = "echo held; read go; exec env \"$0\" \"$1\" launch 0";
    let words = ["run", "--devices", "1:cpu", "--", "sh", "-c", script].map(OsString::from);
    let command = [&[accord.into_os_string()], &words[..], &[preload, program.into_os_string()]].concat();
    let job = cluster.job_of(0, None, &command).unwrap().stdin(input).timeout(LIMIT).start().unwrap();
    job.await_output("held").unwrap();
    cluster.kill_agent(0);
    go.write_all(b"go\n").unwrap();
    let finished = job.finish().unwrap();
    assert!(finished.code() != 0 && !finished.stdout.contains("ready"), "{}", finished.report());
    assert!(
        finished.stderr.contains("the node's agent does not admit the program to the job's device"),
        "{}",
        finished.report()
    );
}
