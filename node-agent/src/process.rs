//! One executor process, seen from the agent.

use crate::executor_process::{self, send_start};
use crate::users::RunsAs;
use accord_fabric::handshake::Introduced;
use accord_fabric::transport::{Handover, Lane};
use accord_proto::v1::ExecutorStart;
use accord_types::turn_lock::TurnLock;
use accord_types::{Error, ErrorCode, Result, scarce, threads};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How long an executor may take to end by itself before it is killed.
pub(crate) const END_GRACE: Duration = Duration::from_secs(1);
/// How long a message to an executor may take. Its reader only hands connections on.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts executors. They are told when the thread that started them ends, so that it must be
/// one that lives as long as the agent.
pub(crate) struct Spawner(mpsc::Sender<Request>);

struct Request {
    stdin: OwnedFd,
    account: RunsAs,
    reply: mpsc::Sender<std::io::Result<Child>>,
}

impl Spawner {
    /// Starts the thread that starts `program`.
    ///
    /// # Errors
    /// `acc_error_system` if there are no more threads.
    pub(crate) fn new(program: PathBuf) -> Result<Self> {
        let (requests, queue) = mpsc::channel::<Request>();
        let spawn = move || {
            for Request { stdin, account, reply } in queue {
                let child = executor_process::command(&program, &account).stdin(stdin).spawn();
                // Whoever asked waits for the answer.
                let _ = reply.send(child);
            }
        };
        threads::spawn("accord-spawn", spawn)
            .map_err(|error| system(format!("cannot start a thread: {error}")).remedy(scarce::THREADS))?;
        Ok(Self(requests))
    }

    /// Starts an executor. The child is for whoever waits for its end.
    ///
    /// # Errors
    /// `acc_error_system` if the process can't be started.
    pub(crate) fn start(&self, start: &ExecutorStart, account: RunsAs) -> Result<(ExecutorProcess, Child)> {
        let failed = |error: std::io::Error| {
            system(format!("cannot start an executor: {error}"))
                .remedy("raise the limits on processes and open files (ulimit -u, ulimit -n)")
        };
        let (control, theirs) = Handover::pair().map_err(failed)?;
        control.limit(Some(CONTROL_TIMEOUT)).map_err(failed)?;
        let (reply, answer) = mpsc::channel();
        let gone = || system("the thread that starts executors is gone".to_owned());
        self.0.send(Request { stdin: theirs.into(), account, reply }).map_err(|_| gone())?;
        let mut child = answer.recv().map_err(|_| gone())?.map_err(failed)?;
        let handle = Pid::from_raw(i32::try_from(child.id()).unwrap_or(0))
            .ok_or(std::io::ErrorKind::NotFound.into())
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).map_err(Into::into))
            .and_then(|process| send_start(&control, start).map(|()| process));
        match handle {
            Ok(process) => Ok((ExecutorProcess { control, turn: TurnLock::default(), process, id: child.id() }, child)),
            Err(error) => {
                // It can't have done anything yet.
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(error))
            }
        }
    }
}

/// A running executor.
#[derive(Debug)]
pub(crate) struct ExecutorProcess {
    control: Handover,
    /// Messages go out one after the other.
    turn: TurnLock<()>,
    process: OwnedFd,
    id: u32,
}

impl ExecutorProcess {
    /// Its process id, for messages.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Hands it a connection.
    ///
    /// # Errors
    /// `acc_error_system` if it is gone or stuck.
    pub(crate) fn send(&self, lane: &dyn Lane, client: &Introduced) -> Result<()> {
        let _turn = self.turn.take();
        self.control.send(lane, client)
    }

    /// Makes it end, the hard way if it does not do so by itself. Returns at once.
    pub(crate) fn end(self: &Arc<Self>) {
        // It is gone already if this fails.
        self.control.shutdown();
        let executor = self.clone();
        let wait = move || {
            if !executor.has_ended_within(END_GRACE) {
                executor.kill();
            }
        };
        if threads::spawn("accord-end", wait).is_err() {
            self.kill();
        }
    }

    fn kill(&self) {
        // The handle names this process for good, so that nobody else can be hit.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }

    fn has_ended_within(&self, time: Duration) -> bool {
        let mut handles = [PollFd::new(&self.process, PollFlags::IN)];
        let timeout = Timespec::try_from(time).ok();
        poll(&mut handles, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }
}

fn system(cause: String) -> Error {
    Error::new(ErrorCode::System, cause)
}
