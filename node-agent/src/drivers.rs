//! Processes of this machine that drive the node's devices themselves.

use crate::node::{HEED_MAX, ProcessId};
use accord_device::descendants::Process;
use accord_types::threads;
use nix::unistd::geteuid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Pause after a failed or interrupted wait.
const POLL_AGAIN: Duration = Duration::from_millis(10);

/// Returns the process that has this number now.
pub(crate) fn process_of(pid: i32) -> Option<ProcessId> {
    let started = Process::of(Pid::from_raw(pid)?).ok()?.started();
    Some(ProcessId { pid, started })
}

/// Returns a descriptor of exactly this process, or `None` if it has ended.
fn open(process: ProcessId) -> Option<OwnedFd> {
    let pid = Pid::from_raw(process.pid)?;
    let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // The number can't be reused while the descriptor's process is the same.
    let is_it = Process::of(pid).is_ok_and(|now| now.started() == process.started);
    is_it.then_some(descriptor)
}

/// Calls `gone` when the process has ended, on a thread of its own.
///
/// # Errors
/// Returns the system's error if no thread can be started.
pub(crate) fn watch(process: ProcessId, gone: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let watch = move || {
        if let Some(descriptor) = open(process) {
            let mut ended = [PollFd::new(&descriptor, PollFlags::IN)];
            // A failed wait is not an end: the program would still drive devices that are then considered free.
            while poll(&mut ended, None).is_err() {
                std::thread::sleep(POLL_AGAIN);
            }
        }
        gone();
    };
    threads::spawn("accord-driver", watch).map(drop)
}

/// Kills a program that drives devices of an ended session and did not stop them. Only an agent of root does so.
/// Returns whether the process still existed.
pub(crate) fn end(process: ProcessId) -> bool {
    let pid = process.pid;
    let Some(descriptor) = open(process) else { return false };
    if !geteuid().is_root() {
        tracing::warn!(
            "process {pid} uses devices of a session that has ended, and does not stop them: end the process, so that they are free for others"
        );
        return true;
    }
    let limit = HEED_MAX.as_secs();
    tracing::warn!(
        "process {pid} uses devices of a session that has ended, and has not stopped them in {limit} s: it is ended"
    );
    if let Err(error) = pidfd_send_signal(descriptor.as_fd(), Signal::KILL) {
        tracing::warn!("process {pid} cannot be ended: {error}");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let own = process_of(std::process::id().cast_signed()).unwrap();
        assert!(open(own).is_some());
        assert!(open(ProcessId { started: own.started + 1, ..own }).is_none());
        assert_eq!(process_of(i32::MAX), None);
    }
}
