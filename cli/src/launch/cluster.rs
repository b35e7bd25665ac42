//! The coordinator and the agents of a local cluster.

use super::devices::HostDevices;
use super::died::{dead_node_line, dead_node_line_by};
use super::fabric::{RunFacts, choose};
use super::hosts::Hosts;
use super::mpi::Mpirun;
use super::mpi_part::MpiPart;
use super::parts::find_program;
use super::processes::{AGENTS, Processes};
use super::signals::{Event, Signals};
use crate::args::Fabric;
use crate::client::Coordinator;
use crate::failure::{Failure, Result};
use crate::output::report_line;
use accord_proto::v1::{ClusterView, NodeState};
use accord_trust::issue::Authority;
use accord_trust::name::word;
use accord_trust::{Role, Trust};
use accord_types::settings;
use nix::unistd::{User, geteuid};
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Port of coordinator and agents on hosts that are namespaces, where all ports are free.
const PORT: u16 = 7000;
/// Validity of a run's certificates: longer than any run.
const CERTIFICATES_LAST: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// The time limit for all agents to register.
const START_MAX: Duration = Duration::from_secs(20);
/// The time for a coordinator on a busy core to notice a dead agent, which the launcher may see first.
const WORD_MAX: Duration = Duration::from_millis(500);
/// The shortest and the longest pause between two polls.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];
/// The share of the time waited so far that a pause takes. Polls take processor time from the agents that are starting.
const PAUSE_SHARE: u32 = 16;
/// Most bytes of the end of a part's log in a failure message.
const LOG_SHOWN: usize = 2000;

/// Starts a coordinator, and an agent on each host that has devices or needs one, and waits until all have registered.
/// Returns the program's environment.
pub(super) fn start(
    processes: &mut Processes<'_>,
    signals: &mut Signals,
    hosts: &Hosts,
    devices: &HostDevices,
    libacc: &Path,
) -> Result<Vec<(&'static str, OsString)>> {
    let begin = Instant::now();
    let certificates = Certificates::new(&processes.args.dir)?;
    let own = certificates.issue("program", Role::Tenant(user_name()))?;
    let insecure = processes.args.run.insecure_plain_tcp.then(|| OsString::from("--insecure-plain-tcp"));
    if insecure.is_some() {
        report_line(format_args!("commands and data go between the hosts in clear: --insecure-plain-tcp"));
    }
    // Hosts that share this machine's ports use any free one.
    let port = if hosts.separate() { PORT } else { 0 };

    let place = hosts.coordinator_address().into();
    let address = start_coordinator(processes, signals, place, port, &certificates, insecure.clone())?;
    let agent = find_program("accord-node-agent")?;
    let mut client = Coordinator::new(&address, Trust::read(&own)?)?;
    let asked = processes.args.run.fabric;
    // The installed MPI matters only to the MPI fabric.
    let part = if asked == Some(Fabric::Mpi) { MpiPart::find() } else { MpiPart::None("not asked for".to_owned()) };
    let known = RunFacts { nodes: hosts.count(), part: &part, launcher: Ok(()), is_local: true };
    let fabric = choose(asked, &known).map_err(Failure::new)?;
    processes.say(format_args!("fabric: {fabric}"));
    let world = world_name();
    let mut of_world = Vec::new();
    // Over MPI a program uses an agent of its own host, even one without devices. Hosts that are addresses share this
    // machine's agents.
    let with_agents = if fabric.mpi && hosts.separate() { 0..devices.hosts().end } else { devices.hosts() };
    for (index, registered) in with_agents.zip(1..) {
        let name = Hosts::name(index);
        let mut line: Vec<OsString> = vec![
            agent.clone().into(),
            "--coordinator".into(),
            address.clone().into(),
            "--listen".into(),
            SocketAddr::new(hosts.address(index).into(), port).to_string().into(),
            "--node".into(),
            name.clone().into(),
            // The world belongs to this user, even if that is root.
            "--users".into(),
            "root,0,*".into(),
            "--tls".into(),
            certificates.issue(&name, Role::Agent(name.clone()))?.into(),
            "--gpus".into(),
            devices.offered(index).into(),
            "--cpu-devices".into(),
            devices.cpus(index).to_string().into(),
            "--libacc".into(),
            libacc.into(),
            // The cluster ends with its agents, so they keep nothing.
            "--keep".into(),
            "off".into(),
        ];
        line.extend(insecure.clone());
        if fabric.mpi {
            line.extend(["--fabric".into(), "mpi".into(), "--world".into(), OsString::from(&world)]);
            of_world.push((index, with_environment(line, &devices.environment_of_agent(index))));
            continue;
        }
        processes.start_part(
            &format!("agent-{name}"),
            Some((hosts, index)),
            &line,
            &devices.environment_of_agent(index),
        )?;
        // One after the other, because the coordinator numbers nodes in the order of registration.
        let offered = wait_for_nodes(processes, signals, START_MAX, registered, &mut client)?;
        if offered != devices.of(registered) {
            return Err(Failure::new(format!(
                "{name} does not offer what it has of this machine's devices: there are {offered} instead of {}\n{}",
                devices.of(registered),
                end(&processes.last_log())
            )));
        }
    }
    let mut environment = vec![(settings::COORDINATOR.name, address.clone().into()), (settings::TLS.name, own.into())];
    if fabric.mpi {
        start_world(processes, signals, hosts, devices, &of_world, &mut client)?;
        environment.push((settings::TRANSPORT.name, format!("mpi:{world}").into()));
    }
    processes.say(format_args!(
        "a local cluster of {} is up after {} ms; coordinator at {address}",
        devices.size(),
        begin.elapsed().as_millis()
    ));
    Ok(environment)
}

