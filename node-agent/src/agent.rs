//! Assembles the parts of an agent and runs it.

use crate::ask::LateTests;
use crate::config::{Config, Fabric, GpuLoad, Ipc, Measure};
use crate::control::{self, CONNECT_TIMEOUT, Identity, Joining, Standing, WorldIdentity};
use crate::executor_here::ExecutorsHere;
use crate::executor_process::wanted;
use crate::hosting::{Hosting, Processes};
use crate::inventory::{InventoryConfig, inventory};
use crate::measure::Measures;
use crate::metrics::{Registered, TABLE, certificate_expiry};
use crate::mpi_world::MpiWorld;
use crate::node::{AgentEnding, Quota};
use crate::process::Spawner;
use crate::saved_grants::{SavedGrants, default_folder};
use crate::session_limits::SiteLimits;
use crate::settings::Settings;
use crate::site_scripts::SiteScripts;
use crate::supervise::{Supervisor, since_boot};
use crate::topology::topology;
use crate::{accept, gpu_loads, gpus};
use accord_fabric::transport::{Acceptor, ListenAddress, Listener, PeerAddress};
use accord_gpu::cache_folder;
use accord_monitoring::Monitor;
use accord_proto::channel::Coordinator;
use accord_trust::access::check_node;
use accord_trust::{Trust, local};
use accord_types::incarnation::incarnation;
use accord_types::installed::libacc_places;
use accord_types::{Error, ErrorCode, Machine, Result, scarce, threads};
use nix::unistd::geteuid;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Returns the agent's listen address: the configured one, or one that the coordinator's machine and others on its
/// network can reach.
fn listen_address(config: &Config) -> Result<ListenAddress> {
    match (config.listen, local::path_of(&config.coordinator)) {
        (Some(address), _) => Ok(address),
        (None, Some(_)) => Ok(ListenAddress::of_this_machine()),
        (None, None) => {
            let remedy = "say by --listen at which address others reach this agent";
            let first = local::addresses(&config.coordinator).next().unwrap_or_default();
            ListenAddress::towards(&PeerAddress::new(first), "coordinator", remedy)
        }
    }
}

