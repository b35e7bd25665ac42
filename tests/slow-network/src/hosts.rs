//! Replaces the bridge between the hosts of a local cluster by the switch, and limits the rate of their links.
//!
//! All of it is in network namespaces that end with the run, whatever ends it, so that no clean-up is needed.

use crate::{PacketSocket, Result};
use nix::sched::{CloneFlags, setns};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The bridge that `accord run` creates; the coordinator is on it.
const BRIDGE: &str = "hosts";
/// The run's supervisor, the first process of the namespace. It has the bridge, and holds the hosts' namespaces.
const SUPERVISOR: &str = "/proc/1";
/// A link of the bridge to the switch in place of the hosts' links, and its other end.
const COORDINATOR: [&str; 2] = ["switch0", "switch1"];
/// The interface of a host.
const OF_HOST: &str = "eth0";
/// Burst of a link after a pause: TCP segments that are sent as one are not split.
const BURST: usize = 72 << 10;
/// Queue limit of a link. Further frames are dropped, as in switches.
const WAITING_MAX: usize = 1 << 20;

/// The network between the hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Between {
    /// The delay from host to host.
    pub delay: Duration,
    /// The rate of each link in each direction, in bits per second.
    pub rate: Option<u64>,
}

/// The hosts' links, detached from the bridge.
pub struct Hosts {
    names: Vec<String>,
}

impl Hosts {
    /// Detaches the hosts from the bridge. Returns the other ends of their links, and of the coordinator's. Moves the calling thread to the namespace of
    /// these ends.
    ///
    /// # Errors
    /// Returns an error if the hosts of this run are no namespaces, or a tool is missing.
    pub fn take(between: Between) -> Result<(Self, Vec<PacketSocket>)> {
        take(between)
    }

    /// Attaches the hosts to the bridge again, because other processes than the program may still communicate. Must be called by the thread that detached them.
    ///
    /// # Errors
    /// Returns any error of a tool.
    pub fn put_back(&self) -> Result<()> {
        let lines = self.names.iter().map(|name| format!("link set {name} master {BRIDGE}\n"));
        ip(&lines.collect::<String>())
    }
}

fn take(between: Between) -> Result<(Hosts, Vec<PacketSocket>)> {
    let home = Path::new(SUPERVISOR).join("ns/net");
    enter(&home).map_err(|error| format!("{error}; hosts have to be network namespaces, which takes root"))?;
    let names = on_bridge()?;
    let hosts = namespaces(&home)?;
    if names.len() != hosts.len() {
        return Err(format!("{} hosts have {} links", hosts.len(), names.len()));
    }
    for host in &hosts {
        enter(host)?;
        limit(&[OF_HOST], between)?;
    }
    enter(&home)?;
    let (switch, ours) = (COORDINATOR[0], COORDINATOR[1]);
    // A bridge has the address of one of its links by default, and the kernel consumes frames for a link's address.
    let mut lines = format!(
        "link set {BRIDGE} address {}\n\
         link add {switch} type veth peer name {ours}\n\
         link set {switch} master {BRIDGE} up\n\
         link set {ours} arp off up\n",
        address(BRIDGE)?
    );
    let ends: Vec<&str> = names.iter().map(String::as_str).chain([ours]).collect();
    ip(&lines)?;
    limit(&ends, between)?;
    limit(&[switch], between)?;
    // Sockets receive from now on, so that no frame is lost while the bridge is removed.
    let sockets = ends.iter().map(|name| PacketSocket::open(name)).collect::<Result<Vec<_>>>()?;
    lines.clear();
    for (name, number) in names.iter().zip(1..) {
        let _ = writeln!(lines, "link set {name} nomaster arp off address 02:00:00:00:00:{number:02x}");
    }
    ip(&lines)?;
    Ok((Hosts { names }, sockets))
}

fn enter(namespace: &Path) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", namespace.display());
    let file = File::open(namespace).map_err(|error| failed(&error))?;
    setns(file, CloneFlags::CLONE_NEWNET).map_err(|error| failed(&error))
}

/// Returns the hosts' ends at the bridge.
fn on_bridge() -> Result<Vec<String>> {
    let listed = output("ip", &["-o", "link", "show", "master", BRIDGE])?;
    let name = |line: &str| Some(line.split(": ").nth(1)?.split('@').next()?.to_owned());
    let names: Vec<String> = listed.lines().filter_map(name).collect();
    if names.is_empty() { Err(format!("no hosts are on a bridge {BRIDGE}")) } else { Ok(names) }
}

fn address(name: &str) -> Result<String> {
    let listed = output("ip", &["-o", "link", "show", name])?;
    let mut words = listed.split_whitespace().skip_while(|word| *word != "link/ether");
    words.nth(1).map(str::to_owned).ok_or_else(|| format!("{name} has no address"))
}

/// Returns the hosts' network namespaces, which the supervisor holds.
fn namespaces(home: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| format!("{SUPERVISOR}: {error}");
    let home = std::fs::read_link(home).map_err(failed)?;
    let mut seen = BTreeSet::from([home]);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(Path::new(SUPERVISOR).join("fd")).map_err(failed)?.flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        if target.to_string_lossy().starts_with("net:[") && seen.insert(target) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Sets the rate of links in this thread's namespace.
fn limit(names: &[&str], between: Between) -> Result<()> {
    let Some(rate) = between.rate else { return Ok(()) };
    let mut lines = String::new();
    for name in names {
        let _ = writeln!(lines, "qdisc replace dev {name} root tbf rate {rate}bit burst {BURST} limit {WAITING_MAX}");
    }
    batch("tc", &lines)
}

fn ip(lines: &str) -> Result<()> {
    batch("ip", lines)
}

/// Runs lines of one of iproute2's tools.
fn batch(tool: &str, lines: &str) -> Result<()> {
    let failed = |error: std::io::Error| format!("{tool}: {error}");
    let mut child = command(tool).args(["-batch", "-"]).stdin(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A write fails only if the tool has ended, and its status explains that better.
        let _ = stdin.write_all(lines.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    printed(tool, &output).map(drop)
}

fn output(tool: &str, arguments: &[&str]) -> Result<String> {
    let output = command(tool).args(arguments).output().map_err(|error| format!("{tool}: {error}"))?;
    printed(tool, &output)
}

/// The run preloads libacc into every program.
fn command(tool: &str) -> Command {
    let mut command = Command::new(tool);
    command.env_remove("LD_PRELOAD").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn printed(tool: &str, output: &std::process::Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{tool} (package iproute2): {}", String::from_utf8_lossy(&output.stderr).trim()))
}
