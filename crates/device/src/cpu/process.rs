//! Starts, observes and ends processes, and waits for descriptors.

use accord_types::sandbox;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// The interval at which a thread that waits for a process checks other conditions.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Makes the calling process the parent of all descendants that lose theirs, so that none escapes, and lets the kernel reap its children. Programs that
/// it executes do not inherit the latter. For processes that need no child's status.
///
/// # Errors
/// Returns an error if the kernel refuses.
pub fn collect_orphans() -> std::io::Result<()> {
    // SAFETY: an all-zero sigaction is valid and the default. Such a process has no other user of this signal's handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_flags = libc::SA_NOCLDWAIT;
        if libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut()) != 0
            || libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0
        {
            return Err(Error::last_os_error());
        }
    }
    Ok(())
}

/// A process that is looked after from here.
pub(crate) struct Handle {
    /// A descriptor of the process, which can't name another one; or the end of a socket whose other end the process has.
    fd: OwnedFd,
    /// The process, if `fd` is a socket: Linux before 5.3, some sandboxes and valgrind have no process descriptors.
    pid: Option<libc::pid_t>,
    /// The kernel kills the process once this is closed.
    #[allow(dead_code, reason = "it is held")]
    lifeline: Option<OwnedFd>,
}

/// A pipe whose reading end a process inherits, and by which the kernel kills the process once this one has ended: a stopped process does not
/// notice that. The signal for a parent's end does not serve, since the process has another parent.
pub(crate) struct Lifeline {
    /// The end for the process.
    pub(crate) read: OwnedFd,
    pub(crate) write: OwnedFd,
}