/// Runs an agent until it is stopped.
///
/// # Errors
/// Returns the failure and its remedy in one line.
pub fn run(config: &Config) -> Result<(), String> {
    let node_name = config.node.clone().unwrap_or_else(host_name);
    let trust = Arc::new(trust(config, &node_name).map_err(|error| error.to_string())?);
    if config.insecure_plain_tcp {
        tracing::warn!(
            "lanes of other machines are taken in clear where the coordinator allows it: --insecure-plain-tcp"
        );
    }
    let coordinator = Coordinator::new(&config.coordinator, trust.clone(), CONNECT_TIMEOUT)
        .telling(|error| tracing::warn!("the certificates stay as they were: {error}"));
    // Before anything that may fail, so that the world's other ranks learn of the failure.
    let joining = match config.fabric {
        Fabric::Tcp => None,
        Fabric::Mpi => Joining::begin(coordinator.clone(), node_name.clone(), config.world.clone()),
    };
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let topology = topology();
    // Agents of an MPI job serve only that job: no device is shared.
    let measures = config.measure == Measure::On && config.fabric == Fabric::Tcp;
    let gpus = gpus::list(&program, &node_name, &config.gpus, measures);
    let has_gpus = !gpus.is_empty();
    let visible = config.gpus.visible_to_others(&gpus);
    let devices = inventory(
        &node_name,
        gpus,
        &InventoryConfig { cpu_devices: config.cpu_devices, cpu_memory: config.cpu_memory },
        &topology,
    );
    let libacc = match &config.libacc {
        Some(path) => {
            Some(path.canonicalize().map_err(|error| format!("cannot find libacc at {}: {error}", path.display()))?)
        }
        None => {
            program.parent().and_then(|folder| libacc_places(folder).iter().find_map(|place| place.canonicalize().ok()))
        }
    };

    let listen = listen_address(config).map_err(|error| error.to_string())?;
    let listener = Listener::bind(listen).map_err(|error| {
        let remedy = scarce::remedy(&error).unwrap_or("choose another --listen");
        format!("cannot listen on {listen}: {error}; {remedy}")
    })?;
    let address = listener.address().map_err(|error| error.to_string())?;
    let acceptor = Acceptor::new(listener).map_err(|error| format!("cannot listen on {address}: {error}"))?;
    let world = match config.fabric {
        Fabric::Tcp => None,
        Fabric::Mpi => Some(MpiWorld::join(config, &program, has_gpus, visible.as_deref())?),
    };
    let hosting = match &world {
        Some(world) => Hosting::Here(ExecutorsHere::new(world.way_of_executors())),
        None => {
            let spawner = Spawner::new(program.clone()).map_err(|error| error.to_string())?;
            Hosting::Processes(Processes::new(spawner, &devices))
        }
    };
    let scripts = SiteScripts::new(config, &node_name, &devices, hosting.spawner())?;
    let settings = Settings {
        node_name: node_name.clone(),
        devices: devices.clone(),
        libacc,
        cache: config.cache.clone(),
        ipc: config.ipc == Ipc::On,
        users: config.users.clone(),
        plain_tcp: config.insecure_plain_tcp,
        measures: config.measure == Measure::On,
        quota: quota(config),
        limits: SiteLimits { memory: config.session_memory, processes: config.session_processes },
        suspend_memory: config.suspend_memory,
        has_scripts: scripts.is_some(),
    };
    let measures = Measures {
        program,
        spawner: hosting.spawner().cloned(),
        libacc: settings.libacc.clone(),
        devices: devices.clone(),
        visible,
        cache: cache_folder(config.cache.as_deref().map(Path::as_os_str)),
        wanted: world.as_ref().map_or_else(wanted, |world| Ok(world.way_of_executors()))?,
        plain_tcp: config.insecure_plain_tcp,
        late_tests: LateTests::default(),
    };
    let kernel_limits = hosting.kernel_limits();
    let enforced: Vec<&str> = kernel_limits.enforced.iter().map(|limit| limit.name()).collect();
    tracing::info!("limits of sessions that the kernel enforces: {enforced:?} {}", kernel_limits.why_not);
    let (asking, spawner) = (measures.program.clone(), hosting.spawner().cloned());
    let supervisor = Supervisor::new(settings, hosting, kept_grants(config, &node_name));
    let identity = Identity {
        coordinator,
        node_name: node_name.clone(),
        incarnation: incarnation(&boot_id(), u64::try_from(since_boot().as_millis()).unwrap_or(u64::MAX)),
        address: config.advertise.clone().unwrap_or_else(|| address.to_string()),
        devices,
        machine: Machine { hardware: topology.hardware, labels: config.labels.clone(), kernel_limits },
        standing: Standing::default(),
        measures: Arc::new(measures),
        scripts: scripts.map(Arc::new),
        world: WorldIdentity {
            name: if world.is_some() { config.world.clone() } else { String::new() },
            mpi: world.as_ref().map(MpiWorld::fabric),
            gpu_aware: world.as_ref().and_then(MpiWorld::gpu_aware),
        },
        plain_tcp: config.insecure_plain_tcp,
    };

    let port = supervisor.clone();
    let near = supervisor.clone();
    let no_thread = |error| format!("cannot start a thread: {error}; {}", scarce::THREADS);
    threads::spawn("accord-near", move || accept_near(&near)).map_err(no_thread)?;
    if config.gpu_load == GpuLoad::On {
        gpu_loads::watch(&asking, spawner.as_ref(), &identity.devices, &supervisor).map_err(no_thread)?;
    }
    threads::spawn("accord-accept", move || accept::accept(acceptor, &port)).map_err(no_thread)?;
    if let Some(world) = &world {
        world.serve(&supervisor, joining)?;
        world.await_turn()?;
        world.open_gateway()?;
    }
    let runtime = accord_proto::runtime::one_threaded().map_err(|error| format!("cannot start: {error}"))?;
    let ending = runtime.block_on(async {
        let monitored = match &config.metrics_listen {
            Some(address) => Some(monitor(identity.standing.registered.clone(), trust.clone())?.listen(address).await?),
            None => None,
        };
        let stop = accord_proto::stop::signals(config.stop_on_stdin_eof).map_err(|error| error.to_string())?;
        // The process that started this one reads the port from here. It may have closed the pipe.
        let _ = writeln!(std::io::stdout(), "accord-node-agent {node_name} listening on {address}");
        if let Some(address) = monitored {
            let _ = writeln!(std::io::stdout(), "accord-node-agent {node_name} shows metrics on {address}");
        }
        Ok::<_, String>(control::run(&identity, &supervisor, stop, config.drain_time).await)
    });
    supervisor.stop();
    if let Some(world) = &world {
        world.leave();
    }
    match ending? {
        AgentEnding::Stopped | AgentEnding::StoppedByCoordinator => Ok(()),
        AgentEnding::WorldLost(node) => {
            Err(format!("the agent of node {node} has died, and an MPI world ends with any of its nodes"))
        }
        AgentEnding::Refused(why) => {
            Err(format!("the coordinator at {} refuses node {node_name}: {why}", config.coordinator))
        }
    }
}

