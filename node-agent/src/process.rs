//! The agent's child processes, in particular executors.

use crate::cgroup::SessionCgroup;
use crate::executor_process::send_start;
use crate::keeper;
use crate::memory_service::send_service;
use crate::users::RunsAs;
use accord_device::descendants::{self, Process};
use accord_fabric::ending::ExecutorEnding;
use accord_fabric::handshake::{Introduced, Purpose};
use accord_fabric::transport::{Handover, Lane, SharedLane};
use accord_proto::v1::ExecutorStart;
use accord_types::turn_lock::TurnLock;
use accord_types::{Error, ErrorCode, Result, SessionId, sandbox, scarce, threads};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getpid, pidfd_open, pidfd_send_signal, set_child_subreaper};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The time in which an executor may end by itself before it is killed.
pub(crate) const END_GRACE: Duration = Duration::from_secs(1);
/// The time limit of waits for killed processes. A process that hangs inside the kernel may take longer.
pub(crate) const ORPHANS_END_MAX: Duration = Duration::from_secs(5);
/// The time limit of a keeper's start of its executor. The keeper waits for no other process.
const KEEPER_START_MAX: Duration = Duration::from_secs(10);
/// The time limit of a message to an executor. Its reader only hands connections on.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts the agent's child processes, all on one thread. So that thread knows which children the agent did not start:
/// those that killed keepers have left, and processes that measure. Children get a signal when that thread ends, so it
/// lives as long as the agent.
#[derive(Clone)]
pub(crate) struct Spawner {
    requests: mpsc::Sender<Request>,
    program: PathBuf,
}

enum Request {
    Start { command: Box<Command>, reply: mpsc::Sender<io::Result<(Child, OwnedFd)>> },
    Orphans { reply: mpsc::Sender<Vec<Process>> },
}

/// The executor's ends of lanes to the agent's services.
#[derive(Default)]
pub(crate) struct ServiceLanes {
    /// Its account of device memory.
    pub(crate) memory: Option<SharedLane>,
    /// Its turns on devices.
    pub(crate) turns: Option<SharedLane>,
}

/// A new executor process.
pub(crate) struct Started {
    pub(crate) process: ExecutorProcess,
    pub(crate) keeper: KeeperProcess,
    /// Readable once the executor has ended.
    pub(crate) handle: OwnedFd,
    /// The executor's standard error.
    pub(crate) output: OwnedFd,
    /// The socket of the executor's reports.
    pub(crate) reports: Handover,
}

/// The executor's parent, as the agent sees it.
#[derive(Debug)]
pub(crate) struct KeeperProcess {
    child: Child,
    /// Readable once the keeper has ended.
    handle: OwnedFd,
    words: ChildStdout,
}

impl Spawner {
    /// Starts the thread that starts child processes; `program` is the keepers' program. Makes this process the parent
    /// of orphans.
    ///
    /// # Errors
    /// Returns `acc_error_system` if there are no more threads.
    pub(crate) fn new(program: PathBuf) -> Result<Self> {
        if let Err(error) = set_child_subreaper(Some(getpid())) {
            tracing::warn!("what regions fork may stay when their session has ended: {error}");
        }
        let (requests, queue) = mpsc::channel::<Request>();
        let serve = move || {
            let mut own = Vec::new();
            for request in queue {
                // The caller waits for the answer.
                match request {
                    Request::Start { mut command, reply } => {
                        let started = start(&mut command).map(|(child, handle, process)| {
                            own.push(process);
                            (child, handle)
                        });
                        drop(reply.send(started));
                    }
                    Request::Orphans { reply } => drop(reply.send(orphans(&mut own))),
                }
            }
        };
        threads::spawn("accord-spawn", serve)
            .map_err(|error| system(format!("cannot start a thread: {error}")).remedy(scarce::THREADS))?;
        Ok(Self { requests, program })
    }

    /// Starts a process. Returns the child for waiting, and a descriptor that is readable at its end.
    ///
    /// # Errors
    /// Returns the system's error.
    pub(crate) fn spawn(&self, command: Command) -> io::Result<(Child, OwnedFd)> {
        let (reply, answer) = mpsc::channel();
        let gone = || io::Error::other("the thread that starts processes is gone");
        let command = Box::new(command);
        self.requests.send(Request::Start { command, reply }).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }

    /// Ends orphaned descendants of this process's children. Returns whether none is left, after at most
    /// [`ORPHANS_END_MAX`].
    pub(crate) fn end_orphans(&self) -> bool {
        descendants::end_all(&mut || self.orphans(), ORPHANS_END_MAX)
    }

    /// Returns the children of this process that it has not started itself.
    fn orphans(&self) -> Vec<Process> {
        let (reply, answer) = mpsc::channel();
        let asked = self.requests.send(Request::Orphans { reply });
        asked.ok().and_then(|()| answer.recv().ok()).unwrap_or_default()
    }

