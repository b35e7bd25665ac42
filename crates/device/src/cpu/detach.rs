//! Starts a process that is hidden from the program: it is not among its children, and its end raises no signal.
//!
//! A child started by the standard library raises SIGCHLD in the program when it ends. Here a child without that signal
//! starts the process and ends, so that the process is not the program's child.

use super::process::{self, Handle};
use std::ffi::{CString, OsStr, c_char};
use std::io::{self, Error};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{null, null_mut};

/// The longest life of the child that starts the process. Normally it is ended once the process is known.
const CHILD_LASTS_MS: libc::c_int = 60_000;

/// A process to start.
pub(crate) struct Detached<'a> {
    /// The executable.
    pub(crate) exe: &'a OsStr,
    /// The only argument, `argv[0]`.
    pub(crate) arg0: &'a OsStr,
    /// The whole environment, `NAME=value` each.
    pub(crate) env: Vec<Vec<u8>>,
    /// The working directory, if not this process's; `/` if it does not exist here.
    pub(crate) cwd: Option<&'a OsStr>,
    /// Descriptors for standard input, output and error; -1 inherits.
    pub(crate) stdio: [RawFd; 3],
    /// Descriptors above 2 that the process keeps under their numbers.
    pub(crate) keep: &'a [RawFd],
    /// A socket whose other end is in `keep`.
    pub(crate) socket: BorrowedFd<'a>,
    /// Processors to run on, if allowed.
    pub(crate) cpus: Option<libc::cpu_set_t>,
    /// Whether the process gets a session of its own, so that signals to this process's group, for example from a launcher, do
    /// not reach it. A group alone would not suffice: once the child that starts the process has ended, the group is orphaned,
    /// and the system hangs up a stopped process in it. The process then inherits only the descriptors of `stdio` and `keep`.
    pub(crate) own_session: bool,
}

/// Duplicates the descriptor to a number above 2. The program may have closed its standard descriptors, whose numbers the
/// new process needs.
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

/// A process that is about to execute its program.
pub(crate) struct Started {
    pub(crate) pid: u32,
    pub(crate) process: Handle,
    /// Readable once the process has executed its program, or could not, see [`Started::refused`].
    pub(crate) report: OwnedFd,
}

impl Started {
    /// Returns the reason why the process could not execute its program, if known. Called when `report` is readable.
    pub(crate) fn refused(&self) -> Option<Error> {
        match receive(&self.report) {
            Ok(Some(Report { errno, .. })) if errno != 0 => Some(Error::from_raw_os_error(errno)),
            _ => None,
        }
    }
}

/// The reports of the child and the process.
#[repr(C)]
#[derive(Default)]
struct Report {
    /// The process, of the child.
    pid: libc::pid_t,
    /// The error of the child, which could not start the process, or of the process, which could not execute its program.
    errno: i32,
}

impl Detached<'_> {
    /// Starts the process. Calls `check_alive` at intervals meanwhile, because a signal may have stopped the child.
    ///
    /// # Errors
    /// Returns an error if the system refuses, and any error of `check_alive`.
    pub(crate) fn start(&self, check_alive: &mut dyn FnMut() -> io::Result<()>) -> io::Result<Started> {
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
        // SAFETY: the child makes only system calls until it ends or executes another program. Signals are blocked so that it
        // runs none of the program's handlers.
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
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
            if pid < 0 {
                return Err(failed);
            }
            drop(write);
            let started = born(&read, self.socket, check_alive);
            // The child has no more work. Until now it has kept the process's number from being reused.
            libc::kill(pid, libc::SIGKILL);
            while libc::waitpid(pid, null_mut(), libc::__WALL) < 0
                && Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
            started.map(|(pid, process)| Started { pid, process, report: read })
        }
    }
}

