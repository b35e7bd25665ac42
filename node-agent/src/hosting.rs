//! How an agent has executors: each in a process of its own, or, as a rank of an MPI job, all in its own process, so that MPI and the
//! devices' memory are in one.

use crate::executor_here::{ExecutorHere, ExecutorsHere};
use crate::process::{ExecutorProcess, Spawner};
use crate::users::RunsAs;
use accord_device::out_of_memory::{self, OutOfMemory};
use accord_fabric::handshake::Introduced;
use accord_fabric::transport::SharedLane;
use accord_proto::v1::ExecutorStart;
use accord_types::Result;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode};
use std::sync::Arc;
use std::thread::JoinHandle;

const SIGKILL: i32 = 9;
/// What to do where an executor has had more memory than there was. Most of it is its devices'.
const TOO_LITTLE_MEMORY: &str = "use smaller data, or have the node's agent offer less (--cpu-memory)";

/// See the module.
pub(crate) enum Hosting {
    /// A tenant's fault is that tenant's alone.
    Processes(Spawner),
    /// One job of one user.
    Here(ExecutorsHere),
}

impl Hosting {
    /// Starts an executor; its end is for whoever waits for it.
    ///
    /// # Errors
    /// `acc_error_system` if it can't be started; those of [`ExecutorsHere::start`].
    pub(crate) fn start(&self, start: ExecutorStart, account: RunsAs) -> Result<(Host, HostEnd)> {
        match self {
            Self::Processes(spawner) => {
                let out_of_memory = OutOfMemory::watch();
                let (process, child) = spawner.start(&start, account)?;
                Ok((Host::Process(Arc::new(process)), HostEnd::Process(child, out_of_memory)))
            }
            Self::Here(executors) => {
                let (here, thread) = executors.start(start, &account)?;
                Ok((Host::Here(here), HostEnd::Here(thread)))
            }
        }
    }
}

/// A running executor.
#[derive(Clone, Debug)]
pub(crate) enum Host {
    /// It is a process.
    Process(Arc<ExecutorProcess>),
    /// It is a part of this one.
    Here(ExecutorHere),
}

impl Host {
    /// Hands it a connection.
    ///
    /// # Errors
    /// `acc_error_system` if it is gone or stuck.
    pub(crate) fn send(&self, lane: SharedLane, client: Introduced) -> Result<()> {
        match self {
            Self::Process(process) => process.send(&*lane, &client),
            Self::Here(here) => here.send(lane, client),
        }
    }

    /// Makes it end. Returns at once.
    pub(crate) fn end(&self) {
        match self {
            Self::Process(process) => process.end(),
            Self::Here(here) => here.end(),
        }
    }

    /// For messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Process(process) => format!("executor process {}", process.id()),
            Self::Here(_) => "its executor in this process".to_owned(),
        }
    }
}

/// Where the end of an executor shows.
pub(crate) enum HostEnd {
    Process(Child, OutOfMemory),
    Here(JoinHandle<ExitCode>),
}

impl HostEnd {
    /// Waits for the end; why it came, empty if it was orderly.
    pub(crate) fn wait(self) -> String {
        match self {
            Self::Process(mut child, out_of_memory) => match child.wait() {
                Ok(status) if status.success() => String::new(),
                Ok(status) if status.signal() == Some(SIGKILL) && out_of_memory.has_killed() => {
                    format!("{status}, {}; {TOO_LITTLE_MEMORY}", out_of_memory::CAUSE)
                }
                // "signal: 9 (SIGKILL)", "exit status: 1"
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            Self::Here(thread) => match thread.join() {
                Ok(ExitCode::SUCCESS) => String::new(),
                Ok(_) => "it could not begin".to_owned(),
                Err(_) => "it has panicked; the agent's output says why".to_owned(),
            },
        }
    }
}
