//! Signals and children's ends as events.

use crate::failure::{Failure, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::File;
use std::os::fd::AsFd;
use std::time::Instant;

/// `si_code` of signals that the kernel sends, such as a terminal's Ctrl-C.
const SI_KERNEL: i32 = 0x80;
/// Signals that ask a run to end.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// An event for the supervisor.
#[derive(Debug)]
pub(crate) enum Event {
    /// A child ended.
    Ended(Pid, WaitStatus),
    /// A signal that asks the run to end. With `by_terminal`, all processes of the terminal's foreground group got it.
    Signal { signal: Signal, by_terminal: bool },
    /// The process at the other end of the lifeline has ended.
    Orphaned,
    /// The deadline has passed.
    Timeout,
}

/// Receives signals and ends of children as events instead of interruptions.
pub(crate) struct Signals {
    fd: SignalFd,
    lifeline: Option<File>,
}

impl Signals {
    /// Blocks signals in this process and its children (`accord __exec` unblocks them). Ignored signals stay ignored,
    /// so that a run under nohup survives its terminal.
    pub(crate) fn block(lifeline: Option<File>) -> Result<Self> {
        let ignored = ignored_signals();
        let mut set = SigSet::empty();
        set.add(Signal::SIGCHLD);
        for signal in ENDING {
            if ignored & (1 << (signal as u32 - 1)) == 0 {
                set.add(signal);
            }
        }
        // Makes a write beyond the limit on files an error instead of a signal.
        let mut blocked = set;
        blocked.add(Signal::SIGXFSZ);
        blocked.thread_block().map_err(|error| Failure::system("can't block signals", error))?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(|error| Failure::system("can't receive signals", error))?;
        Ok(Self { fd, lifeline })
    }

    /// Unblocks all signals, before the process executes another program.
    pub(crate) fn unblock_all() {
        let _ = SigSet::all().thread_unblock();
    }

    /// Waits for the next event.
    pub(crate) fn next(&mut self, deadline: Option<Instant>) -> Result<Event> {
        loop {
            if let Some(event) = ended_child()? {
                return Ok(event);
            }
            match self.fd.read_signal() {
                Ok(Some(info)) => {
                    let signal = i32::try_from(info.ssi_signo).ok().and_then(|raw| Signal::try_from(raw).ok());
                    match signal {
                        Some(Signal::SIGCHLD) | None => {}
                        Some(signal) => {
                            return Ok(Event::Signal { signal, by_terminal: info.ssi_code == SI_KERNEL });
                        }
                    }
                    continue;
                }
                Ok(None) | Err(Errno::EINTR) => {}
                Err(error) => return Err(Failure::system("can't receive signals", error)),
            }
            if self.wait(deadline)? {
                self.lifeline = None;
                return Ok(Event::Orphaned);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Event::Timeout);
            }
        }
    }

    /// Blocks until an event is possible; returns `true` if the lifeline is cut.
    fn wait(&self, deadline: Option<Instant>) -> Result<bool> {
        let timeout = match deadline {
            None => PollTimeout::NONE,
            Some(deadline) => {
                // Rounded up, because a wait that ends too early would spin.
                let left = deadline.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            }
        };
        let mut fds = vec![PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        if let Some(lifeline) = &self.lifeline {
            fds.push(PollFd::new(lifeline.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(Failure::system("can't wait for events", error)),
        }
        Ok(fds.get(1).is_some_and(|fd| fd.any().unwrap_or(false)))
    }
}

/// Returns the exit code with which a shell reports how a process ended.
pub(crate) fn exit_code(status: WaitStatus) -> u8 {
    match status {
        WaitStatus::Exited(_, code) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
        WaitStatus::Signaled(_, signal, _) => u8::try_from(128 + signal as i32).unwrap_or(u8::MAX),
        _ => u8::MAX,
    }
}

fn ended_child() -> Result<Option<Event>> {
    loop {
        return match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(status @ (WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..))) => {
                Ok(Some(Event::Ended(pid, status)))
            }
            Ok(_) | Err(Errno::ECHILD) => Ok(None),
            Err(Errno::EINTR) => continue,
            Err(error) => Err(Failure::system("can't wait for children", error)),
        };
    }
}

/// Returns the set of ignored signals: bit n-1 for signal n.
fn ignored_signals() -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
            u64::from_str_radix(line.trim(), 16).ok()
        })
        .unwrap_or(0)
}