    /// Starts an executor, in `cgroup` if there is one.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the process can't be started.
    pub(crate) fn start(
        &self,
        start: &ExecutorStart,
        account: &RunsAs,
        cgroup: Option<&SessionCgroup>,
        lanes: ServiceLanes,
    ) -> Result<Started> {
        let failed = |error: io::Error| {
            system(format!("cannot start an executor: {error}"))
                .remedy_if(sandbox::remedy(&error))
                .remedy("raise the limits on processes and open files (ulimit -u, ulimit -n)")
        };
        let (control, theirs) = Handover::pair().map_err(|error| failed(sandbox::named("socketpair", error)))?;
        control.limit(Some(CONTROL_TIMEOUT)).map_err(failed)?;
        let (output, says) = io::pipe().map_err(failed)?;
        let mut command = keeper::command(&self.program, account);
        // The executor gets nothing of the agent's own, because regions can make it write anything.
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(says);
        let (mut child, handle) = self.spawn(command).map_err(failed)?;
        let words = child.stdout.take().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        let mut keeper = KeeperProcess { child, handle, words };
        let begun = keeper.executor().and_then(|(id, handle)| {
            // The executor waits for its start message.
            if let Some(Err(error)) = cgroup.map(|cgroup| cgroup.add(id)) {
                tracing::warn!("session {} is in no control group: {error}", start.session);
                // An agent of root has registered the limits as enforced.
                if geteuid().is_root() {
                    return Err(error);
                }
            }
            send_start(&control, &ExecutorStart { keeper_pid: keeper.child.id(), ..start.clone() })?;
            let of_service = [(Purpose::Memory, &lanes.memory), (Purpose::Turns, &lanes.turns)];
            for (purpose, lane) in of_service {
                if let Some(lane) = lane {
                    send_service(&control, &**lane, purpose, SessionId(start.session))?;
                }
            }
            Ok((id, handle.try_clone()?, handle, control.try_clone()?))
        });
        match begun {
            Ok((id, process, handle, reports)) => {
                let process = ExecutorProcess { control, turn: TurnLock::default(), process, id };
                Ok(Started { process, keeper, handle, output: output.into(), reports })
            }
            Err(error) => {
                // The executor, which has done nothing yet, ends with its keeper.
                let _ = keeper.child.kill();
                let _ = keeper.child.wait();
                Err(failed(error))
            }
        }
    }
}

impl KeeperProcess {
    /// Returns process number and descriptor of the executor, which was just started.
    fn executor(&mut self) -> io::Result<(u32, OwnedFd)> {
        let id = keeper::read_word(&mut self.words, Some(KEEPER_START_MAX))?;
        let pid = Pid::from_raw(id).ok_or(io::ErrorKind::InvalidData)?;
        // The number is the executor's while the keeper lives. Afterwards both have ended.
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) if !has_ended_within(&self.handle, Duration::ZERO) => handle,
            _ => self.handle.try_clone()?,
        };
        Ok((id.cast_unsigned(), handle))
    }

    /// Returns the executor's exit status.
    ///
    /// # Errors
    /// Returns an error if the keeper was killed before.
    pub(crate) fn status(&mut self) -> io::Result<ExitStatus> {
        keeper::read_word(&mut self.words, None).map(ExitStatus::from_raw)
    }

    /// Waits until no process of the session is left, at most for `limit`. Returns whether none is left, or `None` if
    /// the keeper was killed before.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> Option<bool> {
        // A region of an agent that isn't root may have stopped the keeper.
        let _ = pidfd_send_signal(&self.handle, Signal::CONT);
        if limit.is_some_and(|limit| !has_ended_within(&self.handle, limit)) {
            return Some(false);
        }
        self.child.wait().is_ok_and(|status| status.success()).then_some(true)
    }
}

/// Starts a child. The returned descriptor is readable once the child has ended.
///
/// # Errors
/// Returns the system's error.
pub(crate) fn start(command: &mut Command) -> io::Result<(Child, OwnedFd, Process)> {
    let mut child = command.spawn()?;
    let opened = Pid::from_raw(child.id().cast_signed()).ok_or(io::ErrorKind::NotFound.into()).and_then(|pid| {
        let handle =
            pidfd_open(pid, PidfdFlags::empty()).map_err(|error| sandbox::named("pidfd_open", error.into()))?;
        Ok((Process::of(pid)?, handle))
    });
    match opened {
        Ok((process, handle)) => Ok((child, handle, process)),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

/// Returns the children that are not among `own`, and drops ended ones from `own`. A listing of children may miss a
/// live one. So only an ended process is dropped, lest an executor count as an orphan.
fn orphans(own: &mut Vec<Process>) -> Vec<Process> {
    let mut children = descendants::own_children();
    children.retain(|child| !own.contains(child));
    own.retain(|own| !own.is_gone());
    children
}

/// A running executor.
#[derive(Debug)]
pub(crate) struct ExecutorProcess {
    control: Handover,
    /// Serialises messages.
    turn: TurnLock<()>,
    process: OwnedFd,
    id: u32,
}

impl ExecutorProcess {
    /// Returns the process number, for messages.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Hands a connection to the executor.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the executor has ended or is stuck.
    pub(crate) fn send(&self, lane: &dyn Lane, client: &Introduced) -> Result<()> {
        let _turn = self.turn.take();
        self.control.send(lane, client)
    }

    /// Asks the executor to end and to report `ending` to its program. Kills it after a grace period. Does not wait.
    pub(crate) fn end(self: &Arc<Self>, ending: Option<ExecutorEnding>) {
        if ending.is_none() {
            self.control.shutdown_writes();
        }
        let executor = self.clone();
        let wait = move || {
            if let Some(ending) = ending {
                // An executor that does not read misses the reason.
                if let Some(_turn) = executor.turn.try_take() {
                    let _ = executor.control.send_ending(&ending);
                }
                executor.control.shutdown_writes();
            }
            if !has_ended_within(&executor.process, END_GRACE) {
                executor.kill();
            }
        };
        if threads::spawn("accord-end", wait).is_err() {
            self.kill();
        }
    }

    fn kill(&self) {
        // The descriptor identifies the process for good, so that no other process can be hit.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }
}

/// Whether the process of this descriptor ends within the time.
pub(crate) fn has_ended_within(process: &OwnedFd, time: Duration) -> bool {
    let mut handles = [PollFd::new(process, PollFlags::IN)];
    let timeout = Timespec::try_from(time).ok();
    poll(&mut handles, timeout.as_ref()).is_ok_and(|ready| ready > 0)
}

fn system(cause: String) -> Error {
    Error::new(ErrorCode::System, cause)
}
