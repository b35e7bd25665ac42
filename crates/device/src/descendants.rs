//! Ends the processes below another one, however they were forked: a process that collects orphans
//! (`PR_SET_CHILD_SUBREAPER`) has all of them below it.
//!
//! Numbers of processes are used again. A process is therefore held by a descriptor while its parent is
//! compared, and told apart from a later one of its number by when it started.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal, waitid};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Pause between looks at processes that are about to end.
const PAUSE: Duration = Duration::from_millis(2);
/// Longest such pause.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// A process, told apart from a later one of its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Process {
    pid: Pid,
    /// In the kernel's ticks since the machine's start.
    started: u64,
}

/// The kernel's status of a process.
struct Status {
    parent: i32,
    started: u64,
    is_zombie: bool,
}

impl Process {
    /// The one that has this number now.
    ///
    /// # Errors
    /// Returns an error if none has.
    pub fn of(pid: Pid) -> io::Result<Self> {
        let status = status(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { pid, started: status.started })
    }

    /// Returns the process's start in the kernel's ticks since the boot.
    pub fn started(self) -> u64 {
        self.started
    }

    /// Whether the process has ended and was waited for. `false` if the system does not say: a process that may live is not forgotten.
    pub fn is_gone(self) -> bool {
        match std::fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero())) {
            Ok(text) => read_status(&text).is_some_and(|status| status.started != self.started),
            Err(error) => {
                error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
            }
        }
    }

    /// Whether the process has ended, though its parent may not have collected it.
    pub fn has_ended(self) -> bool {
        status(self.pid).is_none_or(|status| status.started != self.started || status.is_zombie)
    }

    /// A descriptor of it, unless it is gone.
    fn open(self) -> Option<OwnedFd> {
        let handle = pidfd_open(self.pid, PidfdFlags::empty()).ok()?;
        (status(self.pid)?.started == self.started).then_some(handle)
    }

    /// Its children, with those that have ended and are not collected yet. A process whose first thread alone has ended looks like one of these.
    fn children(self) -> Vec<Self> {
        let mut children = Vec::new();
        for pid in numbers_of_children(self.pid) {
            // Held, the number is no other process's until the parent has been compared.
            let Ok(_handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if let Some(status) = status(pid)
                && status.parent == self.pid.as_raw_nonzero().get()
            {
                children.push(Self { pid, started: status.started });
            }
        }
        // If it was replaced meanwhile these are another one's.
        if status(self.pid).is_some_and(|status| status.started == self.started) { children } else { Vec::new() }
    }
}

/// Children of the calling process.
pub fn own_children() -> Vec<Process> {
    Process::of(getpid()).map(Process::children).unwrap_or_default()
}

/// Kills the processes that `roots` names and all below them, until it names none any more; `limit` at most. `roots` are children of the
/// calling process, which has to be the one that collects orphans. Returns whether all are gone.
///
/// All are stopped before the first is killed: else one that forks again and again could stay ahead.
pub fn end_all(roots: &mut dyn FnMut() -> Vec<Process>, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    let mut pause = PAUSE;
    loop {
        let found = roots();
        if found.is_empty() {
            return true;
        }
        let mut stopped = HashSet::new();
        loop {
            let seen = signal(&roots(), Signal::STOP);
            let is_settled = seen.is_subset(&stopped);
            stopped.extend(seen);
            if is_settled || Instant::now() >= end {
                break;
            }
        }
        signal(&roots(), Signal::KILL);
        for process in roots() {
            // Of those that are children by now; the others become ones.
            let _ = waitid(WaitId::Pid(process.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
        if Instant::now() >= end {
            return roots().is_empty();
        }
        if !roots().is_empty() {
            std::thread::sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

/// Kills processes that need not be children of the calling process, and all below them. Returns whether all have ended within `limit`.
///
/// All are stopped before the first is killed, so that none forks ahead, and none is missed because it has lost its parent.
pub fn end_trees(roots: &[Process], limit: Duration) -> bool {
    let end = Instant::now() + limit;
    let mut stopped = HashSet::new();
    loop {
        let seen = signal(roots, Signal::STOP);
        let is_settled = seen.is_subset(&stopped);
        stopped.extend(seen);
        if is_settled || Instant::now() >= end {
            break;
        }
    }
    for process in &stopped {
        if let Some(handle) = process.open() {
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }
    }
    let mut pause = PAUSE;
    while !stopped.iter().all(|process| process.has_ended()) {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(PAUSE_MAX);
    }
    true
}

/// Sends `signal` to `roots` and to all below them; returns which those are.
fn signal(roots: &[Process], signal: Signal) -> HashSet<Process> {
    let (mut seen, mut waiting) = (HashSet::new(), roots.to_vec());
    while let Some(process) = waiting.pop() {
        let Some(handle) = process.open() else { continue };
        if !seen.insert(process) {
            continue;
        }
        // One that has more rights than this process may refuse it.
        let _ = pidfd_send_signal(&handle, signal);
        waiting.extend(process.children());
    }
    seen
}

fn status(pid: Pid) -> Option<Status> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    read_status(&text)
}

/// Fields 3, 4 and 22 of proc_pid_stat(5).
fn read_status(text: &str) -> Option<Status> {
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Status { parent, started, is_zombie })
}

/// Numbers of the children of all threads of a process.
fn numbers_of_children(pid: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let mut numbers = Vec::new();
    for task in tasks.into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        numbers.extend(text.split_ascii_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?)));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_does_not_shift_the_fields() {
        let line = "17 (a b) R 3) Z 5 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let status = read_status(line).unwrap();
        assert_eq!((status.parent, status.started, status.is_zombie), (5, 4711, true));
        assert!(read_status("17 (x").is_none());
    }

    #[test]
    fn the_calling_process_is_found_and_another_one_of_its_number_is_not() {
        let own = Process::of(getpid()).unwrap();
        assert!(own.open().is_some() && !own.is_gone());
        assert!(Process { started: own.started + 1, ..own }.is_gone());
        assert!(Process { started: own.started + 1, ..own }.open().is_none());
    }
}
