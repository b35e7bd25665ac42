//! Copies between devices of two other nodes, one or both of which have a process that is stopped before the first
//! byte. Reported after 5 s, given up after ACCORD_TIMEOUT. The program waits for one node, and only that node for the
//! other.

use accord_tests::{Cluster, Running, test_program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than it takes until the line is printed.
const TIMEOUT_S: u64 = 7;
const TIMEOUT: Duration = Duration::from_secs(TIMEOUT_S);
/// Extra time for requests and a busy machine.
const SLACK: Duration = Duration::from_secs(6);
/// The time limit of the copy: a longer one hangs.
const LIMIT: Duration = Duration::from_secs(40);
/// Hosts of the devices: the program is on the first host.
const SOURCE: usize = 2;
const TARGET: usize = 1;

/// Returns the executor of a host.
fn executor(cluster: &Cluster, host: usize) -> Pid {
    let executors = cluster.executors(host);
    Pid::from_raw(executors.first().expect("the host has an executor").cast_signed())
}

/// Returns the worker that an executor has started, which its environment shows.
fn worker(running: &Running, executor: Pid) -> Pid {
    let is_its = |process: &Pid| {
        let environment =
            std::fs::read(Path::new("/proc").join(process.to_string()).join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0).filter_map(|text| str::from_utf8(text).ok());
        let reported = variables.find_map(|text| text.strip_prefix("ACCORD_WORKER="));
        reported.and_then(|text| text.split(',').nth(3)) == Some(&*executor.to_string())
    };
    let lines = accord_tests::leftovers(running.mark());
    let mut processes = lines.iter().filter_map(|line| Some(Pid::from_raw(line.split(' ').next()?.parse().ok()?)));
    processes.find(is_its).expect("the executor has a worker")
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Executor,
    Worker,
}

/// Stops parts of hosts; the copy must end with an error that names one of them.
fn stopped(part: Part, hosts: &[usize]) {
    let cluster = Cluster::builder().hosts(3).devices(1).memory("64M").start().unwrap();
    let (input, release) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program("cluster/first_d2d.c").unwrap()).unwrap();
    let job = job.args([SOURCE.to_string(), TARGET.to_string()]).stdin(input).timeout(LIMIT);
    let running = job.env("ACCORD_TIMEOUT", TIMEOUT_S.to_string()).start().unwrap();
    running.await_output("ready").unwrap();
    for &host in hosts {
        let executor = executor(&cluster, host);
        let whom = match part {
            Part::Executor => executor,
            Part::Worker => worker(&running, executor),
        };
        kill(whom, Signal::SIGSTOP).unwrap();
    }
    let since = Instant::now();
    drop(release);
    let finished = running.finish().unwrap();
    let took = since.elapsed();
    assert!(!finished.timed_out, "{part:?} {hosts:?}: hangs: {}", finished.report());
    assert_eq!(finished.code(), 1, "{part:?} {hosts:?}: {}", finished.report());
    let names = |words: &dyn Fn(usize) -> String| hosts.iter().any(|host| finished.stderr.contains(&words(*host)));
    assert!(names(&|host| format!("waiting for dev{host} (node h{host}): no answer for 5 s")), "{}", finished.report());
    assert!(names(&|host| format!("node h{host}")), "{}", finished.report());
    for word in ["acc_error_device_unavailable", "ACCORD_TIMEOUT"] {
        assert!(finished.stderr.contains(word), "{part:?} {hosts:?}: no {word}: {}", finished.report());
    }
    assert!(took < TIMEOUT + SLACK, "{part:?} {hosts:?}: {took:?}: {}", finished.report());
    assert!(finished.left_behind.is_empty(), "{}", finished.report());
    let left = cluster.processes_besides_parts(SLACK);
    assert!(left.is_empty(), "{part:?} {hosts:?}: {left:?}");
}

#[test]
fn the_targets_executor() {
    stopped(Part::Executor, &[TARGET]);
}

#[test]
fn the_sources_executor() {
    stopped(Part::Executor, &[SOURCE]);
}

#[test]
fn the_targets_worker() {
    stopped(Part::Worker, &[TARGET]);
}

#[test]
fn both_workers() {
    stopped(Part::Worker, &[SOURCE, TARGET]);
}

#[test]
fn both_executors() {
    stopped(Part::Executor, &[SOURCE, TARGET]);
}

/// The target's executor does not read in-flight bytes while it is stopped, and the system's buffers fill up. Their
/// lane must tolerate that.
#[test]
fn target_may_stall_for_less_than_the_limit() {
    /// Longer than a host may be silent.
    const STOPPED: Duration = Duration::from_secs(9);
    let cluster = Cluster::builder().hosts(3).devices(1).memory("64M").env("ACCORD_TRANSPORT", "tls").start().unwrap();
    let (input, release) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program("cluster/first_d2d.c").unwrap()).unwrap();
    let job = job.args([&*SOURCE.to_string(), &*TARGET.to_string(), "200"]).stdin(input).timeout(LIMIT);
    let running = job.start().unwrap();
    running.await_output("ready").unwrap();
    let target = executor(&cluster, TARGET);
    drop(release);
    // Most likely in the middle of a copy.
    std::thread::sleep(Duration::from_millis(300));
    kill(target, Signal::SIGSTOP).unwrap();
    std::thread::sleep(STOPPED);
    kill(target, Signal::SIGCONT).unwrap();
    running.finish().unwrap().success().unwrap();
}

/// The source's worker is not needed for a copy: the sender of bytes has them in shared memory.
#[test]
fn the_sources_worker_is_not_missed() {
    let cluster = Cluster::builder().hosts(3).devices(1).memory("64M").start().unwrap();
    let (input, release) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program("cluster/first_d2d.c").unwrap()).unwrap();
    let job = job.args([SOURCE.to_string(), TARGET.to_string()]).stdin(input).timeout(LIMIT);
    let running = job.env("ACCORD_TIMEOUT", TIMEOUT_S.to_string()).start().unwrap();
    running.await_output("ready").unwrap();
    kill(worker(&running, executor(&cluster, SOURCE)), Signal::SIGSTOP).unwrap();
    drop(release);
    running.finish().unwrap().success().unwrap();
}
