//! The coordinator and the agents of a run over several nodes: one agent on each node, started by the site's launcher.

use super::cluster::{Certificates, end, start_coordinator, user_name, wait_for_nodes, world_name};
use super::fabric::{RunFacts, choose};
use super::parts::find_program;
use super::processes::{AGENTS, Processes};
use super::signals::Signals;
use super::site::Site;
use crate::client::Coordinator;
use crate::failure::{Failure, Result};
use accord_trust::name::ANY_NODE;
use accord_trust::{Role, Trust};
use accord_types::settings;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time limit for all agents to register. Launchers of large machines are slow.
const START_MAX: Duration = Duration::from_secs(120);
/// Settings of a single process, not for agents and ranks on other nodes.
const OWN: &[&str] = &["ACCORD_NODE", "ACCORD_COORDINATOR", "ACCORD_TLS", "ACCORD_TRANSPORT", "ACCORD_LISTEN"];

/// Lets the steps in which mpirun starts its daemons overlap, in a Slurm allocation. No effect elsewhere.
pub(super) const BESIDE: [(&str, &str); 1] = [("SLURM_OVERLAP", "1")];

/// Starts a coordinator here and an agent on each node, and waits until all have registered. Returns the program's
/// environment.
pub(super) fn start(
    processes: &mut Processes<'_>,
    signals: &mut Signals,
    site: &Site,
    libacc: &Path,
) -> Result<Vec<(&'static str, OsString)>> {
    let begin = Instant::now();
    let run = &processes.args.run;
    let launcher = site.starts_ranks_of_part();
    let known = RunFacts { nodes: site.count(), part: site.part(), launcher, is_local: false };
    let fabric = choose(run.fabric, &known).map_err(Failure::new)?;
    processes.say(format_args!("fabric: {fabric}"));
    processes.say(format_args!("{} nodes, by {}", site.count(), site.launcher()));

    let certificates = Certificates::new(&processes.args.dir)?;
    let own = certificates.issue("program", Role::Tenant(user_name()))?;
    let of_agents = certificates.issue("agents", Role::Agent(ANY_NODE.to_owned()))?;
    let address = start_coordinator(processes, signals, Site::own_address(run.address)?, 0, &certificates, None)?;
    let world = world_name();
    let mut agent: Vec<OsString> = vec![
        find_program("accord-node-agent")?.into(),
        "--coordinator".into(),
        address.clone().into(),
        "--listen".into(),
        "0.0.0.0:0".into(),
        // The world belongs to this user, even if that is root.
        "--users".into(),
        "root,0,*".into(),
        "--tls".into(),
        of_agents.into(),
        "--libacc".into(),
        libacc.into(),
        // The cluster ends with its agents, so they keep nothing.
        "--keep".into(),
        "off".into(),
    ];
    if fabric.mpi {
        agent.extend(["--fabric".into(), "mpi".into(), "--world".into(), OsString::from(&world)]);
    }
    let exported = settings_in_force();
    let exported: Vec<&str> = exported.iter().map(String::as_str).collect();
    let mut client = Coordinator::new(&address, Trust::read(&own)?)?;
    processes.start_part(
        AGENTS,
        None,
        &site.agents(&exported, &agent),
        &BESIDE.map(|(name, value)| (name, value.into())),
    )?;
    let offered = wait_for_nodes(processes, signals, START_MAX, site.count(), &mut client)?;
    if offered == 0 {
        return Err(Failure::new(format!("the nodes have no devices:\n{}", end(&processes.last_log()))));
    }
    let mut environment = vec![(settings::COORDINATOR.name, address.clone().into()), (settings::TLS.name, own.into())];
    if fabric.mpi {
        environment.push((settings::TRANSPORT.name, format!("mpi:{world}").into()));
    }
    processes.say(format_args!(
        "agents on {} nodes with {offered} devices are up after {} ms; coordinator at {address}",
        site.count(),
        begin.elapsed().as_millis()
    ));
    Ok(environment)
}

/// Returns the names of Accord's settings of this process that hold for all nodes.
pub(super) fn settings_in_force() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| name.starts_with("ACCORD_") && !OWN.contains(&name.as_str())).collect()
}
