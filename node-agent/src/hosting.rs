//! How an agent runs executors: each in a process of its own, or all in the agent's process. A rank of an MPI world
//! does the latter, so that MPI and the devices' memory are in one process.

use crate::abandoned::end_abandoned;
use crate::cgroup::AgentCgroup;
use crate::cgroup_controllers::{Controller, Controllers};
use crate::device_memory::Account;
use crate::executor_here::{ExecutorHere, ExecutorsHere};
use crate::executor_output::ExecutorOutput;
use crate::executor_reports::ExecutorReports;
use crate::gpu_files::GpuFiles;
use crate::memory_service::MemoryService;
use crate::process::{ExecutorProcess, ServiceLanes, Spawner};
use crate::remains::Remains;
use crate::session_limits::SessionLimits;
use crate::session_logs::SessionLogs;
use crate::turns::ProcessTurns;
use crate::users::RunsAs;
use accord_device::out_of_memory::{self, MORE_MEMORY, OutOfMemory};
use accord_executor::UseSink;
use accord_fabric::ending::ExecutorEnding;
use accord_fabric::handshake::Introduced;
use accord_fabric::transport::SharedLane;
use accord_proto::v1::ExecutorStart;
use accord_types::texts::{WORDS_MAX, cut};
use accord_types::{DeviceInfo, Error, ErrorCode, KernelLimit, KernelLimits, Result, SessionId};
use nix::unistd::geteuid;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

const SIGKILL: i32 = 9;
/// The remedy for an executor that was out of memory. Most of its memory is its devices'.
const TOO_LITTLE_MEMORY: &str = "use smaller data, or have the node's agent offer less (--cpu-memory)";

/// What the kernel has done to a session with too many processes, after their number.
const OUT_OF_PROCESSES: &str =
    "processes and threads are the session's limit, beyond which the kernel has refused it some";
const TOO_FEW_PROCESSES: &str = "start fewer, or have the agent allow more (--session-processes)";

/// The way in which an agent runs executors.
pub(crate) enum Hosting {
    /// One process each: a fault affects only its own tenant.
    Processes(Processes),
    /// Threads of the agent, for one job of one user.
    Here(ExecutorsHere),
}

impl Hosting {
    /// Returns the spawner of the agent's processes, if executors are processes.
    pub(crate) fn spawner(&self) -> Option<&Spawner> {
        match self {
            Self::Processes(processes) => Some(&processes.spawner),
            Self::Here(_) => None,
        }
    }

    /// Returns the limits of sessions that the kernel enforces, whatever their regions do.
    pub(crate) fn kernel_limits(&self) -> KernelLimits {
        let none = |why_not: &str| KernelLimits { why_not: cut(why_not, WORDS_MAX).to_owned(), enforced: [].into() };
        let Self::Processes(processes) = self else {
            return none("executors of an MPI job are in their agent's process");
        };
        let Some(cgroup) = &processes.cgroup else {
            return none("the agent can make no control groups of version 2");
        };
        if !geteuid().is_root() {
            return none("the agent is not root's: a region may change the limits of its own group");
        }
        limits_by(cgroup.controllers(), &processes.gpu_files)
    }

    /// Ends the starting of executors.
    pub(crate) fn close(&self) {
        if let Self::Processes(Processes { cgroup: Some(cgroup), .. }) = self {
            cgroup.remove();
        }
    }

    /// Whether the kernel divides the processors of a device among the sessions by their weights.
    pub(crate) fn divides_cores(&self) -> bool {
        let Self::Processes(processes) = self else { return false };
        let controllers = processes.cgroup.as_ref().map(AgentCgroup::controllers);
        controllers.is_some_and(|controllers| controllers.is_ok_and(|all| all.has(Controller::CpuTime)))
    }

    /// Starts an executor with `shares` of devices, whose use of them goes to `report`, and its lines to `logs`. The returned `HostEnd` is for waiting for its end.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the executor can't be started, and the errors of [`ExecutorsHere::start`].
    pub(crate) fn start(
        &self,
        (start, limits): (ExecutorStart, SessionLimits),
        account: RunsAs,
        shares: SessionShares,
        report: UseSink,
        logs: &Arc<SessionLogs>,
    ) -> Result<(Host, HostEnd)> {
        match self {
            Self::Processes(processes) => processes.start((start, limits), &account, shares, report, logs),
            Self::Here(executors) => {
                let (here, thread) = executors.start(start, &account, shares.memory, report)?;
                Ok((Host::Here(here), HostEnd::Here(thread)))
            }
        }
    }
}