impl Handle {
    /// Opens the process with this number, which has the other end of `socket`.
    ///
    /// # Errors
    /// Returns an error if there is no such process.
    pub(crate) fn new(pid: libc::pid_t, socket: BorrowedFd<'_>) -> std::io::Result<Self> {
        match open(pid) {
            Ok(fd) => Ok(Self { fd, pid: None, lifeline: None }),
            Err(error) if sandbox::is_refusal(&error) => {
                Ok(Self { fd: socket.try_clone_to_owned()?, pid: Some(pid), lifeline: None })
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a handle of no process.
    #[cfg(test)]
    pub(crate) fn of_no_process() -> Self {
        Self { fd: std::fs::File::open("/dev/null").expect("it is always there").into(), pid: None, lifeline: None }
    }

    /// Lets the kernel kill the process, whose number is `pid` and which has the reading end, once this value is dropped, or this process has
    /// ended. Sandboxes may not support that.
    pub(crate) fn end_with(self, pid: libc::pid_t, lifeline: Lifeline) -> Self {
        /// The commands of fcntl(2) that choose the process and the signal.
        const F_SETOWN: libc::c_int = 8;
        const F_SETSIG: libc::c_int = 10;
        let read = lifeline.read.as_raw_fd();
        // SAFETY: the descriptor is open. What is set belongs to the open file, which the process keeps.
        unsafe {
            if libc::fcntl(read, F_SETOWN, pid) == 0 && libc::fcntl(read, F_SETSIG, libc::SIGKILL) == 0 {
                libc::fcntl(read, libc::F_SETFL, libc::O_ASYNC);
            }
        }
        Self { lifeline: Some(lifeline.write), ..self }
    }

    /// Kills the process and waits until it has ended.
    pub(crate) fn kill(&self) {
        self.end();
        self.wait();
    }

    /// Ends the process, without waiting for that.
    pub(crate) fn end(&self) {
        self.send(libc::SIGKILL);
    }

    /// Stops the process, until [`Handle::go_on`].
    pub(crate) fn stop(&self) {
        self.send(libc::SIGSTOP);
    }

    /// Continues a stopped process.
    pub(crate) fn go_on(&self) {
        self.send(libc::SIGCONT);
    }

    /// Sends a signal, unless the process has ended.
    fn send(&self, signal: libc::c_int) {
        match self.pid {
            // SAFETY: the descriptor names this process, and no other one.
            None => unsafe {
                let none = std::ptr::null::<libc::siginfo_t>();
                libc::syscall(libc::SYS_pidfd_send_signal, self.fd.as_raw_fd(), signal, none, 0);
            },
            // SAFETY: the process had not ended a moment ago, so that its number is not reused yet.
            Some(pid) if !self.has_ended_within(Some(Duration::ZERO)) => unsafe {
                libc::kill(pid, signal);
            },
            Some(_) => {}
        }
    }

    /// Blocks until the process has ended.
    pub(crate) fn wait(&self) {
        while !self.has_ended_within(None) {}
    }

    /// Waits for the end of the process, for at most `limit`. Returns whether it has ended.
    pub(crate) fn has_ended_within(&self, limit: Option<Duration>) -> bool {
        // The socket may be readable before the end. `poll` always reports that its other end is closed.
        let events = if self.pid.is_none() { libc::POLLIN } else { 0 };
        poll_for([(self.fd.as_raw_fd(), events)], limit)[0]
    }
}

/// A descriptor for a process.
fn open(pid: libc::pid_t) -> std::io::Result<OwnedFd> {
    // SAFETY: makes a fresh descriptor, or -1.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
        if fd < 0 { Err(sandbox::named("pidfd_open", Error::last_os_error())) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Whether a descriptor can be read; waits for that, `limit` at most.
pub(crate) fn readable(fd: &impl AsRawFd, limit: Option<Duration>) -> bool {
    poll([fd.as_raw_fd()], limit)[0]
}

/// Waits for at most `limit` until one of the descriptors is readable or has ended. Returns which are. Ignores descriptors
/// below 0.
pub(crate) fn poll<const N: usize>(fds: [RawFd; N], limit: Option<Duration>) -> [bool; N] {
    poll_for(fds.map(|fd| (fd, libc::POLLIN)), limit)
}

fn poll_for<const N: usize>(fds: [(RawFd, libc::c_short); N], limit: Option<Duration>) -> [bool; N] {
    let mut polls = fds.map(|(fd, events)| libc::pollfd { fd, events, revents: 0 });
    let limit = limit.map_or(-1, |limit| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX));
    // SAFETY: N valid entries.
    let ready = unsafe { libc::poll(polls.as_mut_ptr(), N as libc::nfds_t, limit) };
    // If `poll` fails, the reader of the descriptor gets the error.
    if ready < 0 && Error::last_os_error().kind() != ErrorKind::Interrupted {
        return [true; N];
    }
    polls.map(|poll| ready > 0 && poll.revents != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    /// Starts a process that waits for ever, with one end of a socket as its standard input.
    fn waiting() -> (std::process::Child, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let child = Command::new("sleep").arg("1000").stdin(Stdio::from(OwnedFd::from(far))).spawn().unwrap();
        (child, near)
    }

    #[test]
    fn a_process_is_ended_and_its_end_seen_with_and_without_descriptors_of_processes() {
        for by_socket in [false, true] {
            let (mut child, socket) = waiting();
            let pid = child.id().cast_signed();
            let handle = if by_socket {
                Handle { fd: socket.as_fd().try_clone_to_owned().unwrap(), pid: Some(pid), lifeline: None }
            } else {
                Handle::new(pid, socket.as_fd()).unwrap()
            };
            assert!(!handle.has_ended_within(Some(Duration::from_millis(20))), "{by_socket}");
            handle.kill();
            assert!(handle.has_ended_within(Some(Duration::ZERO)), "{by_socket}");
            assert!(!child.wait().unwrap().success());
        }
    }

    #[test]
    fn a_stopped_process_ends_with_the_one_that_looks_after_it() {
        let (read, write) = crate::cpu::detach::pipe().unwrap();
        let theirs = read.try_clone().unwrap();
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::from(theirs)).spawn().unwrap();
        let pid = child.id().cast_signed();
        let (_near, far) = UnixStream::pair().unwrap();
        let handle = Handle::new(pid, far.as_fd()).unwrap().end_with(pid, Lifeline { read, write });
        handle.stop();
        assert!(!handle.has_ended_within(Some(Duration::from_millis(50))), "it has ended too early");
        drop(handle);
        assert!(!child.wait().unwrap().success());
    }
}
