//! Processes that are started and looked after, and waiting for descriptors.

use accord_types::sandbox;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// The interval at which a thread that waits for a process checks other conditions.
pub(crate) const LOOK_AROUND: Duration = Duration::from_millis(250);

/// Makes the calling process the parent of all below it that lose theirs, so that none leaves it, and has the kernel collect its children
/// when they end. Programs that it runs do not inherit the latter. For processes that wait for no child's status.
///
/// # Errors
/// Returns an error if the kernel refuses.
pub fn collect_orphans() -> std::io::Result<()> {
    // SAFETY: an all-zero sigaction is valid and is the default; such a process has no other user of this signal's
    // handler.
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
    /// Of the process, which never becomes another one's. Or an end of a socket whose other end the process has.
    fd: OwnedFd,
    /// The process, where `fd` is a socket: there are no descriptors of processes before Linux 5.3, in some sandboxes, and under valgrind.
    pid: Option<libc::pid_t>,
}

impl Handle {
    /// Opens the process with this number, which has the other end of `socket`.
    ///
    /// # Errors
    /// Returns an error if there is no such process.
    pub(crate) fn new(pid: libc::pid_t, socket: BorrowedFd<'_>) -> std::io::Result<Self> {
        match open(pid) {
            Ok(fd) => Ok(Self { fd, pid: None }),
            Err(error) if sandbox::is_refusal(&error) => Ok(Self { fd: socket.try_clone_to_owned()?, pid: Some(pid) }),
            Err(error) => Err(error),
        }
    }

    /// Creates a handle of no process.
    #[cfg(test)]
    pub(crate) fn of_no_process() -> Self {
        Self { fd: std::fs::File::open("/dev/null").expect("it is always there").into(), pid: None }
    }

    /// Ends the process for good and waits until it is gone.
    pub(crate) fn kill(&self) {
        self.end();
        self.wait();
    }

    /// Ends the process, without waiting for that.
    pub(crate) fn end(&self) {
        match self.pid {
            // SAFETY: signals the process behind the descriptor, which can't be another one.
            None => unsafe {
                let none = std::ptr::null::<libc::siginfo_t>();
                libc::syscall(libc::SYS_pidfd_send_signal, self.fd.as_raw_fd(), libc::SIGKILL, none, 0);
            },
            // SAFETY: signals a process that had not ended a moment ago, so that its number is not yet another one's.
            Some(pid) if !self.has_ended_within(Some(Duration::ZERO)) => unsafe {
                libc::kill(pid, libc::SIGKILL);
            },
            Some(_) => {}
        }
    }

    /// Blocks until the process has ended.
    pub(crate) fn wait(&self) {
        while !self.has_ended_within(None) {}
    }

    /// Waits for the end of the process, `limit` at most. Returns whether it has ended.
    pub(crate) fn has_ended_within(&self, limit: Option<Duration>) -> bool {
        // The socket may be readable before; that its other end is closed is told unasked.
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

/// Waits until one of some descriptors can be read or has ended, `limit` at most, and returns which. Descriptors below
/// 0 don't count.
pub(crate) fn poll<const N: usize>(fds: [RawFd; N], limit: Option<Duration>) -> [bool; N] {
    poll_for(fds.map(|fd| (fd, libc::POLLIN)), limit)
}

fn poll_for<const N: usize>(fds: [(RawFd, libc::c_short); N], limit: Option<Duration>) -> [bool; N] {
    let mut polls = fds.map(|(fd, events)| libc::pollfd { fd, events, revents: 0 });
    let limit = limit.map_or(-1, |limit| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX));
    // SAFETY: N valid entries.
    let ready = unsafe { libc::poll(polls.as_mut_ptr(), N as libc::nfds_t, limit) };
    // Where it can't be asked, who reads it learns why.
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

    /// A process that waits for ever, with an end of a socket as its standard input.
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
                Handle { fd: socket.as_fd().try_clone_to_owned().unwrap(), pid: Some(pid) }
            } else {
                Handle::new(pid, socket.as_fd()).unwrap()
            };
            assert!(!handle.has_ended_within(Some(Duration::from_millis(20))), "{by_socket}");
            handle.kill();
            assert!(handle.has_ended_within(Some(Duration::ZERO)), "{by_socket}");
            assert!(!child.wait().unwrap().success());
        }
    }
}
