//! Agents and coordinators that are stopped for a while: programs go on, and no session is lost needlessly.

use accord_tests::{Cluster, Running, test_program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{PipeWriter, Write};
use std::time::{Duration, Instant};

/// Shorter than the default, for the tests' speed.
const LOST_AFTER: Duration = Duration::from_secs(2);
/// Longer than that, and than the time for which a program doubts its executor.
const STOPPED: Duration = Duration::from_secs(8);

fn cluster() -> Cluster {
    let lost_after = format!("{}s", LOST_AFTER.as_secs());
    Cluster::builder().hosts(3).devices(1).memory("64M").env("ACCORD_LOST_AFTER", lost_after).start().unwrap()
}

/// A program that uses all devices, one step per line of input.
struct Steps {
    running: Running,
    input: PipeWriter,
    done: u32,
}

impl Steps {
    fn start(cluster: &Cluster) -> Self {
        let mut steps = Self::idle(cluster, "30s");
        steps.step();
        steps
    }

    /// Starts a program that waits this long for the coordinator, and uses no device yet.
    fn idle(cluster: &Cluster, waits: &str) -> Self {
        let (input, output) = std::io::pipe().unwrap();
        let job =
            cluster.job(0, &test_program("cluster/on_request.c").unwrap()).unwrap().env("ACCORD_OPEN_TIMEOUT", waits);
        let running = job.stdin(input).timeout(Duration::from_secs(120)).start().unwrap();
        Self { running, input: output, done: 0 }
    }

    fn step(&mut self) {
        self.say("compute");
    }

    fn say(&mut self, what: &str) {
        self.begin(what);
        self.await_done();
    }

    fn begin(&mut self, what: &str) {
        self.done += 1;
        writeln!(self.input, "{what}").unwrap();
    }

    fn await_done(&mut self) {
        self.running.await_output(&format!("done {}\n", self.done)).unwrap();
    }

    fn finish(self) {
        drop(self.input);
        let finished = self.running.finish().unwrap().success().unwrap();
        assert_eq!(finished.stderr, "");
    }
}

fn signal(id: Option<u32>, signal: Signal) {
    let id = id.and_then(|id| i32::try_from(id).ok()).expect("it runs");
    kill(Pid::from_raw(id), signal).unwrap();
}

fn nodes_in(state: &'static str, count: usize) -> impl Fn(&Value) -> bool {
    move |info| {
        let nodes = info["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        nodes.iter().filter(|node| node["state"] == state).count() == count
    }
}

#[test]
fn a_stopped_agent_whose_executors_are_well_kills_no_program() {
    let cluster = cluster();
    let mut steps = Steps::start(&cluster);
    signal(cluster.agent_id(1), Signal::SIGSTOP);
    cluster.await_info("a lost node", nodes_in("lost", 1)).unwrap();
    steps.step();
    // Longer than the program doubts its executor.
    std::thread::sleep(STOPPED);
    steps.step();
    signal(cluster.agent_id(1), Signal::SIGCONT);
    cluster.await_info("all nodes", nodes_in("up", 3)).unwrap();
    steps.step();
    steps.finish();
}

#[test]
fn a_coordinator_that_was_stopped_has_lost_no_session() {
    let cluster = cluster();
    let mut steps = Steps::start(&cluster);
    signal(cluster.coordinator_id(), Signal::SIGSTOP);
    std::thread::sleep(STOPPED);
    steps.step();
    signal(cluster.coordinator_id(), Signal::SIGCONT);
    cluster.await_info("all nodes", nodes_in("up", 3)).unwrap();
    std::thread::sleep(2 * LOST_AFTER);
    steps.step();
    assert!(!cluster.messages().contains("is lost"), "{}", cluster.messages());
    steps.finish();
}

#[test]
fn a_coordinator_may_be_away_for_longer_than_nodes_may_be_silent() {
    let mut cluster = cluster();
    let mut steps = Steps::start(&cluster);
    cluster.kill_coordinator();
    std::thread::sleep(STOPPED);
    steps.step();
    cluster.start_coordinator().unwrap();
    cluster.await_devices(3).unwrap();
    // Agents have restored the session, and its program has reconnected.
    let is_back = |session: &Value| session["attached"] == true;
    cluster
        .await_info("the program", |info| {
            info["sessions"].as_array().is_some_and(|all| all.len() == 1 && is_back(&all[0]))
        })
        .unwrap();
    steps.step();
    steps.finish();
    cluster.await_info("its end", |info| info["sessions"].as_array().is_some_and(Vec::is_empty)).unwrap();
}

#[test]
fn a_session_outlives_its_executors_at_another_coordinator() {
    let mut cluster = cluster();
    let mut steps = Steps::start(&cluster);
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    cluster.await_devices(3).unwrap();
    let is_back = |session: &Value| session["attached"] == true;
    cluster
        .await_info("the program", |info| info["sessions"].as_array().is_some_and(|all| all.iter().any(is_back)))
        .unwrap();
    // The program loses all data on other nodes, and starts again there.
    let mut lost = Vec::new();
    for host in [1, 2] {
        lost.extend(cluster.executors(host));
    }
    assert_eq!(lost.len(), 2);
    for executor in &lost {
        signal(Some(*executor), Signal::SIGKILL);
    }
    let until = Instant::now() + STOPPED;
    while [1, 2].iter().any(|host| !cluster.executors(*host).is_empty()) {
        assert!(Instant::now() < until, "executors stay");
        std::thread::sleep(Duration::from_millis(20));
    }
    steps.say("shutdown");
    steps.step();
    steps.finish();
}

/// The coordinator has not announced the session to the third node's agent: only nodes that the program uses know it.
#[test]
fn a_program_begins_on_another_node_when_the_coordinator_is_back() {
    let mut cluster = cluster();
    let mut steps = Steps::idle(&cluster, "60s");
    steps.say("use 0");
    steps.say("use 1");
    cluster.kill_coordinator();
    // The program continues on the nodes that it uses.
    steps.say("shutdown");
    steps.say("use 0");
    steps.say("use 1");
    steps.begin("use 2");
    // Longer than an agent waits for the announcement.
    std::thread::sleep(Duration::from_secs(4));
    cluster.start_coordinator().unwrap();
    steps.await_done();
    steps.step();
    steps.finish();
    cluster.await_info("its end", |info| info["sessions"].as_array().is_some_and(Vec::is_empty)).unwrap();
}

/// No agent knows the session of a program that has used no device. The program drives the device of its own node without the agent.
#[test]
fn a_program_begins_on_its_own_node_while_the_coordinator_is_away() {
    let mut cluster = cluster();
    let mut steps = Steps::idle(&cluster, "30s");
    // It lists its devices, and so has its session.
    steps.say("shutdown");
    cluster.kill_coordinator();
    steps.say("use 0");
    cluster.start_coordinator().unwrap();
    cluster.await_devices(3).unwrap();
    // The session is back, with the device that is in use, and goes to other nodes.
    steps.step();
    steps.finish();
    cluster.await_info("its end", |info| info["sessions"].as_array().is_some_and(Vec::is_empty)).unwrap();
}

#[test]
fn a_program_that_needs_another_node_does_not_wait_for_the_coordinator_for_ever() {
    let mut cluster = cluster();
    let mut steps = Steps::idle(&cluster, "3s");
    steps.say("use 1");
    cluster.kill_coordinator();
    steps.begin("use 2");
    let finished = steps.running.finish().unwrap();
    assert_eq!((finished.code(), finished.timed_out), (1, false), "{}", finished.report());
    assert!(finished.stderr.contains("acc_error_device_unavailable"), "{}", finished.report());
    let cause = "the coordinator has not said within 3s (ACCORD_OPEN_TIMEOUT) that the program may use this node";
    assert!(finished.stderr.contains(cause) && finished.stderr.contains("h2"), "{}", finished.report());
}

#[test]
fn a_program_that_starts_while_the_coordinator_is_away_waits_for_it() {
    let mut cluster = cluster();
    cluster.kill_coordinator();
    let job = cluster.job(0, &test_program("c/devices_each.c").unwrap()).unwrap();
    let running = job.timeout(Duration::from_secs(60)).start().unwrap();
    // Longer than it takes until the user is warned.
    std::thread::sleep(Duration::from_secs(4));
    cluster.start_coordinator().unwrap();
    let finished = running.finish().unwrap().success().unwrap();
    assert!(
        finished.stderr.contains("Connection refused") && finished.stderr.contains("ACCORD_OPEN_TIMEOUT"),
        "{}",
        finished.stderr
    );
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
}

#[test]
fn a_program_does_not_wait_for_the_coordinator_for_ever() {
    let mut cluster = cluster();
    cluster.kill_coordinator();
    let job = cluster.job(0, &test_program("c/devices_each.c").unwrap()).unwrap();
    let since = Instant::now();
    let finished = job.env("ACCORD_OPEN_TIMEOUT", "3s").timeout(Duration::from_secs(60)).run().unwrap();
    assert_eq!(finished.code(), 1, "{}", finished.report());
    assert!(finished.stderr.contains("cannot connect to the coordinator"), "{}", finished.report());
    let took = since.elapsed();
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(10), "{took:?}");
}
