//! Ends all descendants of a process, however they were forked: a process that collects orphans (`PR_SET_CHILD_SUBREAPER`)
//! is an ancestor of all of them.
//!
//! Process numbers are reused. So a descriptor holds a process while its parent is compared, and the start time
//! distinguishes it from a later process with the same number.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal, waitid};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Pause between checks of processes that are about to end.
const PAUSE: Duration = Duration::from_millis(2);
/// Longest such pause.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// A process, distinct from a later one with the same number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Process {
    pid: Pid,
    /// Start time in the kernel's ticks since the machine's start.
    started: u64,
}

/// The kernel's status of a process.
struct Status {
    parent: i32,
    started: u64,
    is_zombie: bool,
}

impl Process {
    /// Returns the process that has this number now.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn of(pid: Pid) -> io::Result<Self> {
        let status = status(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { pid, started: status.started })
    }

    /// Returns the process's start in the kernel's ticks since the boot.
    pub fn started(self) -> u64 {
        self.started
    }

    /// Whether the process has ended and was reaped. `false` if the system does not tell, because a process that may live must not be forgotten.
    pub fn is_gone(self) -> bool {
        match std::fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero())) {
            Ok(text) => read_status(&text).is_some_and(|status| status.started != self.started),
            Err(error) => {
                error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
            }
        }
    }

    /// Whether the process has ended, even if its parent has not reaped it.
    pub fn has_ended(self) -> bool {
        status(self.pid).is_none_or(|status| status.started != self.started || status.is_zombie)
    }

    /// Opens a descriptor of the process, unless it is gone.
    fn open(self) -> Option<OwnedFd> {
        let handle = pidfd_open(self.pid, PidfdFlags::empty()).ok()?;
        (status(self.pid)?.started == self.started).then_some(handle)
    }

    /// Returns the children, including zombies. A process of which only the first thread has ended looks like a zombie.
    fn children(self) -> Vec<Self> {
        let mut children = Vec::new();
        for pid in numbers_of_children(self.pid) {
            // The descriptor keeps the number from being reused until the parent has been compared.
            let Ok(_handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if let Some(status) = status(pid)
                && status.parent == self.pid.as_raw_nonzero().get()
            {
                children.push(Self { pid, started: status.started });
            }
        }
        // If the process was replaced meanwhile, the children belong to another one.
        if status(self.pid).is_some_and(|status| status.started == self.started) { children } else { Vec::new() }
    }
}

/// Returns the children of the calling process.
pub fn own_children() -> Vec<Process> {
    Process::of(getpid()).map(Process::children).unwrap_or_default()
}

/// Kills the processes of `roots` and all descendants, until `roots` returns none, for at most `limit`. `roots` are children of the calling process, which
/// must be the one that collects orphans. Returns whether all are gone.
///
/// All are stopped before the first is killed. Otherwise one that forks repeatedly could stay ahead.
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
            // Reaps those that are children by now; the others become children later.
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

/// Kills processes, which need not be children of the calling process, and all descendants. Returns whether all have ended within `limit`.
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

/// Sends `signal` to `roots` and all descendants. Returns these processes.
fn signal(roots: &[Process], signal: Signal) -> HashSet<Process> {
    let (mut seen, mut waiting) = (HashSet::new(), roots.to_vec());
    while let Some(process) = waiting.pop() {
        let Some(handle) = process.open() else { continue };
        if !seen.insert(process) {
            continue;
        }
        // A process with more rights than this one may not be signalled.
        let _ = pidfd_send_signal(&handle, signal);
        waiting.extend(process.children());
    }
    seen
}

fn status(pid: Pid) -> Option<Status> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    read_status(&text)
}

/// Parses fields 3, 4 and 22 of proc_pid_stat(5).
fn read_status(text: &str) -> Option<Status> {
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Status { parent, started, is_zombie })
}

/// Returns the numbers of the children of all threads of a process.
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
