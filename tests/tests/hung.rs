//! Stopped or frozen executors and workers: reported after 5 s, given up after ACCORD_TIMEOUT. A busy one is not given
//! up.

use accord_tests::{Cluster, Finished, Job, Running, libacc, test_program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Longer than it takes until the line is printed.
const TIMEOUT_S: u64 = 7;
const TIMEOUT: Duration = Duration::from_secs(TIMEOUT_S);
/// Extra time for requests and a busy machine.
const SLACK: Duration = Duration::from_secs(6);
/// The time limit of a program that must not be given up.
const LIMIT: Duration = Duration::from_secs(60);

fn cluster() -> Cluster {
    Cluster::builder().hosts(2).devices(1).memory("64M").start().unwrap()
}

/// Starts `endless` with a device of the other node.
fn endless(cluster: &Cluster, arguments: &[&str]) -> Running {
    let job = cluster.job(0, &test_program("cluster/endless.c").unwrap()).unwrap();
    let job = job.args(arguments.iter().copied()).env("ACCORD_TIMEOUT", TIMEOUT_S.to_string());
    let running = job.timeout(LIMIT).start().unwrap();
    running.await_output("ready").unwrap();
    running
}

/// Returns the cluster's executors.
fn executors(cluster: &Cluster) -> Vec<Pid> {
    let mut found = cluster.processes_besides_parts(Duration::ZERO);
    found.retain(|line| line.ends_with(" executor"));
    found.iter().filter_map(|line| line.split(' ').next()?.parse().ok()).map(Pid::from_raw).collect()
}

fn signal(user_name: &[Pid], signal: Signal) {
    assert!(!user_name.is_empty(), "there is no such process");
    for &pid in user_name {
        kill(pid, signal).unwrap();
    }
}

fn given_up(finished: &Finished, since: Instant, words: &[&str]) {
    let took = since.elapsed();
    assert!(!finished.timed_out, "hangs: {}", finished.report());
    assert_eq!(finished.code(), 1, "{}", finished.report());
    for word in words.iter().chain(&["acc_error_device_unavailable", "ACCORD_TIMEOUT"]) {
        assert!(finished.stderr.contains(word), "no {word:?}: {}", finished.report());
    }
    assert!(finished.left_behind.is_empty(), "{}", finished.report());
    assert!(took >= TIMEOUT - Duration::from_secs(1) && took < TIMEOUT + SLACK, "{took:?}: {}", finished.report());
}

#[test]
fn a_stopped_executor_is_given_up() {
    let all = [&["launch", "1"][..], &["copy", "1"], &["d2d", "1", "0"], &["d2d", "0", "1"]];
    for arguments in accord_test_tier::cases(&all, 1) {
        let cluster = cluster();
        let running = endless(&cluster, arguments);
        signal(&executors(&cluster), Signal::SIGSTOP);
        let since = Instant::now();
        given_up(&running.finish().unwrap(), since, &["waiting for dev1 (node h1): no answer for 5 s", "h1"]);
        let left = cluster.processes_besides_parts(SLACK);
        assert!(left.is_empty(), "{arguments:?}: {left:?}");
    }
}

#[test]
fn a_stopped_worker_of_another_node_is_given_up() {
    let cluster = cluster();
    let running = endless(&cluster, &["launch", "1"]);
    signal(&workers_of(&running), Signal::SIGSTOP);
    let since = Instant::now();
    given_up(&running.finish().unwrap(), since, &["waiting for dev1 (node h1): no answer for 5 s", "worker", "h1"]);
    let left = cluster.processes_besides_parts(SLACK);
    assert!(left.is_empty(), "{left:?}");
}

/// Returns the workers of a program on all nodes, which have its environment.
fn workers_of(running: &Running) -> Vec<Pid> {
    let found = accord_tests::leftovers(running.mark());
    let own = format!("{} ", running.id());
    let workers = found.iter().filter(|line| !line.starts_with(&own));
    workers.filter_map(|line| line.split(' ').next()?.parse().ok()).map(Pid::from_raw).collect()
}

#[test]
fn a_stopped_worker_of_this_machine_is_given_up() {
    let running = Job::new(test_program("cluster/endless.c").unwrap())
        .args(["launch", "0"])
        .env("LD_PRELOAD", libacc().unwrap())
        .env("ACCORD_CPU_MEMORY", "64M")
        .env("ACCORD_TIMEOUT", TIMEOUT_S.to_string())
        .env("ACCORD_TEST_SEPARATE", "1")
        .timeout(LIMIT)
        .start()
        .unwrap();
    running.await_output("ready").unwrap();
    signal(&workers_of(&running), Signal::SIGSTOP);
    let since = Instant::now();
    given_up(&running.finish().unwrap(), since, &["waiting for the worker of", "no answer for 5 s"]);
}

/// Checks a stopped start: a worker that stops itself before its first message.
fn start_given_up(running: Running, words: &[&str]) {
    let since = Instant::now();
    given_up(&running.finish().unwrap(), since, words);
}

#[test]
fn a_worker_of_another_node_that_is_stopped_when_it_starts_is_given_up() {
    let cluster = cluster();
    let job = cluster.job(0, &test_program("cluster/stopped_start.c").unwrap()).unwrap();
    let running = job.arg("1").env("ACCORD_TIMEOUT", TIMEOUT_S.to_string()).timeout(LIMIT).start().unwrap();
    start_given_up(running, &["waiting for dev1 (node h1): no answer for 5 s", "worker", "h1"]);
    let left = cluster.processes_besides_parts(SLACK);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_worker_of_this_machine_that_is_stopped_when_it_starts_is_given_up() {
    let running = Job::new(test_program("cluster/stopped_start.c").unwrap())
        .arg("0")
        .env("LD_PRELOAD", libacc().unwrap())
        .env("ACCORD_CPU_MEMORY", "64M")
        .env("ACCORD_TIMEOUT", TIMEOUT_S.to_string())
        .env("ACCORD_TEST_SEPARATE", "1")
        .timeout(LIMIT)
        .start()
        .unwrap();
    start_given_up(running, &["waiting for the worker of", "no answer for 5 s"]);
}

/// No call requests it any more: it ends with its executor.
#[test]
fn a_worker_that_is_stopped_when_it_starts_ends_with_its_program() {
    let cluster = cluster();
    let job = cluster.job(0, &test_program("cluster/stopped_start.c").unwrap()).unwrap();
    let running = job.arg("1").env("ACCORD_TIMEOUT", "off").timeout(LIMIT).start().unwrap();
    running.await_output("opening").unwrap();
    std::thread::sleep(Duration::from_secs(1));
    running.signal(Signal::SIGKILL).unwrap();
    let finished = running.finish().unwrap();
    let left = cluster.processes_besides_parts(SLACK);
    assert!(left.is_empty() && finished.left_behind.is_empty(), "{left:?} {}", finished.report());
}

#[test]
fn a_stopped_agent_is_named_while_a_program_opens_there() {
    let cluster = cluster();
    let agent = [Pid::from_raw(i32::try_from(cluster.agent_id(1).unwrap()).unwrap())];
    signal(&agent, Signal::SIGSTOP);
    let job = cluster.job(0, &test_program("c/devices_each.c").unwrap()).unwrap();
    let running = job.timeout(LIMIT).start().unwrap();
    // Longer than it takes until the line is printed, shorter than the program's time limit.
    std::thread::sleep(TIMEOUT);
    signal(&agent, Signal::SIGCONT);
    let finished = running.finish().unwrap().success().unwrap();
    assert_eq!(finished.stderr.trim_end(), "accord: waiting for node h1: no answer for 5 s");
}

#[test]
fn process_stopped_for_less_than_the_timeout_continues() {
    let cluster = cluster();
    for its_executor in accord_test_tier::cases(&[true, false], 1) {
        let job = cluster.job(0, &test_program("cluster/long_region.c").unwrap()).unwrap();
        let running = job.arg("8").env("ACCORD_TIMEOUT", "30").timeout(LIMIT).start().unwrap();
        running.await_output("ready").unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let user_name = if its_executor { executors(&cluster) } else { workers_of(&running) };
        signal(&user_name, Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(6_500));
        signal(&user_name, Signal::SIGCONT);
        let finished = running.finish().unwrap().success().unwrap();
        assert_eq!(finished.stderr.matches("no answer for 5 s").count(), 1, "{}", finished.stderr);
    }
}

#[test]
fn work_may_take_longer_than_silence_may() {
    let cluster = cluster();
    let job = cluster.job(0, &test_program("cluster/long_region.c").unwrap()).unwrap();
    let finished = job.arg("6").env("ACCORD_TIMEOUT", "2").timeout(LIMIT).run().unwrap().success().unwrap();
    assert_eq!(finished.stderr, "");
}

#[test]
fn a_program_that_was_stopped_blames_no_peer() {
    let cluster = cluster();
    let job = cluster.job(0, &test_program("cluster/long_region.c").unwrap()).unwrap();
    let running = job.arg("6").env("ACCORD_TIMEOUT", "2").timeout(LIMIT).start().unwrap();
    running.await_output("ready").unwrap();
    running.signal(Signal::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_secs(4));
    running.signal(Signal::SIGCONT).unwrap();
    let finished = running.finish().unwrap().success().unwrap();
    assert_eq!(finished.stderr, "");
}
