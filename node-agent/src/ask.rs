//! Questions that a child process answers, so that a crash or hang does not affect this process.

use crate::process::{self, Spawner};
use accord_types::short_lock::ShortLock;
use accord_types::threads;
use rustix::process::{Signal, pidfd_send_signal};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The reason for a missing answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The process could not be started.
    Refused(io::Error),
    /// The process exceeded its time and was killed. A process that hangs inside the kernel ends later.
    Late(Late),
    /// The process ended with this status.
    Failed(ExitStatus),
    /// The process's output or status could not be read.
    Unread(io::Error),
}

/// A process that was killed because it took too long.
#[derive(Debug)]
pub(crate) struct Late(pub(crate) mpsc::Receiver<Answer>);

/// A process's output and its status.
pub(crate) type Answer = (io::Result<Vec<u8>>, io::Result<ExitStatus>);

impl Late {
    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self.0.try_recv(), Err(mpsc::TryRecvError::Empty))
    }
}

/// The last late test of each device, by ordinal. A process that hangs inside the kernel can't be ended.
#[derive(Debug, Default)]
pub(crate) struct LateTests(ShortLock<BTreeMap<u32, Late>>);

impl LateTests {
    /// Whether the process of a device's late test still runs.
    pub(crate) fn hangs(&self, ordinal: u32) -> bool {
        let late = self.0.lock();
        late.get(&ordinal).is_some_and(|late| !late.has_ended())
    }

    pub(crate) fn note(&self, ordinal: u32, late: Late) {
        self.0.lock().insert(ordinal, late);
    }
}

/// Runs `command` and returns at most `most` bytes of its standard output. With a `spawner`, which then starts it,
/// orphaned descendants are ended.
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
        // Fails if the caller has timed out.
        let _ = send.send((read.unwrap_or(Ok(0)).map(|_| bytes), status));
    };
    threads::spawn("accord-ask", wait).map_err(NoAnswer::Refused)?;
    let Ok((bytes, status)) = answer.recv_timeout(limit) else {
        // A process that hangs inside the kernel does not end on this signal; only this thread waits for it.
        let _ = pidfd_send_signal(&process, Signal::KILL);
        return Err(NoAnswer::Late(Late(answer)));
    };
    let status = status.map_err(NoAnswer::Unread)?;
    if !status.success() {
        return Err(NoAnswer::Failed(status));
    }
    bytes.map_err(NoAnswer::Unread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_process_is_known_until_it_has_ended() {
        let (send, answer) = mpsc::channel();
        let late = Late(answer);
        assert!(!late.has_ended() && !late.has_ended());
        send.send((Ok(Vec::new()), Err(io::ErrorKind::Other.into()))).expect("it is not dropped");
        drop(send);
        assert!(late.has_ended());
        assert!(late.has_ended());
    }

    #[test]
    fn a_device_whose_late_test_has_not_ended_is_known() {
        let tests = LateTests::default();
        let (send, answer) = mpsc::channel();
        tests.note(1, Late(answer));
        assert!(tests.hangs(1) && !tests.hangs(0));
        drop(send);
        assert!(!tests.hangs(1));
    }
}
