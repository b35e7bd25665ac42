//! Starts and ends workers.

use super::arena::Arena;
use super::config::{ProgramSpec, WORKER_ENV};
use super::output::Output;
use accord_types::{DeviceInfo, Error, ErrorCode, Result};
use std::io::Read as _;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A worker has this long to get through the program's constructors.
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// A started worker.
pub(crate) struct Worker {
    /// Requests go here.
    pub(crate) socket: UnixStream,
    /// Readable once the worker has ended.
    pub(crate) pidfd: OwnedFd,
    pub(crate) pid: u32,
    pub(crate) output: Option<Arc<Output>>,
}

/// Starts a worker for `program` on the memory of `arena`.
pub(crate) fn start(info: &DeviceInfo, program: &ProgramSpec, arena: &Arena) -> Result<Worker> {
    let fail = |what: &str, error: std::io::Error| {
        Error::new(ErrorCode::DeviceInit, format!("{what} for the worker of {}: {error}", info.id))
    };
    let (mut socket, theirs) = UnixStream::pair().map_err(|e| fail("socket pair", e))?;
    let fds = [arena.fd().as_raw_fd(), theirs.as_raw_fd()];

    let mut command = Command::new(&program.exe);
    command.arg0(&program.arg0).stdin(Stdio::null());
    if let Some(env) = &program.env {
        command.env_clear().envs(env.iter().map(|(k, v)| (k, v)));
    }
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    if let Some(libacc) = &program.libacc {
        command.env("LD_PRELOAD", preload(program, libacc));
    }
    command.env(
        WORKER_ENV,
        format!("{},{},{},{},{}", fds[0], fds[1], info.id.ordinal, std::process::id(), info.units),
    );
    let output = if let Some(sink) = &program.output {
        let (out, out_end) = pipe().map_err(|e| fail("pipe", e))?;
        let (err, err_end) = pipe().map_err(|e| fail("pipe", e))?;
        command.stdout(out_end).stderr(err_end);
        Some((out, err, Arc::clone(sink)))
    } else {
        None
    };
    let cpus = cpu_set(&info.cpus);
    // SAFETY: between fork and exec only system calls run, which are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            if let Some(cpus) = &cpus {
                // Where the processors are not ours to take, the worker runs anywhere.
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus);
            }
            for fd in fds {
                if libc::fcntl(fd, libc::F_SETFD, 0) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            // A program that waits for its children must not meet our worker among them: the worker is
            // a grandchild, whose parent ends at once.
            match libc::fork() {
                -1 => Err(std::io::Error::last_os_error()),
                0 => Ok(()),
                _ => libc::_exit(0),
            }
        });
    }
    let mut child = command.spawn().map_err(|e| {
        fail(&format!("starting {}", program.exe.display()), e)
            .remedy("the program's executable must be readable under the same path on every node")
    })?;
    drop(command);
    drop(theirs);
    let _ = child.wait();

    // The worker says hello with its pid once libacc has taken over.
    socket.set_read_timeout(Some(START_TIME_MAX)).map_err(|e| fail("socket", e))?;
    let mut hello = [0u8; 4];
    socket.read_exact(&mut hello).map_err(|e| {
        fail(&format!("no answer of {}", program.exe.display()), e)
            .remedy("the executable must be dynamically linked and load libacc.so; see what it wrote above")
    })?;
    socket.set_read_timeout(None).map_err(|e| fail("socket", e))?;
    let pid = i32::from_ne_bytes(hello);
    // SAFETY: pidfd_open makes a fresh descriptor, or -1.
    let pidfd = unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
        if fd < 0 {
            return Err(fail("pidfd_open", std::io::Error::last_os_error()));
        }
        OwnedFd::from_raw_fd(fd)
    };
    debug_assert_eq!(arena.control().header().serving.load(Ordering::Acquire), 1);
    let output = output.map(|(out, err, sink)| Output::start(out, err, sink));
    Ok(Worker { socket, pidfd, pid: pid as u32, output })
}

/// Ends a worker for good and waits until it is gone.
pub(crate) fn kill(pidfd: &OwnedFd) {
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
    wait(pidfd);
}

/// Blocks until the worker has ended.
pub(crate) fn wait(pidfd: &OwnedFd) {
    let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    while unsafe { libc::poll(&mut poll, 1, -1) } < 0
        && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
    {}
}

/// `libacc` ahead of whatever else the program preloads.
fn preload(program: &ProgramSpec, libacc: &std::path::Path) -> std::ffi::OsString {
    let inherited = match &program.env {
        Some(env) => env.iter().find(|(k, _)| k == "LD_PRELOAD").map(|(_, v)| v.clone()),
        None => std::env::var_os("LD_PRELOAD"),
    };
    let mut all = libacc.as_os_str().to_owned();
    for other in inherited.unwrap_or_default().to_string_lossy().split([':', ' ']) {
        if !other.is_empty() && !other.ends_with("libacc.so") {
            all.push(":");
            all.push(other);
        }
    }
    all
}

/// The processors that a worker is bound to, if any.
fn cpu_set(cpus: &[u32]) -> Option<libc::cpu_set_t> {
    // SAFETY: an all-zero cpu_set_t is a valid empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as u32) {
        // SAFETY: the index is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    (!cpus.is_empty()).then_some(set)
}

fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: pipe2 fills two fresh descriptors, which nobody else owns.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}
