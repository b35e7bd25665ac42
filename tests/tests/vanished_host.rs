//! Programs whose machine vanishes without a message, as when its cable is pulled, and programs that are only stopped.

use accord_tests::{Cluster, Result, Running, test_program};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use std::io::PipeWriter;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a machine may be silent here.
const LOST_AFTER: Duration = Duration::from_secs(3);
/// How long sessions of a vanished machine may stay. Without probes they would stay forever.
const GONE_WITHIN: Duration = Duration::from_secs(40);

/// A machine that is a network namespace, and this machine's address in it. Removed on drop.
struct Machine {
    name: String,
    here: String,
}

impl Machine {
    /// Returns `None`, and prints so, if this machine can't have it.
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            println!("skipped: only root can have network namespaces");
            return None;
        }
        let id = std::process::id();
        let (name, net) = (format!("gone{id}"), format!("10.{}.{}", 64 + (id >> 8) % 64, id % 256));
        let machine = Self { here: format!("{net}.1"), name };
        let name = machine.name.as_str();
        if let Err(why) = ip(&["netns", "add", name]) {
            println!("skipped: no network namespaces here: {why}");
            return None;
        }
        ip(&["link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name]).unwrap();
        ip(&["addr", "add", &format!("{net}.1/24"), "dev", name]).unwrap();
        ip(&["link", "set", name, "up"]).unwrap();
        ip(&["-n", name, "addr", "add", &format!("{net}.2/24"), "dev", "eth0"]).unwrap();
        ip(&["-n", name, "link", "set", "eth0", "up"]).unwrap();
        ip(&["-n", name, "link", "set", "lo", "up"]).unwrap();
        Some(machine)
    }

    /// Makes the machine silent and unreachable.
    fn vanish(&self) {
        ip(&["-n", &self.name, "link", "set", "eth0", "down"]).unwrap();
    }

    /// Starts a program there, and waits until it is `ready`. It goes on when the returned pipe is dropped.
    fn start(&self, cluster: &Cluster, arguments: &[&str]) -> (Running, PipeWriter) {
        let (input, output) = std::io::pipe().unwrap();
        let job = cluster.job(0, "ip".as_ref()).unwrap().args(["netns", "exec", &self.name]);
        let job = job.arg(test_program("cluster/stays.c").unwrap()).args(arguments.iter().copied()).stdin(input);
        let running = job.start().unwrap();
        running.await_output("ready").unwrap();
        (running, output)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| error.to_string())?;
    output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn cluster(machine: &Machine) -> Cluster {
    let lost_after = format!("{}s", LOST_AFTER.as_secs());
    let builder = Cluster::builder().hosts(2).devices(1).memory("64M").env("ACCORD_PROGRAM_LOST_AFTER", lost_after);
    builder.coordinator_at(&machine.here).listen(&machine.here).start().unwrap()
}

fn sessions(cluster: &Cluster) -> usize {
    cluster.info().unwrap()["sessions"].as_array().unwrap().len()
}

#[test]
fn a_session_whose_machine_vanishes_ends() {
    let Some(machine) = Machine::new() else { return };
    let cluster = cluster(&machine);
    let programs = [machine.start(&cluster, &[]), machine.start(&cluster, &["use"])];
    assert_eq!((sessions(&cluster), cluster.executors(1).len()), (2, 1));
    machine.vanish();
    let end = Instant::now() + GONE_WITHIN;
    while sessions(&cluster) > 0 || !cluster.executors(1).is_empty() {
        assert!(Instant::now() < end, "{} sessions, executors {:?}", sessions(&cluster), cluster.executors(1));
        std::thread::sleep(Duration::from_millis(100));
    }
    for (running, _output) in programs {
        let _ = running.signal(Signal::SIGKILL);
    }
}

#[test]
fn a_program_that_is_stopped_keeps_its_session() {
    let Some(machine) = Machine::new() else { return };
    let cluster = cluster(&machine);
    let programs = [machine.start(&cluster, &[]), machine.start(&cluster, &["use"])];
    programs.iter().for_each(|(running, _)| running.signal(Signal::SIGSTOP).unwrap());
    std::thread::sleep(4 * LOST_AFTER);
    assert_eq!((sessions(&cluster), cluster.executors(1).len()), (2, 1));
    for ((running, output), x) in programs.into_iter().zip([2, 3]) {
        running.signal(Signal::SIGCONT).unwrap();
        drop(output);
        let finished = running.finish().unwrap();
        assert!(finished.code() == 0 && finished.stdout.contains(&format!("x={x}")), "{}", finished.report());
    }
}