/// Returns the file of grants for the agent's next start. `None` for ranks of an MPI world, which end together with
/// their grants.
fn kept_grants(config: &Config, node: &str) -> Option<SavedGrants> {
    let folder = match config.keep.as_deref() {
        Some(folder) if folder == Path::new("off") => return None,
        Some(folder) => folder.to_owned(),
        None => default_folder(),
    };
    let kept =
        (config.fabric == Fabric::Tcp).then(|| SavedGrants::new(&folder, &boot_id(), &config.coordinator, node))?;
    let lost = |error: &std::io::Error| {
        tracing::warn!(
            "grants are not kept for this agent's next start in {}: {error}; name another folder by --keep",
            folder.display()
        );
    };
    kept.inspect_err(lost).ok()
}

/// Returns the quota of users. An agent that serves only its own user needs none.
fn quota(config: &Config) -> Quota {
    if config.fabric == Fabric::Mpi || !geteuid().is_root() {
        return Quota::of_one_user();
    }
    Quota::of_user(usize::from(config.user_sessions))
}

/// Returns the credentials by which the coordinator identifies this agent.
fn trust(config: &Config, node: &str) -> Result<Trust> {
    if local::path_of(&config.coordinator).is_some() {
        return Ok(Trust::of_system());
    }
    let folder = config.tls.as_ref().ok_or_else(|| {
        Error::new(
            ErrorCode::InvalidArgument,
            format!("the coordinator at {} asks for certificates", config.coordinator),
        )
        .remedy(format!("name a folder with --tls; accord pki issue AUTHORITY agent {node} makes one"))
    })?;
    let trust = Trust::read(folder)?;
    check_node(std::slice::from_ref(&trust.current(|_| ()).name()?.role), node)?;
    Ok(trust)
}

/// Accepts shared-memory connections from processes of this machine, once the node has its number.
fn accept_near(supervisor: &Arc<Supervisor>) {
    let Some(endpoint) = supervisor.await_node() else { return };
    match Listener::bind_local(&endpoint).and_then(Acceptor::new) {
        Ok(acceptor) => accept::accept(acceptor, supervisor),
        Err(error) => tracing::warn!("programs of this machine connect by TCP: cannot listen for them: {error}"),
    }
}

fn monitor(registered: Registered, trust: Arc<Trust>) -> Result<Monitor, String> {
    let coordinator = "the coordinator does not have this node in at this time; running sessions go on";
    let ready = move || registered.get().then_some(()).ok_or_else(|| coordinator.to_owned());
    Ok(Monitor::install(&TABLE, ready)?.refreshed_by(move || certificate_expiry(&trust)))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the kernel's identifier of this boot; empty if unreadable, so that all boots count as the same.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn address(coordinator: &str) -> Result<ListenAddress> {
        listen_address(&Config::parse_from(["accord-node-agent", "--coordinator", coordinator]))
    }

    #[test]
    fn without_listen_an_agent_is_at_the_loopback_only_for_a_coordinator_there() {
        assert_eq!(address("127.0.0.1:7447").unwrap().to_string(), "127.0.0.1:0");
        assert_eq!(address("unix:/run/accord.sock").unwrap().to_string(), "127.0.0.1:0");
        // An address for documentation, which no machine has. Without a route to it the agent does not start.
        match address("192.0.2.1:7447") {
            Ok(own) => {
                assert!(!own.is_loopback(), "{own}");
                // The coordinator may be at this machine's own address, too.
                let own = own.to_string();
                assert_eq!(address(&own.replace(":0", ":7447")).unwrap().to_string(), own);
            }
            Err(error) => println!("skipped: this machine has no network: {error}"),
        }
    }
}