/// The certificates of a run. The authority's key is never written, and certificates are usable only while the run's
/// folder exists.
pub(super) struct Certificates {
    authority: Authority,
    folder: PathBuf,
}

impl Certificates {
    pub(super) fn new(dir: &Path) -> Result<Self> {
        Ok(Self { authority: Authority::new("local", CERTIFICATES_LAST)?, folder: dir.join("tls") })
    }

    /// Creates a folder with a certificate for this role.
    pub(super) fn issue(&self, folder: &str, role: Role) -> Result<PathBuf> {
        let folder = self.folder.join(folder);
        self.authority.issue_into(&folder, role, CERTIFICATES_LAST)?;
        Ok(folder)
    }
}

/// Starts the coordinator; returns its address.
pub(super) fn start_coordinator(
    processes: &mut Processes<'_>,
    signals: &mut Signals,
    address: IpAddr,
    port: u16,
    certificates: &Certificates,
    insecure: Option<OsString>,
) -> Result<String> {
    let mut line: Vec<OsString> = vec![
        find_program("accord-coordinator")?.into(),
        "--listen".into(),
        SocketAddr::new(address, port).to_string().into(),
        "--tls".into(),
        certificates.issue("coordinator", Role::Coordinator)?.into(),
    ];
    line.extend(insecure);
    processes.start_part("coordinator", None, &line, &[])?;
    wait_for_coordinator(processes, signals)
}

/// Starts the agents as the ranks of one MPI world.
fn start_world(
    processes: &mut Processes<'_>,
    signals: &mut Signals,
    hosts: &Hosts,
    devices: &HostDevices,
    agents: &[(u32, Vec<OsString>)],
    client: &mut Coordinator,
) -> Result<()> {
    let mpirun = Mpirun::find()?;
    let line = mpirun.agents(hosts, &processes.args.dir, agents)?;
    let environment = mpirun.environment(hosts, &processes.args.dir)?;
    let first = agents.first().map_or(0, |(host, _)| *host);
    processes.start_part(AGENTS, Some((hosts, first)), &line, &environment)?;
    let count = u32::try_from(agents.len()).unwrap_or(u32::MAX);
    let offered = wait_for_nodes(processes, signals, START_MAX, count, client)?;
    let wanted = devices.all();
    if offered == wanted {
        return Ok(());
    }
    let log = processes.last_log();
    Err(Failure::new(format!("the agents offer {offered} devices instead of {wanted}\n{}", end(&log))))
}

/// Returns a command with variables in addition to mpirun's environment.
fn with_environment(line: Vec<OsString>, environment: &[(&str, OsString)]) -> Vec<OsString> {
    let set = |(name, value): &(&str, OsString)| {
        let mut set = OsString::from(format!("{name}="));
        set.push(value);
        set
    };
    std::iter::once("env".into()).chain(environment.iter().map(set)).chain(line).collect()
}

