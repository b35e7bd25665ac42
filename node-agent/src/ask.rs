//! Questions that a process of its own answers: if it crashes or hangs, this process goes on.

use crate::process::{self, Spawner};
use accord_types::short_lock::ShortLock;
use accord_types::threads;
use rustix::process::{Signal, pidfd_send_signal};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The reason why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The process can't be started.
    Refused(io::Error),
    /// It took too long, and was killed. It ends once it doesn't hang inside the kernel.
    Late(Late),
    /// It ended so.
    Failed(ExitStatus),
    /// What it wrote, or how it ended, can't be read.
    Unread(io::Error),
}

/// A process that was killed because it took too long.
#[derive(Debug)]
pub(crate) struct Late(pub(crate) mpsc::Receiver<Answer>);

/// What a process wrote, and how it ended.
pub(crate) type Answer = (io::Result<Vec<u8>>, io::Result<ExitStatus>);

impl Late {
    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self.0.try_recv(), Err(mpsc::TryRecvError::Empty))
    }
}

/// Tests that took too long, by the devices' ordinals: the last one of each device. A process that hangs inside the kernel can't be ended.
#[derive(Debug, Default)]
pub(crate) struct LateTests(ShortLock<BTreeMap<u32, Late>>);

impl LateTests {
    /// Whether the process of a device's late test has not ended yet.
    pub(crate) fn hangs(&self, ordinal: u32) -> bool {
        let late = self.0.lock();
        late.get(&ordinal).is_some_and(|late| !late.has_ended())
    }

    pub(crate) fn note(&self, ordinal: u32, late: Late) {
        self.0.lock().insert(ordinal, late);
    }
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