/// Returns the limits that controllers and filters of device files enforce.
fn limits_by(controllers: Result<&Controllers, &str>, gpu_files: &Result<GpuFiles, String>) -> KernelLimits {
    let has = |controller| controllers.is_ok_and(|controllers| controllers.has(controller));
    let missing: Vec<&str> = Controller::ALL.into_iter().filter(|one| !has(*one)).map(Controller::name).collect();
    let is_enforced = |limit: &KernelLimit| match limit {
        KernelLimit::Memory => has(Controller::Memory),
        KernelLimit::Processes => has(Controller::Processes),
        KernelLimit::Cores => has(Controller::CpuTime) && has(Controller::CpuSet),
        KernelLimit::DeviceFiles => gpu_files.is_ok(),
    };
    let no_controllers = match (controllers, &missing[..]) {
        (Err(why), _) => Some(why.to_owned()),
        (Ok(_), []) => None,
        (Ok(_), missing) => Some(format!("the agent's control group has no controller {}", missing.join(", "))),
    };
    let why_not: Vec<String> = no_controllers.into_iter().chain(gpu_files.as_ref().err().cloned()).collect();
    let why_not = cut(&why_not.join("; "), WORDS_MAX).to_owned();
    KernelLimits { enforced: KernelLimit::ALL.into_iter().filter(is_enforced).collect(), why_not }
}

/// Returns the device files of the offered GPUs, if sessions' groups can be denied them.
fn gpu_files(cgroup: Option<&AgentCgroup>, offered: &[DeviceInfo]) -> Result<GpuFiles, String> {
    let files = GpuFiles::find(Path::new("/proc"), offered)?;
    let Some(cgroup) = cgroup.filter(|_| !files.is_empty()) else { return Ok(files) };
    let tried = cgroup.try_filter();
    tried.map(|()| files).map_err(|why| format!("sessions' control groups can't be denied device files: {why}"))
}

/// Starts executors as processes.
pub(crate) struct Processes {
    spawner: Spawner,
    /// `None` if the system does not let this agent create control groups.
    cgroup: Option<AgentCgroup>,
    /// The device files of the offered GPUs, or the reason why sessions are not kept off them.
    gpu_files: Result<GpuFiles, String>,
    started: AtomicU64,
}

/// A session's shares of devices that others may use, too.
pub(crate) struct SessionShares {
    /// Counts its memory of CPU devices, if it has some.
    pub(crate) memory: Option<Account>,
    /// Its turns, and its executor's end of the lane for them.
    pub(crate) turns: Option<(ProcessTurns, SharedLane)>,
}

impl Processes {
    pub(crate) fn new(spawner: Spawner, offered: &[DeviceInfo]) -> Self {
        end_abandoned();
        let cgroup = AgentCgroup::make();
        let gpu_files = gpu_files(cgroup.as_ref(), offered);
        let way = if cgroup.is_some() { "by a control group of each session" } else { "one by one" };
        tracing::info!("what regions fork is ended with their session, {way}");
        Self { spawner, cgroup, gpu_files, started: AtomicU64::new(0) }
    }

    fn start(
        &self,
        (mut start, limits): (ExecutorStart, SessionLimits),
        account: &RunsAs,
        SessionShares { memory, turns }: SessionShares,
        report: UseSink,
        logs: &Arc<SessionLogs>,
    ) -> Result<(Host, HostEnd)> {
        let (memory, for_memory) = memory.map(MemoryService::start).transpose()?.unzip();
        let (turns, for_turns) = turns.unzip();
        start.turns = for_turns.is_some();
        let (out_of_memory, session) = (OutOfMemory::watch(), SessionId(start.session));
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let leased = start.devices.iter().map(|device| device.uuid.as_str());
        let denied = self.gpu_files.as_ref().map(|files| files.denied(leased)).unwrap_or_default();
        let made = self.cgroup.as_ref().map(|cgroup| cgroup.of_executor(number, &limits, &denied)).transpose();
        let failed = |error: &_| {
            tracing::warn!("session {session} has no control group: {error}");
            logs.note(session, &format!("the session has no control group: {error}"));
        };
        let cgroup = match made.inspect_err(failed) {
            // An agent of root has registered the limits as enforced.
            Err(error) if geteuid().is_root() => {
                let cause = format!("the session's limits can't be enforced: {error}");
                return Err(Error::new(ErrorCode::System, cause).remedy("see the agent's messages"));
            }
            made => made.ok().flatten(),
        };
        let started = self.spawner.start(
            &start,
            account,
            cgroup.as_ref(),
            ServiceLanes { memory: for_memory, turns: for_turns },
        )?;
        let end = ProcessEnd {
            handle: started.handle,
            output: ExecutorOutput::new(
                started.output,
                session,
                ExecutorReports::new(started.reports, report),
                logs.clone(),
            ),
            out_of_memory,
            limits,
            logs: logs.clone(),
            remains: Remains { session, keeper: started.keeper, spawner: self.spawner.clone(), cgroup, memory, turns },
        };
        Ok((Host::Process(Arc::new(started.process)), HostEnd::Process(Box::new(end))))
    }
}