/// Returns a name that is unique among this machine's worlds.
pub(super) fn world_name() -> String {
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let space: String = space.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("run-{}-{space}", std::process::id())
}

/// Returns this user's name, or number if there is no name that a certificate may hold.
pub(super) fn user_name() -> String {
    let user = User::from_uid(geteuid()).ok().flatten().map(|user| user.name);
    user.filter(|name| word(name).is_ok()).unwrap_or_else(|| geteuid().to_string())
}

/// Waits for the address that the coordinator prints once it listens.
fn wait_for_coordinator(processes: &mut Processes<'_>, signals: &mut Signals) -> Result<String> {
    wait_until(processes, signals, START_MAX, |processes| {
        let log = processes.log("coordinator");
        // An incomplete line may be half an address.
        let (lines, _) = log.rsplit_once('\n')?;
        Some(lines.lines().find_map(|line| line.split_once("listening on "))?.1.to_owned())
    })?
    .ok_or_else(|| {
        let log = processes.log("coordinator");
        let no_space = if log.is_empty() { processes.no_space() } else { None };
        no_space.unwrap_or_else(|| Failure::new(format!("the coordinator does not listen:\n{}", end(&log))))
    })
}

/// Waits until `count` agents have registered; returns the number of devices that they offer.
pub(super) fn wait_for_nodes(
    processes: &mut Processes<'_>,
    signals: &mut Signals,
    limit: Duration,
    count: u32,
    client: &mut Coordinator,
) -> Result<usize> {
    let (mut up, mut offered) = (0, 0);
    let mut refused = None;
    wait_until(processes, signals, limit, |processes| {
        if let Some(why) = dead_node_line(processes) {
            // Later ranks would wait for the dead one, and not every mpirun ends them.
            refused = Some(Failure::new(format!("{why}\n{}", end(&processes.last_log()))));
            return Some(());
        }
        match client.describe_if_up() {
            Ok(view) => {
                up = view.as_ref().map_or(0, nodes_up);
                offered = view.iter().flat_map(|view| &view.nodes).map(|node| node.devices.len()).sum();
                (up == u64::from(count)).then_some(())
            }
            Err(failure) => {
                refused = Some(failure);
                Some(())
            }
        }
    })?;
    match refused {
        Some(failure) => Err(failure),
        None if up == u64::from(count) => Ok(offered),
        None => Err(Failure::new(format!(
            "only {up} of {count} agents have registered:\n{}{}",
            end(&processes.log("coordinator")),
            end(&processes.last_log())
        ))),
    }
}

/// Polls until `look` returns a value; returns `None` after `limit`. A part that ends meanwhile is an error, and so is
/// a signal.
fn wait_until<T>(
    processes: &mut Processes<'_>,
    signals: &mut Signals,
    limit: Duration,
    mut look: impl FnMut(&Processes<'_>) -> Option<T>,
) -> Result<Option<T>> {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if let Some(seen) = look(processes) {
            return Ok(Some(seen));
        }
        let pause = (begun.elapsed() / PAUSE_SHARE).clamp(PAUSES[0], PAUSES[1]);
        match signals.next(Some(Instant::now() + pause))? {
            Event::Ended(pid, status) => {
                if let Some(name) = processes.ended_part(pid) {
                    let wait = if name == AGENTS { WORD_MAX } else { Duration::ZERO };
                    let why = dead_node_line_by(processes, Instant::now() + wait);
                    let why = why.map_or_else(String::new, |why| format!(" {why}"));
                    let log = processes.log(&name);
                    return Err(Failure::new(format!("{name} ended at its start ({status:?}):{why}\n{}", end(&log))));
                }
            }
            Event::Signal { signal, .. } => return Err(Failure::interrupted(signal as i32)),
            Event::Orphaned => return Err(Failure::new("the launcher is gone")),
            Event::Timeout => {}
        }
    }
    Ok(None)
}

fn nodes_up(view: &ClusterView) -> u64 {
    let up = view.nodes.iter().filter(|node| node.state() == NodeState::Up);
    up.count() as u64
}

/// Returns the end of a log, which has the causes.
pub(super) fn end(log: &str) -> &str {
    let from = log.len().saturating_sub(LOG_SHOWN);
    log.get(from..).unwrap_or(log)
}
