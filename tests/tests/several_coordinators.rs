//! Two coordinators with one state in etcd: while one is killed, or stopped and woken, the other leads, and jobs, their places and usage go on.
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../coordinator/tests/etcd/mod.rs"]
mod etcd;

use accord_tests::{Cluster, Finished, Job, Running, Tool, test_program, tool};
use etcd::{Etcd, free_port};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::File;
use std::io::PipeWriter;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(180);

/// The further coordinator.
struct Further {
    process: Child,
    address: String,
    log: PathBuf,
}

impl Further {
    fn start(cluster: &Cluster, address: &str, state: &str, folder: &Path) -> Self {
        let log = folder.join("further.log");
        let process = Command::new(tool(Tool::Coordinator).unwrap())
            .args(["--listen", address, "--state", state, "--tls"])
            .arg(cluster.tls_of("coordinator"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { process, address: address.to_owned(), log }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), signal).unwrap();
    }

    fn await_message(&self, part: &str) {
        let begun = Instant::now();
        loop {
            let messages = std::fs::read_to_string(&self.log).unwrap();
            if messages.contains(part) {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "{part:?} is awaited in vain: {messages}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Further {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `accord` with an administrator's certificates, at these coordinators.
fn accord_at(cluster: &Cluster, coordinators: &str, arguments: &[&str]) -> Finished {
    let job = Job::new(tool(Tool::Accord).unwrap()).args(arguments.iter().copied());
    let job = job.env("ACCORD_COORDINATOR", coordinators).env("ACCORD_TLS", cluster.tls_of("admin"));
    job.env("ACCORD_NODE", cluster.host(0)).run().unwrap()
}

fn json(cluster: &Cluster, arguments: &[&str]) -> Option<Value> {
    let finished = accord_at(cluster, &cluster.addresses(), &[arguments, &["--json"]].concat());
    serde_json::from_str(&finished.stdout).ok()
}

/// Waits until an answer is as it should be, from whichever coordinator leads.
fn await_answer(cluster: &Cluster, arguments: &[&str], is: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let answer = json(cluster, arguments);
        if let Some(answer) = answer.as_ref().filter(|answer| is(answer)) {
            return answer.clone();
        }
        assert!(begun.elapsed() < LIMIT, "{arguments:?}: {answer:#?}\n{}", cluster.messages());
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn await_states(cluster: &Cluster, states: &[&str]) -> Value {
    await_answer(cluster, &["queue"], |queue| {
        let jobs = queue["jobs"].as_array().unwrap();
        let state = |job: usize| jobs.iter().find(|known| known["job"] == job).and_then(|job| job["state"].as_str());
        (1..).zip(states).all(|(job, wanted)| state(job).unwrap_or("over") == *wanted)
    })
}

fn usage_ms(cluster: &Cluster) -> u64 {
    let usage = await_answer(cluster, &["usage"], |_| true);
    usage["rows"].as_array().unwrap().iter().map(|row| row["device_ms"].as_u64().unwrap()).sum()
}

/// A program that asks for devices, and what ends it when dropped.
fn asks(cluster: &Cluster, request: &str) -> (Running, PipeWriter) {
    let (input, ends) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program("cluster/holds_devices.c").unwrap()).unwrap();
    (job.env("ACCORD_DEVICES", request).stdin(input).timeout(LIMIT).start().unwrap(), ends)
}

#[test]
fn jobs_places_and_usage_go_on_while_coordinators_come_and_go() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (state, address) = (etcd.location("tests"), free_port().to_string());
    let builder = Cluster::builder().hosts(1).devices(1).memory("64M").env("ACCORD_STATE", state.as_str());
    let mut cluster = builder.further_coordinator(&address).start().unwrap();
    let further = Further::start(&cluster, &address, &state, folder.path());

    let (first, ends_first) = asks(&cluster, "1:cpu");
    first.await_output("has").unwrap();
    let (second, ends_second) = asks(&cluster, "1:cpu");
    second.await_errors("job 2 waits").unwrap();
    let queue = await_states(&cluster, &["running", "waiting"]);
    let refused = accord_at(&cluster, &address, &["queue"]);
    let leader = format!("does not lead the cluster, the one at {} does", cluster.address());
    assert!(refused.code() != 0 && refused.stderr.contains(&leader), "{}", refused.report());

    // The leader is killed.
    let used = usage_ms(&cluster);
    cluster.kill_coordinator();
    further.await_message("this coordinator leads the cluster");
    let later = await_states(&cluster, &["running", "waiting"]);
    let asked = |queue: &Value| {
        queue["jobs"].as_array().unwrap().iter().map(|job| job["asked_unix_ms"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&later), asked(&queue));
    assert!(usage_ms(&cluster) >= used);

    // The new one is stopped, and the first one, which is back, leads.
    cluster.start_coordinator().unwrap();
    let refused = accord_at(&cluster, cluster.address(), &["queue"]);
    let leader = format!("the one at {} does", further.address);
    assert!(refused.stderr.contains(&leader), "{}", refused.report());
    further.signal(Signal::SIGSTOP);
    let after = await_states(&cluster, &["running", "waiting"]);
    assert_eq!(asked(&after), asked(&queue));

    // The one that wakes changes nothing: it steps down, and follows.
    further.signal(Signal::SIGCONT);
    further.await_message("this coordinator leads no longer");
    let begun = Instant::now();
    let leader = format!("the one at {} does", cluster.address());
    while !accord_at(&cluster, &address, &["queue"]).stderr.contains(&leader) {
        assert!(begun.elapsed() < LIMIT, "{}", std::fs::read_to_string(&further.log).unwrap());
    }
    drop(ends_first);
    first.finish().unwrap().success().unwrap();
    second.await_output("has").unwrap();
    await_states(&cluster, &["over", "running"]);
    drop(ends_second);
    second.finish().unwrap().success().unwrap();
    await_states(&cluster, &["over", "over"]);
    let history = await_answer(&cluster, &["history"], |_| true);
    let ended = history["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_u64().unwrap());
    assert_eq!(ended.collect::<std::collections::BTreeSet<u64>>(), [1, 2].into());
}

#[test]
fn a_cluster_goes_on_when_etcd_is_back_and_while_one_of_its_members_is_lost() {
    let Some(mut etcd) = Etcd::start(3, &[]) else { return };
    let state = etcd.location("tests");
    let mut cluster =
        Cluster::builder().hosts(1).devices(1).memory("64M").env("ACCORD_STATE", state.as_str()).start().unwrap();
    // From now on at the port that it has, also when it starts anew.
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    let (first, ends_first) = asks(&cluster, "1:cpu");
    first.await_output("has").unwrap();
    etcd.kill(0);
    let (second, ends_second) = asks(&cluster, "1:cpu");
    second.await_errors("job 2 waits").unwrap();
    await_states(&cluster, &["running", "waiting"]);

    // Without most of its members etcd decides nothing: the coordinator leads no longer, and the program goes on.
    etcd.kill(1);
    cluster.await_messages(|messages| messages.contains("this coordinator leads no longer")).unwrap();
    etcd.start_member(0);
    etcd.start_member(1);
    await_states(&cluster, &["running", "waiting"]);
    drop(ends_first);
    first.finish().unwrap().success().unwrap();
    second.await_output("has").unwrap();
    drop(ends_second);
    second.finish().unwrap().success().unwrap();
    await_states(&cluster, &["over", "over"]);
}