/// A running executor.
#[derive(Clone, Debug)]
pub(crate) enum Host {
    /// A process.
    Process(Arc<ExecutorProcess>),
    /// A part of this process.
    Here(ExecutorHere),
}

impl Host {
    /// Hands a connection to the executor.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the executor has ended or is stuck.
    pub(crate) fn send(&self, lane: SharedLane, client: Introduced) -> Result<()> {
        match self {
            Self::Process(process) => process.send(&*lane, &client),
            Self::Here(here) => here.send(lane, client),
        }
    }

    /// Asks the executor to end, without waiting. A process reports `ending` to its program; an executor in this
    /// process does not, because the end of an MPI world's agent ends the world.
    pub(crate) fn end(&self, ending: Option<ExecutorEnding>) {
        match self {
            Self::Process(process) => process.end(ending),
            Self::Here(here) => here.end(),
        }
    }

    /// Returns the number of the process, if it is one.
    pub(crate) fn process_id(&self) -> Option<u32> {
        match self {
            Self::Process(process) => Some(process.id()),
            Self::Here(_) => None,
        }
    }

    /// Describes the host for messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Process(process) => format!("executor process {}", process.id()),
            Self::Here(_) => "its executor in this process".to_owned(),
        }
    }
}

/// Waits for the end of an executor.
pub(crate) enum HostEnd {
    Process(Box<ProcessEnd>),
    Here(JoinHandle<ExitCode>),
}

/// The end of an executor that is a process.
pub(crate) struct ProcessEnd {
    /// Readable once the process has ended.
    handle: OwnedFd,
    output: ExecutorOutput,
    out_of_memory: OutOfMemory,
    limits: SessionLimits,
    logs: Arc<SessionLogs>,
    remains: Remains,
}

impl ProcessEnd {
    /// Waits as [`HostEnd::wait`].
    fn wait(self) -> (String, Option<Remains>) {
        let Self { handle, output, out_of_memory, limits, logs, mut remains } = self;
        output.log_until_end_of(&handle);
        if remains.was_out_of_processes() {
            let refused = format!("{} {}; {TOO_FEW_PROCESSES}", limits.processes, OUT_OF_PROCESSES);
            tracing::warn!("session {}: {refused}", remains.session);
            logs.note(remains.session, &refused);
        }
        let why = match remains.status() {
            Ok(status) if status.success() => String::new(),
            Ok(status) if status.signal() == Some(SIGKILL) && remains.was_out_of_memory() => {
                let mib = limits.memory >> 20;
                format!(
                    "{status}, as the session's processes had more than the {mib} MiB of host memory that they may have; {MORE_MEMORY}"
                )
            }
            Ok(status) if remains.was_out_of_processes() => {
                format!("{status}, and {} {OUT_OF_PROCESSES}; {TOO_FEW_PROCESSES}", limits.processes)
            }
            Ok(status) if status.signal() == Some(SIGKILL) && out_of_memory.has_killed() => {
                format!("{status}, {}; {TOO_LITTLE_MEMORY}", out_of_memory::CAUSE)
            }
            // The status displays as "signal: 9 (SIGKILL)" or "exit status: 1".
            Ok(status) => status.to_string(),
            Err(_) => "the process that keeps it was killed".to_owned(),
        };
        (why, remains.end())
    }
}

impl HostEnd {
    /// Waits for the executor's end, and ends the session's other processes. Returns the reason, empty for an orderly
    /// end, and the processes that the kernel has not ended.
    pub(crate) fn wait(self) -> (String, Option<Remains>) {
        let why = match self {
            Self::Process(end) => return end.wait(),
            Self::Here(thread) => match thread.join() {
                Ok(ExitCode::SUCCESS) => String::new(),
                Ok(_) => "it could not begin".to_owned(),
                Err(_) => "it has panicked; the agent's output says why".to_owned(),
            },
        };
        (why, None)
    }
}
