//! The coordinator and the agents of a local cluster.

use super::hosts::Hosts;
use super::parts::find_program;
use super::signals::{Event, Signals};
use super::supervise::Supervisor;
use crate::args::ClusterSize;
use crate::client::Coordinator;
use crate::failure::{Failure, Result};
use accord_fabric::Key;
use accord_proto::v1::{ClusterView, NodeState};
use accord_types::settings;
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

/// Coordinator's and agents' port on hosts that are namespaces, where all ports are free.
const PORT: u16 = 7000;
/// How long all agents have to register.
const START_MAX: Duration = Duration::from_secs(20);
/// Pause between two looks whether they have.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Part of the machine's free memory that all devices together may take, in percent.
const MEMORY_PERCENT: u64 = 80;
/// End of a part's log that is shown when it fails.
const LOG_SHOWN: usize = 2000;

/// Starts a coordinator and one agent a host, and waits until all have registered. Returns what
/// the program's environment needs.
pub(super) fn start(
    supervisor: &mut Supervisor<'_>,
    signals: &mut Signals,
    hosts: &Hosts,
    size: ClusterSize,
    libacc: &Path,
) -> Result<Vec<(&'static str, OsString)>> {
    let begin = Instant::now();
    let key = Key::random()?;
    let key_file = supervisor.args.dir.join("key");
    std::fs::write(&key_file, key.bytes()).map_err(|error| Failure::system(key_file.display(), error))?;
    let memory = memory_setting(size);
    let door = SocketAddr::new(hosts.coordinator_address().into(), free_port(hosts)?);

    let coordinator = find_program("accord-coordinator")?;
    let line: Vec<OsString> = vec![
        coordinator.into(),
        "--listen".into(),
        door.to_string().into(),
        "--key-file".into(),
        key_file.clone().into(),
    ];
    supervisor.start_part("coordinator", None, &line, &[])?;
    let agent = find_program("accord-node-agent")?;
    for index in 0..hosts.count() {
        let name = Hosts::name(index);
        let port = if hosts.separate() { PORT } else { 0 };
        let line: Vec<OsString> = vec![
            agent.clone().into(),
            "--coordinator".into(),
            door.to_string().into(),
            "--listen".into(),
            SocketAddr::new(hosts.address(index).into(), port).to_string().into(),
            "--node".into(),
            name.clone().into(),
            "--key-file".into(),
            key_file.clone().into(),
            "--cpu-devices".into(),
            size.devices.to_string().into(),
            "--libacc".into(),
            libacc.into(),
        ];
        supervisor.start_part(&format!("agent-{name}"), Some((hosts, index)), &line, &memory)?;
    }

    let mut client = Coordinator::new(&door.to_string(), &key)?;
    wait_for_nodes(supervisor, signals, hosts.count(), &mut client)?;
    supervisor.say(format_args!(
        "{} hosts with {} devices each are up after {} ms; coordinator at {door}",
        size.hosts,
        size.devices,
        begin.elapsed().as_millis()
    ));
    let mut environment = memory;
    environment.push((settings::COORDINATOR.name, door.to_string().into()));
    environment.push((settings::KEY_FILE.name, key_file.into()));
    Ok(environment)
}

fn wait_for_nodes(
    supervisor: &mut Supervisor<'_>,
    signals: &mut Signals,
    count: u32,
    client: &mut Coordinator,
) -> Result<()> {
    let deadline = Instant::now() + START_MAX;
    let mut up = 0;
    loop {
        if let Some(view) = client.describe_if_up()? {
            up = nodes_up(&view);
            if up == u64::from(count) {
                return Ok(());
            }
        }
        match signals.next(Some(Instant::now() + LOOK_AGAIN))? {
            Event::Ended(pid, status) => {
                if let Some(name) = supervisor.ended_part(pid) {
                    let log = log_end(supervisor, &name);
                    return Err(Failure::new(format!("{name} ended at its start ({status:?}):\n{log}")));
                }
            }
            Event::Signal { signal, .. } => {
                return Err(Failure::interrupted(signal as i32));
            }
            Event::Orphaned => return Err(Failure::new("the launcher is gone")),
            Event::Timeout => {}
        }
        if Instant::now() >= deadline {
            let log = log_end(supervisor, "coordinator");
            return Err(Failure::new(format!(
                "only {up} of {count} agents have registered after {} s:\n{log}",
                START_MAX.as_secs()
            )));
        }
    }
}

fn nodes_up(view: &ClusterView) -> u64 {
    let up = view.nodes.iter().filter(|node| node.state() == NodeState::Up);
    up.count() as u64
}

fn log_end(supervisor: &Supervisor<'_>, name: &str) -> String {
    let path = supervisor.args.dir.join(format!("{name}.log"));
    let log = std::fs::read(&path).unwrap_or_default();
    let end = log.get(log.len().saturating_sub(LOG_SHOWN)..).unwrap_or_default();
    String::from_utf8_lossy(end).trim_end().to_owned()
}

/// A port for the coordinator. On hosts that share this machine's ports it was free a moment ago.
fn free_port(hosts: &Hosts) -> Result<u16> {
    if hosts.separate() {
        return Ok(PORT);
    }
    TcpListener::bind((hosts.coordinator_address(), 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| Failure::system("no free port for the coordinator", error))
}

/// Each device's memory, so that all devices of the machine fit into it: the agents don't know
/// of each other.
fn memory_setting(size: ClusterSize) -> Vec<(&'static str, OsString)> {
    if std::env::var_os(settings::CPU_MEMORY.name).is_some() {
        return Vec::new();
    }
    let Some(free) = memory_available() else {
        return Vec::new();
    };
    let devices = u64::from(size.hosts) * u64::from(size.devices);
    let each = free / 100 * MEMORY_PERCENT / devices;
    vec![(settings::CPU_MEMORY.name, each.to_string().into())]
}

/// Bytes that programs can still take.
fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}