/// Waits for the number of the process, which is not reused while the child exists.
fn born(
    read: &OwnedFd,
    socket: BorrowedFd<'_>,
    check_alive: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<(u32, Handle)> {
    while !process::readable(read, Some(process::CHECK_INTERVAL)) {
        check_alive()?;
    }
    let report = receive(read)?.ok_or_else(|| Error::from(io::ErrorKind::UnexpectedEof))?;
    if report.errno != 0 {
        return Err(Error::from_raw_os_error(report.errno));
    }
    Ok((report.pid.cast_unsigned(), Handle::new(report.pid, socket)?))
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
    /// Starts the process, reports it, and waits for its end.
    ///
    /// # Safety
    /// Must be called only in a child of [`fork_with_signal`]: threads that do not exist there may hold locks.
    unsafe fn run(&self) -> ! {
        // SAFETY: system calls only, on values made before the fork.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            match fork_with_signal(libc::SIGCHLD) {
                0 => {
                    self.execute();
                    self.report(Report { pid: 0, errno: *libc::__errno_location() });
                    libc::_exit(0)
                }
                pid if pid < 0 => self.report(Report { pid: 0, errno: *libc::__errno_location() }),
                pid => self.report(Report { pid, errno: 0 }),
            }
            libc::close(self.report);
            libc::poll(null_mut(), 0, CHILD_LASTS_MS);
            libc::_exit(0)
        }
    }

    /// # Safety
    /// As for [`Child::run`].
    unsafe fn report(&self, report: Report) {
        // SAFETY: the bytes are plain and belong to this function's value. The system writes so few in one piece.
        unsafe { libc::write(self.report, (&raw const report).cast(), size_of::<Report>()) };
    }

    /// Executes the program. Returns only on failure, with errno set.
    ///
    /// # Safety
    /// As for [`Child::run`].
    unsafe fn execute(&self) {
        // SAFETY: as above.
        unsafe {
            if self.start.own_session {
                // The call can't fail in a new process.
                libc::setsid();
                inherit_nothing();
            }
            if let Some(cpus) = &self.start.cpus {
                // If these processors are not permitted, the process runs on any.
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
            // The program's directory may exist only on its own node.
            if !self.cwd.is_null() && libc::chdir(self.cwd) != 0 && libc::chdir(c"/".as_ptr()) != 0 {
                return;
            }
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, null_mut());
            libc::execve(self.exe, self.argv, self.envp);
        }
    }
}

