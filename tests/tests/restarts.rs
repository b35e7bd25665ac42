//! Agents that are killed, and programs that start at that moment: they get other agents' devices, or wait until the
//! agent has returned. None fails.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, Running, test_program};
use std::time::Duration;

const PROGRAMS: usize = 16;
/// The time limit of a program, including its wait for devices.
const LIMIT: Duration = Duration::from_secs(120);

/// Starts programs as if on these hosts, in turn. A host without an agent has all devices elsewhere.
fn start(cluster: &Cluster, hosts: &[usize]) -> Vec<Running> {
    let program = test_program("cluster/uses_each.c").unwrap();
    let start = |nth: usize| {
        let job = cluster.job(hosts[nth % hosts.len()], &program).unwrap();
        let waits = format!("{}s", LIMIT.as_secs());
        job.env("ACCORD_OPEN_TIMEOUT", waits).timeout(LIMIT).start().unwrap()
    };
    (0..PROGRAMS).map(start).collect()
}

/// Waits for the programs, all of which must succeed, and returns each one's number of devices.
fn finish(cluster: &Cluster, running: Vec<Running>) -> Vec<u32> {
    let (mut had, mut failed) = (Vec::new(), Vec::new());
    for finished in running.into_iter().map(|one| one.finish().unwrap().success()) {
        match finished {
            Ok(finished) => {
                let printed = finished.stdout.lines().find_map(|line| line.strip_prefix("devices=")?.parse().ok());
                had.push(printed.unwrap_or_else(|| panic!("{}", finished.report())));
            }
            Err(report) => failed.push(report),
        }
    }
    let messages = cluster.messages();
    assert!(failed.is_empty(), "{} of {PROGRAMS} failed, such as:\n{}\n{messages}", failed.len(), failed[0]);
    had
}

/// Starts a session that has the agent's devices when the agent dies, and ends with it.
fn in_use(cluster: &Cluster, host: usize, device: &str) -> Running {
    let job = cluster.job(host, &test_program("cluster/endless.c").unwrap()).unwrap();
    let running = job.args(["launch", device]).timeout(LIMIT).start().unwrap();
    running.await_output("ready").unwrap();
    running
}

fn nothing_is_left(cluster: &Cluster) {
    cluster.await_info("no session", |info| info["sessions"].as_array().is_some_and(Vec::is_empty)).unwrap();
    let left = cluster.processes_besides_parts(Duration::from_secs(20));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn programs_wait_for_the_only_agent_that_was_killed() {
    let mut cluster = Cluster::builder().hosts(1).devices(2).memory("64M").start().unwrap();
    let before = in_use(&cluster, 1, "1");
    cluster.kill_agent(0);
    // Some begin while there is no agent at all.
    let early = start(&cluster, &[0, 1]);
    cluster.start_agent(0).unwrap();
    let late = start(&cluster, &[0, 1]);
    for running in [early, late] {
        assert_eq!(finish(&cluster, running), [2; PROGRAMS]);
    }
    let before = before.finish().unwrap();
    assert_eq!((before.code(), before.timed_out), (1, false), "{}", before.report());
    assert!(before.stderr.contains("acc_error_device_unavailable"), "{}", before.report());
    nothing_is_left(&cluster);
}

#[test]
fn programs_that_start_when_an_agent_dies_have_the_others_devices() {
    let mut cluster = Cluster::builder().hosts(3).devices(1).memory("64M").start().unwrap();
    let before = in_use(&cluster, 0, "1");
    cluster.kill_agent(1);
    let without = start(&cluster, &[0, 1, 2]);
    assert_eq!(finish(&cluster, without), [2; PROGRAMS]);
    let before = before.finish().unwrap();
    assert_eq!((before.code(), before.timed_out), (1, false), "{}", before.report());
    // A restarted agent does not disturb programs that start meanwhile. Its devices are leased as soon as it has
    // registered.
    cluster.start_agent(1).unwrap();
    let meanwhile = start(&cluster, &[0, 1, 2]);
    let had = finish(&cluster, meanwhile);
    assert!(had.iter().all(|had| [2, 3].contains(had)), "{had:?}");
    cluster.await_devices(3).unwrap();
    let with = start(&cluster, &[0, 1, 2]);
    assert_eq!(finish(&cluster, with), [3; PROGRAMS]);
    nothing_is_left(&cluster);
}
