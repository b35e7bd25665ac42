//! Processes as descriptors, which never become another process's; and waiting for descriptors.

use accord_types::sandbox;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// How often whoever waits for a process looks around.
pub(crate) const LOOK_AROUND: Duration = Duration::from_millis(250);

/// Makes the calling process the parent of all below it that lose theirs, so that none leaves it, and has the kernel collect its children
/// when they end. Programs that it runs do not inherit the latter. For processes that wait for no child's status.
///
/// # Errors
/// When the kernel refuses.
pub fn collect_orphans() -> std::io::Result<()> {
    // SAFETY: an all-zero sigaction is valid and names the default; the handler of this signal is nobody else's in such a process.
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

/// A descriptor for a process.
///
/// # Errors
/// When there is none with this number.
pub(crate) fn open(pid: libc::pid_t) -> std::io::Result<OwnedFd> {
    // SAFETY: makes a fresh descriptor, or -1.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
        if fd < 0 { Err(sandbox::named("pidfd_open", Error::last_os_error())) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Ends a worker for good and waits until it is gone.
pub(crate) fn kill(pidfd: &OwnedFd) {
    end(pidfd);
    wait(pidfd);
}

/// Ends a worker, without waiting for that.
pub(crate) fn end(pidfd: &OwnedFd) {
    // SAFETY: signals the process behind the descriptor, which can't be another one.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            libc::SIGKILL,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        );
    }
}

/// Blocks until the worker has ended.
pub(crate) fn wait(pidfd: &OwnedFd) {
    while !readable(pidfd, None) {}
}

/// Whether a descriptor can be read, which for a process says that it has ended; waits for that, `limit` at most.
pub(crate) fn readable(fd: &impl AsRawFd, limit: Option<Duration>) -> bool {
    poll([fd.as_raw_fd()], limit)[0]
}

/// Which of some descriptors can be read, or have ended; those below 0 don't count. Waits for one, `limit` at most.
pub(crate) fn poll<const N: usize>(fds: [RawFd; N], limit: Option<Duration>) -> [bool; N] {
    let mut polls = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let limit = limit.map_or(-1, |limit| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX));
    // SAFETY: N valid entries.
    let ready = unsafe { libc::poll(polls.as_mut_ptr(), N as libc::nfds_t, limit) };
    // Where it can't be asked, who reads it learns why.
    if ready < 0 && Error::last_os_error().kind() != ErrorKind::Interrupted {
        return [true; N];
    }
    polls.map(|poll| ready > 0 && poll.revents != 0)
}
