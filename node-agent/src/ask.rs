//! Questions that a process of its own answers: whatever becomes of that takes nobody along.

use accord_types::threads;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The process can't be started.
    Refused(std::io::Error),
    /// It took too long, and was killed.
    Late,
    /// It ended so.
    Failed(ExitStatus),
    /// What it wrote, or how it ended, can't be read.
    Unread(std::io::Error),
}

/// What `command` writes to its standard output, `most` bytes of it at most.
pub(crate) fn ask(command: &mut Command, limit: Duration, most: u64) -> Result<Vec<u8>, NoAnswer> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(NoAnswer::Refused)?;
    let process = Pid::from_raw(i32::try_from(child.id()).unwrap_or(0))
        .ok_or(std::io::ErrorKind::NotFound.into())
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).map_err(Into::into));
    let process = process.map_err(|error| {
        // Nobody waits for its answer.
        let _ = child.kill();
        let _ = child.wait();
        NoAnswer::Refused(error)
    })?;
    let (send, answer) = mpsc::channel();
    let wait = move || {
        let mut bytes = Vec::new();
        let read = child.stdout.take().map(|output| output.take(most).read_to_end(&mut bytes));
        let status = child.wait();
        // Too late, if nobody takes it.
        let _ = send.send((read.unwrap_or(Ok(0)).map(|_| bytes), status));
    };
    threads::spawn("accord-ask", wait).map_err(NoAnswer::Refused)?;
    let Ok((bytes, status)) = answer.recv_timeout(limit) else {
        // One that hangs inside the kernel doesn't even hear this; the thread waits for it, and nobody else.
        let _ = pidfd_send_signal(&process, Signal::KILL);
        return Err(NoAnswer::Late);
    };
    let status = status.map_err(NoAnswer::Unread)?;
    if !status.success() {
        return Err(NoAnswer::Failed(status));
    }
    bytes.map_err(NoAnswer::Unread)
}
