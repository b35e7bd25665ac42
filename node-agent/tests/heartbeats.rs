//! Heartbeats do not depend on an agent's work for programs.

mod support;

use accord_cluster::Limits;
use accord_fabric::Key;
use accord_fabric::handshake::Purpose;
use accord_types::SessionId;
use rustix::process::{Signal, kill_process};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{Agent, Cluster, SOON, command_lane, ends_within, lane, lane_with, pid, up};

const HEARTBEAT: Duration = Duration::from_millis(100);
/// Number of heartbeats that must arrive while work is blocked.
const BEATS: usize = 20;
const SESSIONS: usize = 12;

/// Holds a lease on the file at the path: starting it blocks until the lease is released, at most for the system's 45
/// s.
const HOLDER: &str = "
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
sys.stdin.read()
";

/// A program whose start blocks until this is dropped.
struct Held(Child);

impl Held {
    /// Returns `None` if the system has no python3, or no leases.
    fn hold(program: &Path) -> Option<Self> {
        let holder = Command::new("python3")
            .args(["-c", HOLDER])
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut holder = match holder {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            holder => holder.unwrap(),
        };
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let held = Self(holder);
        (line == "held\n").then_some(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Starts an agent whose executors are started from a copy of its program.
fn agent_of_a_copy(cluster: &Cluster) -> (Agent, PathBuf) {
    let copy = cluster.dir.path().join("agent");
    let again = cluster.dir.path().join("again");
    let original = Path::new(env!("CARGO_BIN_EXE_accord-node-agent"));
    std::fs::copy(original, &copy).unwrap();
    std::fs::copy(original, &again).unwrap();
    let command = cluster.command("h1");
    let mut copied = Command::new(&copy);
    copied.args(command.get_args()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let agent = Agent::start(copied);
    cluster.until(|view| view.nodes.iter().any(|node| node.name == "h1" && node.state == up()));
    std::fs::rename(&again, &copy).unwrap();
    (agent, copy)
}

/// Waits for `count` heartbeats.
fn await_beats(cluster: &Cluster, count: usize) {
    let (mut beats, mut before, begin) = (0, 0, Instant::now());
    while beats < count {
        let view = cluster.view();
        assert_eq!(view.nodes[0].state, up(), "after {beats} heartbeats");
        let age = view.nodes[0].heard_ms_ago;
        beats += usize::from(age < before);
        before = age;
        assert!(begin.elapsed() < SOON, "{beats} heartbeats in {SOON:?}; the last was {age} ms ago");
        std::thread::sleep(HEARTBEAT / 10);
    }
}

/// Starts of executors are blocked, and with them the threads that start them or wait for them. Other connections wait
/// for sessions that are never announced.
#[test]
fn an_agent_whose_work_stands_still_goes_on_beating() {
    let limits = Limits { heartbeat_ms: HEARTBEAT.as_millis() as u64, ..Limits::default() };
    let cluster = Cluster::with_limits(limits);
    let (agent, program) = agent_of_a_copy(&cluster);
    let Some(held) = Held::hold(&program) else {
        println!("skipped: it takes python3, and a file system with leases");
        return;
    };
    let sessions: Vec<_> = (0..SESSIONS).map(|_| cluster.open("elsewhere")).collect();
    let opened = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (lease, _door) in &sessions {
            scope.spawn(|| {
                let lane = command_lane(lease).unwrap();
                opened.fetch_add(1, Ordering::SeqCst);
                drop(lane);
            });
            scope.spawn(|| {
                let unknown = SessionId(lease.session.0 + (1 << 40));
                lane_with(&agent.address, Purpose::Command, unknown, &Key::random().unwrap()).unwrap_err()
            });
        }
        // The work has begun: the process that is to become the first keeper exists, and is blocked.
        let begin = Instant::now();
        while !agent.has_children() {
            assert!(begin.elapsed() < SOON, "no executor is being started");
            std::thread::sleep(HEARTBEAT / 10);
        }
        await_beats(&cluster, BEATS);
        assert_eq!(opened.load(Ordering::SeqCst), 0, "a session has an executor: nothing stood still");
        // A new session is announced, accepted and ended as usual.
        drop(cluster.open("elsewhere"));
        drop(held);
    });
    // All blocked work is then completed.
    assert_eq!(opened.load(Ordering::SeqCst), SESSIONS);
    let (lease, _door) = cluster.open("elsewhere");
    let _command = command_lane(&lease).unwrap();
    drop(lane(&agent.address, Purpose::Bulk, &lease).unwrap());
}

/// An executor that accepts no lanes blocks the threads that hand it lanes.
#[test]
fn an_agent_that_can_not_get_rid_of_lanes_goes_on_beating() {
    /// More than fit in the socket to an executor.
    const LANES: usize = 500;
    let limits = Limits { heartbeat_ms: HEARTBEAT.as_millis() as u64, ..Limits::default() };
    let cluster = Cluster::with_limits(limits);
    let agent = cluster.agent("h1");
    let (lease, _door) = cluster.open("elsewhere");
    let _command = command_lane(&lease).unwrap();
    let (executor, ends) = agent.executor();
    kill_process(pid(executor), Signal::STOP).unwrap();
    // Until the agent gives the executor up: a handshake does not wait for it.
    let lanes: Vec<_> = (0..LANES).map_while(|_| lane(&agent.address, Purpose::Bulk, &lease).ok()).collect();
    await_beats(&cluster, BEATS);
    assert!(ends_within(&ends, SOON), "{} lanes have found room", lanes.len());
}
