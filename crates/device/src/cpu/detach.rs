//! Starts a process that the program never hears of: not among its children, and no signal when
//! one ends.
//!
//! The standard library's way makes a child whose end raises SIGCHLD in the program. Here a child
//! without that signal starts the process and ends, so that it belongs to nobody here.

use std::ffi::{CString, OsStr, c_char};
use std::io::{self, Error};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null;

/// What to start.
pub(crate) struct Detached<'a> {
    /// The executable.
    pub(crate) exe: &'a OsStr,
    /// Its only argument, `argv[0]`.
    pub(crate) arg0: &'a OsStr,
    /// Its whole environment, `NAME=value` each.
    pub(crate) env: Vec<Vec<u8>>,
    /// Its working directory, if not this process's.
    pub(crate) cwd: Option<&'a OsStr>,
    /// What becomes its standard input, output and error; -1 inherits.
    pub(crate) stdio: [RawFd; 3],
    /// Descriptors above 2 that it keeps under their numbers.
    pub(crate) keep: &'a [RawFd],
    /// Processors to run on, if allowed.
    pub(crate) cpus: Option<libc::cpu_set_t>,
}

/// The same descriptor under a number above 2: the program may have closed its standard ones, and
/// the new process needs those numbers.
pub(crate) fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    const FIRST: RawFd = 3;
    if fd.as_raw_fd() >= FIRST {
        return Ok(fd);
    }
    // SAFETY: makes a fresh descriptor, or -1.
    unsafe {
        let copy = libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FIRST);
        if copy < 0 { Err(Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(copy)) }
    }
}

impl Detached<'_> {
    /// Starts it; returns when it runs its executable.
    pub(crate) fn start(&self) -> io::Result<()> {
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Error::from(io::ErrorKind::InvalidInput));
        let exe = text(self.exe.as_bytes())?;
        let arg0 = text(self.arg0.as_bytes())?;
        let cwd = self.cwd.map(|path| text(path.as_bytes())).transpose()?;
        let env = self.env.iter().map(|entry| text(entry)).collect::<io::Result<Vec<_>>>()?;
        let argv = [arg0.as_ptr(), null()];
        let envp: Vec<_> = env.iter().map(|entry| entry.as_ptr()).chain([null()]).collect();
        let (read, write) = pipe()?;
        let child = Child {
            start: self,
            exe: exe.as_ptr(),
            cwd: cwd.as_ref().map_or(null(), |path| path.as_ptr()),
            argv: argv.as_ptr(),
            envp: envp.as_ptr(),
            report: write.as_raw_fd(),
        };
        // SAFETY: the child only makes system calls until it ends or runs another program. Signals are
        // blocked so that none of the program's handlers runs in it.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            let pid = fork_with_signal(0);
            let failed = Error::last_os_error();
            if pid == 0 {
                child.run();
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            if pid < 0 {
                return Err(failed);
            }
            while libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) < 0
                && Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
        drop(write);
        reported(&read)
    }
}

struct Child<'a> {
    start: &'a Detached<'a>,
    exe: *const c_char,
    cwd: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
    report: RawFd,
}

impl Child<'_> {
    /// Makes the process and ends.
    ///
    /// # Safety
    /// Only in a child of [`fork_with_signal`]: locks may be held by threads that aren't there.
    unsafe fn run(&self) -> ! {
        // SAFETY: system calls only, on values made before the fork.
        unsafe {
            match fork_with_signal(libc::SIGCHLD) {
                0 => {
                    self.execute();
                    let errno = *libc::__errno_location();
                    libc::write(self.report, (&raw const errno).cast(), size_of_val(&errno));
                }
                pid if pid < 0 => {
                    let errno = *libc::__errno_location();
                    libc::write(self.report, (&raw const errno).cast(), size_of_val(&errno));
                }
                _ => {}
            }
            libc::_exit(0)
        }
    }

    /// Returns only on failure, with errno set.
    ///
    /// # Safety
    /// As for [`Child::run`].
    unsafe fn execute(&self) {
        // SAFETY: as above.
        unsafe {
            if let Some(cpus) = &self.start.cpus {
                // Where the processors are not ours to take, the process runs anywhere.
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus);
            }
            for (number, fd) in (0..).zip(self.start.stdio) {
                if fd >= 0 && libc::dup2(fd, number) < 0 {
                    return;
                }
            }
            for fd in self.start.keep {
                if libc::fcntl(*fd, libc::F_SETFD, 0) != 0 {
                    return;
                }
            }
            if !self.cwd.is_null() && libc::chdir(self.cwd) != 0 {
                return;
            }
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            libc::execve(self.exe, self.argv, self.envp);
        }
    }
}

/// `fork` whose child raises `signal`, or none, in its parent when it ends. No handlers run.
///
/// # Safety
/// The child may only make system calls.
unsafe fn fork_with_signal(signal: i32) -> libc::pid_t {
    // SAFETY: without shared memory and with a null stack this is a fork.
    unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(signal), 0, 0, 0, 0) as libc::pid_t }
}

/// A pipe that new programs don't inherit.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for both ends, which are fresh.
    let (read, write) = unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    Ok((above_stdio(read)?, above_stdio(write)?))
}

/// What the child wrote before it ended: nothing if all went well.
fn reported(read: &OwnedFd) -> io::Result<()> {
    let mut errno = [0u8; 4];
    loop {
        // SAFETY: the buffer is valid for its length.
        match unsafe { libc::read(read.as_raw_fd(), errno.as_mut_ptr().cast(), errno.len()) } {
            4 => return Err(Error::from_raw_os_error(i32::from_ne_bytes(errno))),
            -1 if Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn start(exe: &str, out: RawFd, env: &[&str]) -> io::Result<()> {
        Detached {
            exe: OsStr::new(exe),
            arg0: OsStr::new("env"),
            env: env.iter().map(|entry| entry.as_bytes().to_vec()).collect(),
            cwd: Some(OsStr::new("/")),
            stdio: [-1, out, -1],
            keep: &[],
            cpus: None,
        }
        .start()
    }

    #[test]
    fn it_has_its_own_environment_and_output() {
        let (read, write) = pipe().unwrap();
        start("/usr/bin/env", write.as_raw_fd(), &["A=1", "B=two"]).unwrap();
        drop(write);
        let mut text = String::new();
        std::fs::File::from(read).read_to_string(&mut text).unwrap();
        assert_eq!(text, "A=1\nB=two\n");
    }

    #[test]
    fn what_cant_be_started_is_an_error() {
        let error = start("/nonexistent", -1, &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn descriptors_move_above_the_standard_ones() {
        let (read, _write) = pipe().unwrap();
        assert!(above_stdio(read).unwrap().as_raw_fd() > 2);
    }
}