/// Makes all descriptors above 2 close on execution: libraries and this process's parent may have left some open.
///
/// # Safety
/// As for [`Child::run`].
unsafe fn inherit_nothing() {
    const FIRST: libc::c_uint = 3;
    /// Highest number that is closed if the system can't close ranges: processes of this project have none above it.
    const DESCRIPTORS_MAX: libc::rlim_t = 1 << 20;
    // SAFETY: system calls on numbers of descriptors, of which any may be none.
    unsafe {
        if libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) == 0 {
            return;
        }
        // For Linux before 5.11.
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        // A limit may be a thousand million, for which the loop would take minutes.
        let last = limit.rlim_cur.min(DESCRIPTORS_MAX);
        for fd in FIRST as RawFd..RawFd::try_from(last).unwrap_or(RawFd::MAX) {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

/// Forks a child that raises `signal` in its parent when it ends, or none. No handlers run in it.
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
    // SAFETY: the array holds both ends, which are new.
    let (read, write) = unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    Ok((above_stdio(read)?, above_stdio(write)?))
}

/// Returns the next report, or `None` once all writers have ended or executed their program.
fn receive(read: &OwnedFd) -> io::Result<Option<Report>> {
    let mut report = Report::default();
    loop {
        // SAFETY: the buffer holds a report, for which any bytes are valid.
        let got = unsafe { libc::read(read.as_raw_fd(), (&raw mut report).cast(), size_of::<Report>()) };
        match usize::try_from(got) {
            Ok(0) => return Ok(None),
            // A report is written in one piece, and so read in one piece.
            Ok(_) => return Ok(Some(report)),
            Err(_) => {
                let error = Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// Returns no socket, which is not needed where the system has process descriptors.
    fn no_socket() -> BorrowedFd<'static> {
        // SAFETY: standard input stays open.
        unsafe { BorrowedFd::borrow_raw(0) }
    }

    fn start(exe: &str, out: RawFd, env: &[&str]) -> io::Result<()> {
        let started = Detached {
            exe: OsStr::new(exe),
            arg0: OsStr::new("env"),
            env: env.iter().map(|entry| entry.as_bytes().to_vec()).collect(),
            cwd: Some(OsStr::new("/")),
            stdio: [-1, out, -1],
            keep: &[],
            socket: no_socket(),
            cpus: None,
            own_session: false,
        }
        .start(&mut || Ok(()))?;
        while !process::readable(&started.report, None) {}
        started.refused().map_or(Ok(()), Err)
    }

    #[test]
    fn detached_process_gets_the_given_environment_and_output() {
        let (read, write) = pipe().unwrap();
        start("/usr/bin/env", write.as_raw_fd(), &["A=1", "B=two"]).unwrap();
        drop(write);
        let mut text = String::new();
        std::fs::File::from(read).read_to_string(&mut text).unwrap();
        assert_eq!(text, "A=1\nB=two\n");
    }

    #[test]
    fn a_working_directory_that_is_not_there_is_the_root() {
        let (read, write) = pipe().unwrap();
        let started = Detached {
            exe: OsStr::new("/bin/pwd"),
            arg0: OsStr::new("pwd"),
            env: Vec::new(),
            cwd: Some(OsStr::new("/nonexistent/folder")),
            stdio: [-1, write.as_raw_fd(), -1],
            keep: &[],
            socket: no_socket(),
            cpus: None,
            own_session: false,
        };
        started.start(&mut || Ok(())).unwrap();
        drop(write);
        let mut text = String::new();
        std::fs::File::from(read).read_to_string(&mut text).unwrap();
        assert_eq!(text, "/\n");
    }

    #[test]
    fn starting_a_missing_program_fails() {
        let error = start("/nonexistent", -1, &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    /// Starts a `cat` that waits for its input, and returns the other end of that.
    fn waiting(own_session: bool) -> (Started, OwnedFd) {
        let (read, write) = pipe().unwrap();
        let script = Detached {
            exe: OsStr::new("/bin/cat"),
            arg0: OsStr::new("cat"),
            env: Vec::new(),
            cwd: None,
            stdio: [read.as_raw_fd(), -1, -1],
            keep: &[],
            socket: no_socket(),
            cpus: None,
            own_session,
        };
        (script.start(&mut || Ok(())).unwrap(), write)
    }

    /// The system's numbers for a running process: parent, group, session.
    fn family(started: &Started) -> [u32; 3] {
        assert!(!started.process.has_ended_within(Some(std::time::Duration::ZERO)), "it has ended");
        let text = std::fs::read_to_string(format!("/proc/{}/stat", started.pid)).unwrap();
        let mut numbers = text.rsplit_once(')').unwrap().1.split_whitespace().skip(1).map(|word| word.parse().unwrap());
        std::array::from_fn(|_| numbers.next().unwrap())
    }

    #[test]
    fn the_child_is_gone_and_the_process_known() {
        let (started, _input) = waiting(false);
        let [parent, ..] = family(&started);
        assert_ne!(parent, std::process::id());
        started.process.kill();
    }

    #[test]
    fn detached_process_gets_its_own_session_on_request() {
        let (started, _input) = waiting(true);
        while !process::readable(&started.report, None) {}
        let [_, group, session] = family(&started);
        assert_eq!([group, session], [started.pid; 2]);
        started.process.kill();
    }

    #[test]
    fn descriptors_move_above_the_standard_ones() {
        let (read, _write) = pipe().unwrap();
        assert!(above_stdio(read).unwrap().as_raw_fd() > 2);
    }
}
