//! An agent that is a rank of an MPI world. It accepts lanes from the world's other agents, and is the gateway to them
//! for its machine's processes.

use crate::accept_of_world::accept_of_world;
use crate::config::Config;
use crate::control::Joining;
use crate::cores;
use crate::mpi_native;
use crate::supervise::Supervisor;
use accord_fabric::route::{GatewayName, TransportChoice};
use accord_fabric::transport::gateway::Gateway;
use accord_fabric::transport::mpi::{self, MpiFabric, MpiObject};
use accord_types::settings::MPI;
use accord_types::{GpuAware, scarce, threads};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The object linked with MPI.
const OBJECT: &str = "libaccord_mpi.so";
/// How long an agent waits for the previous rank to register: the coordinator numbers nodes in the order of
/// registration.
const TURN_MAX: Duration = Duration::from_secs(20);
/// How long agents of an earlier world with the same name may take to end.
const GATEWAY_MAX: Duration = Duration::from_secs(5);
const GATEWAY_PAUSE: Duration = Duration::from_millis(50);

/// The first argument that makes this program print which MPI is installed, and exit.
pub const ARGUMENT: &str = "mpi";

/// Prints three lines: the MPI that the object was built for, the installed one, and whether they match.
pub fn main() -> ExitCode {
    let named = MPI.find(|name| std::env::var(name).ok()).map(|(_, path)| PathBuf::from(path));
    let path =
        named.map_or_else(|| std::env::current_exe().map_err(|error| error.to_string()).and_then(|own| find(&own)), Ok);
    match path.and_then(|path| MpiObject::load(&path).map_err(|error| format!("{}: {error}", path.display()))) {
        Ok(object) => {
            let news = object.news();
            let here = news.here.lines().next().unwrap_or_default();
            let _ = writeln!(io::stdout(), "{}\n{here}\n{}", news.built_for, news.fits());
            ExitCode::SUCCESS
        }
        Err(why) => {
            let _ = writeln!(io::stdout(), "{why}");
            ExitCode::FAILURE
        }
    }
}

/// The agent's part of an MPI world.
pub(crate) struct MpiWorld {
    fabric: Arc<MpiFabric>,
    /// The gateway's name; another agent of the machine may serve it.
    name: GatewayName,
    /// `None` without GPUs.
    gpu_aware: Option<GpuAware>,
    leaving: Arc<AtomicBool>,
}

impl MpiWorld {
    /// Joins the world that the launcher started this process in; `program` is this program. With `gpus`, a child
    /// process tests whether MPI is GPU-aware, on the GPUs in `visible`, or all visible ones.
    pub(crate) fn join(config: &Config, program: &Path, gpus: bool, visible: Option<&str>) -> Result<Self, String> {
        let path = config.mpi.clone().map_or_else(|| find(program), Ok)?;
        // MPI starts while the test runs.
        let reaches_gpus = gpus.then(|| {
            let (setting, program, path) = (config.mpi_gpus, program.to_owned(), path.clone());
            let visible = visible.map(str::to_owned);
            threads::spawn("accord-mpi-gpus", move || mpi_native::probe(setting, &program, &path, visible.as_deref()))
        });
        let remedy = "use --fabric tcp, or build the MPI part for the MPI that is here (make mpi)";
        let object = MpiObject::load(&path)
            .map_err(|error| format!("cannot use MPI ({}): {error}; {remedy}", path.display()))?;
        let news = object.news();
        if !news.fits() {
            tracing::warn!(
                "the MPI part was built for {}, and here is {}: build it again (make mpi)",
                news.built_for,
                news.here
            );
        }
        if let Some(warning) = cores::given().and_then(cores::too_few) {
            tracing::warn!("{warning}");
        }
        let fabric = MpiFabric::start(move || object.join()).map_err(|error| format!("{error}; {remedy}"))?;
        let gpu_aware = reaches_gpus.map(|looks| match looks.map(JoinHandle::join) {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => GpuAware::No("the thread that asked has panicked".to_owned()),
            Err(error) => GpuAware::No(error.to_string()),
        });
        const STAGED: &str = "GPUs' bytes go through the host's memory";
        match &gpu_aware {
            Some(GpuAware::Yes) => {
                tracing::info!("MPI copies from and to GPUs' own memory");
                fabric.take_native();
            }
            Some(GpuAware::No(why)) => tracing::info!("MPI does not get GPUs' memory: {STAGED}: {why}"),
            Some(GpuAware::Untried) => tracing::info!("MPI is not to get GPUs' memory (--mpi-gpus off): {STAGED}"),
            None => {}
        }
        let name = config.world.parse().map_err(|why| format!("--world {}: {why}", config.world))?;
        let fabric = Arc::new(fabric);
        mpi::belong_to(&fabric);
        Ok(Self { fabric, name, gpu_aware, leaving: Arc::default() })
    }

