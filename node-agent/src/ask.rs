//! Questions that a process of its own answers: if it crashes or hangs, this process goes on.

use crate::process::{self, Spawner};
use accord_types::threads;
use rustix::process::{Signal, pidfd_send_signal};
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The reason why there is no answer.
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

/// Runs `command` and returns its standard output, `most` bytes of it at most. With a `spawner` that starts it,
/// processes that it leaves behind are ended.
pub(crate) fn ask(
    mut command: Command,
    spawner: Option<&Spawner>,
    limit: Duration,
    most: u64,
) -> Result<Vec<u8>, NoAnswer> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let started = match spawner {
        Some(spawner) => spawner.spawn(command),
        None => process::start(&mut command).map(|(child, handle, _)| (child, handle)),
    };
    let (mut child, process) = started.map_err(NoAnswer::Refused)?;
    let spawner = spawner.cloned();
    let (send, answer) = mpsc::channel();
    let wait = move || {
        let mut bytes = Vec::new();
        let read = child.stdout.take().map(|output| output.take(most).read_to_end(&mut bytes));
        let status = child.wait();
        if let Some(spawner) = spawner {
            spawner.end_orphans();
        }
        // Fails if the caller has given up waiting.
        let _ = send.send((read.unwrap_or(Ok(0)).map(|_| bytes), status));
    };
    threads::spawn("accord-ask", wait).map_err(NoAnswer::Refused)?;
    let Ok((bytes, status)) = answer.recv_timeout(limit) else {
        // A process that hangs inside the kernel doesn't even take this signal; only this thread waits for it.
        let _ = pidfd_send_signal(&process, Signal::KILL);
        return Err(NoAnswer::Late);
    };
    let status = status.map_err(NoAnswer::Unread)?;
    if !status.success() {
        return Err(NoAnswer::Failed(status));
    }
    bytes.map_err(NoAnswer::Unread)
}