    /// Returns whether the world's MPI is GPU-aware; `None` without GPUs.
    pub(crate) fn gpu_aware(&self) -> Option<GpuAware> {
        self.gpu_aware.clone()
    }

    /// Returns the fabric between the world's ranks.
    pub(crate) fn fabric(&self) -> Arc<MpiFabric> {
        self.fabric.clone()
    }

    /// Returns the transport of this agent's executors: this process is a rank itself.
    pub(crate) fn way_of_executors(&self) -> TransportChoice {
        TransportChoice::Mpi(self.name)
    }

    /// Serves the gateway of this machine's processes, unless another agent of the machine does. Ranks open it one
    /// after the other ([`MpiWorld::await_turn`]), so the machine's first rank does. A gateway that exists before rank
    /// 0 opens one belongs to another world.
    pub(crate) fn open_gateway(&self) -> Result<(), String> {
        let (is_first, begun) = (self.fabric.rank() == 0, Instant::now());
        loop {
            let error = match Gateway::bind(&self.name) {
                Ok(gateway) => {
                    let fabric = self.fabric.clone();
                    return start("accord-gateways", move || gateway.serve(&fabric, no_way));
                }
                Err(error) => error,
            };
            if error.kind() != ErrorKind::AddrInUse {
                return Err(format!("cannot be the gateway {}: {error}; choose another --world", self.name));
            }
            if !is_first {
                return Ok(());
            }
            if begun.elapsed() >= GATEWAY_MAX {
                let name = self.name;
                return Err(format!("another world {name} runs on this machine; end it, or choose another --world"));
            }
            std::thread::sleep(GATEWAY_PAUSE);
        }
    }

    /// Accepts lanes from other agents. `joining` completes when all ranks are registered.
    pub(crate) fn serve(&self, supervisor: &Arc<Supervisor>, joining: Option<Joining>) -> Result<(), String> {
        let (fabric, lanes_to) = (self.fabric.clone(), supervisor.clone());
        let leaving = self.leaving.clone();
        start("accord-accept", move || {
            let why = accept_of_world(&fabric, &lanes_to);
            if !leaving.load(Ordering::Acquire) {
                // No rank can be reached any more, and a failed world can't be joined again.
                let _ = writeln!(io::stderr(), "accord-node-agent: {why}");
                std::process::exit(1);
            }
        })?;
        let (fabric, supervisor) = (self.fabric.clone(), supervisor.clone());
        start("accord-announce", move || {
            if let Some(endpoint) = supervisor.await_node() {
                fabric.announce(endpoint.node);
            }
            fabric.await_ranks();
            if let Some(joining) = joining {
                joining.complete();
            }
        })
    }

    /// Waits until the rank before this one has registered.
    pub(crate) fn await_turn(&self) -> Result<(), String> {
        let Some(before) = self.fabric.rank().checked_sub(1) else { return Ok(()) };
        if self.fabric.await_rank(before, TURN_MAX) {
            return Ok(());
        }
        Err(format!("the agent of rank {before} has not registered in {} s", TURN_MAX.as_secs()))
    }

    /// Leaves the world, as far as the other agents permit.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
        self.fabric.stop();
    }
}

/// Logs that a process of this machine could not be connected to another node; that process sees only the end of its
/// connection.
fn no_way(error: &io::Error) {
    match scarce::remedy_of_words(&error.to_string()) {
        Some(remedy) => tracing::warn!("the gateway has no way for a process of this machine: {error}; {remedy}"),
        None => tracing::info!("the gateway has no way for a process of this machine: {error}"),
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    threads::spawn(name, work).map(drop).map_err(|error| format!("cannot start a thread: {error}; {}", scarce::THREADS))
}

fn find(program: &Path) -> Result<PathBuf, String> {
    let here = program.parent().unwrap_or(Path::new("/"));
    let places = [here.join(OBJECT), here.join("../lib/accord").join(OBJECT)];
    places.iter().find(|place| place.is_file()).cloned().ok_or_else(|| {
        format!(
            "no {OBJECT} beside {} or in ../lib/accord; build it (make mpi), name it (--mpi), or use --fabric tcp",
            program.display()
        )
    })
}
