//! Starts and ends workers.

use super::arena::Arena;
use super::config::{WORKER_ENV, WORKER_SAYS};
use super::detach::{Detached, Started, above_stdio, pipe};
use super::library_version;
use super::output::Output;
use super::process::{self, CHECK_INTERVAL, Handle, Lifeline};
use super::watched::StartWatch;
use crate::program::ProgramSpec;
use accord_types::{DeviceInfo, Error, ErrorCode, Result, os_text, sandbox};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A started worker.
pub(crate) struct Worker {
    /// The socket for requests.
    pub(crate) socket: UnixStream,
    pub(crate) process: Handle,
    pub(crate) pid: u32,
    pub(crate) output: Option<Arc<Output>>,
}

/// Starts a worker for `program` on the memory of `arena`.
pub(crate) fn start(info: &DeviceInfo, program: &ProgramSpec, arena: &Arena) -> Result<Worker> {
    library_version::check(program)?;
    let fail = |what: &str, error: std::io::Error| {
        Error::new(ErrorCode::DeviceInit, format!("{what} for the worker of {}: {error}", info.id))
            .remedy_if(scarce(&error))
            .remedy_if(sandbox::remedy(&error))
    };
    let (mut socket, theirs) = UnixStream::pair().map_err(|e| fail("socket pair", sandbox::named("socketpair", e)))?;
    let theirs = above_stdio(theirs.into()).map_err(|e| fail("socket pair", e))?;
    let (read, write) = pipe().map_err(|e| fail("pipe", e))?;
    let lifeline = Lifeline { read, write };
    let keep = [arena.fd().as_raw_fd(), theirs.as_raw_fd(), lifeline.read.as_raw_fd()];
    let null: OwnedFd = File::open("/dev/null").map_err(|e| fail("/dev/null", e))?.into();
    let null = above_stdio(null).map_err(|e| fail("/dev/null", e))?;
    let pipes = match &program.output {
        Some(sink) => {
            let (out, out_end) = pipe().map_err(|e| fail("pipe", e))?;
            let (err, err_end) = pipe().map_err(|e| fail("pipe", e))?;
            Some((out, out_end, err, err_end, Arc::clone(sink)))
        }
        None => None,
    };
    let (out, err) = pipes.as_ref().map_or((-1, -1), |(_, out, _, err, _)| (out.as_raw_fd(), err.as_raw_fd()));
    let worker = format!("{},{},{},{},{}", keep[0], keep[1], arena.addresses().0.0, std::process::id(), info.units);
    let exe = os_text::displayed(&os_text::encode(program.exe.as_os_str()));
    let mut watch = StartWatch::new(program, info);
    let started = Detached {
        exe: program.exe.as_os_str(),
        arg0: &program.arg0,
        env: environment(program, &worker),
        cwd: program.cwd.as_ref().map(|path| path.as_os_str()),
        stdio: [null.as_raw_fd(), out, err],
        keep: &keep,
        socket: socket.as_fd(),
        cpus: cpu_set(&info.cpus),
        // For an executor's worker: a launcher signals agents, which end their programs, and must not kill the worker itself.
        own_session: program.output.is_some(),
    }
    .start(&mut || watch.check_alive().map_err(std::io::Error::other));
    let not_started = |e: std::io::Error| {
        fail(&format!("starting {exe}"), e)
            .remedy("the program's executable must be readable under the same path on every node")
    };
    let started = started.map_err(|e| watch.hung().unwrap_or_else(|| not_started(e)))?;
    drop(theirs);
    let greeted = await_hello(&mut socket, &started, &mut watch);
    let pid = greeted.map_err(|silence| {
        // The process may still exist, stopped.
        started.process.end();
        match silence {
            NoHello::Refused(error) => not_started(error),
            NoHello::Hung(error) => error,
            NoHello::Gone => ended(&info.id.to_string(), &exe, pipes.as_ref().map(|(_, _, err, ..)| err)),
        }
    })?;
    let mut process = started.process;
    // The hello of a worker started by a wrapper contains the worker's own number.
    if pid.cast_unsigned() != started.pid {
        process = Handle::new(pid, socket.as_fd()).map_err(|e| fail("pidfd_open", e))?;
    }
    process = process.end_with(pid, lifeline);
    let output = pipes.map(|(out, _, err, _, sink)| Output::start(out, err, sink)).transpose()?;
    Ok(Worker { socket, process, pid: pid.cast_unsigned(), output })
}

/// The reason why a worker's hello does not arrive.
enum NoHello {
    /// The executable can't be run.
    Refused(std::io::Error),
    /// The process has ended.
    Gone,
    /// The worker does not respond.
    Hung(Error),
}

/// Waits for the hello that the worker sends, with its number, once libacc has taken over.
fn await_hello(socket: &mut UnixStream, started: &Started, watch: &mut StartWatch<'_>) -> Result<i32, NoHello> {
    let mut reports = true;
    loop {
        let ready = process::poll(
            [socket.as_raw_fd(), if reports { started.report.as_raw_fd() } else { -1 }],
            Some(CHECK_INTERVAL),
        );
        if ready[1] {
            if let Some(error) = started.refused() {
                return Err(NoHello::Refused(error));
            }
            reports = false;
        }
        if ready[0] {
            let mut hello = [0u8; 4];
            return match socket.read_exact(&mut hello) {
                Ok(()) => Ok(i32::from_ne_bytes(hello)),
                // The report may have arrived after the last check.
                Err(_) => Err(started.refused().filter(|_| reports).map_or(NoHello::Gone, NoHello::Refused)),
            };
        }
        if ready == [false; 2] {
            watch.check_alive().map_err(NoHello::Hung)?;
        }
    }
}

/// Most of a worker's last words that an error quotes.
const WORDS_MAX: usize = 1 << 10;

/// Returns the error for a worker that ended before it was ready, with its output in `written`, if that was captured.
fn ended(device: &str, exe: &str, written: Option<&OwnedFd>) -> Error {
    let mut words = Vec::new();
    if let Some(mut from) = written.and_then(|from| from.try_clone().ok()).map(File::from) {
        let mut more = [0; WORDS_MAX];
        // Processes that it started may live on, and are not waited for.
        while words.len() < WORDS_MAX && process::readable(&from, Some(Duration::ZERO)) {
            match from.read(&mut more[..WORDS_MAX - words.len()]) {
                Ok(len) if len > 0 => words.extend_from_slice(&more[..len]),
                _ => break,
            }
        }
    }
    let words = String::from_utf8_lossy(&words);
    let words = words.trim().strip_prefix(WORKER_SAYS).unwrap_or(words.trim()).replace('\n', "; ");
    let printed = if words.is_empty() { String::new() } else { format!(": {words}") };
    let remedy = match written {
        Some(_) if !words.is_empty() => {
            "the executable must run on every node as it does here, with the same libacc.so"
        }
        Some(_) => "the executable must be dynamically linked, and load libacc.so before it does anything",
        None => {
            "the executable must be dynamically linked, and load libacc.so before it does anything; see what it wrote above"
        }
    };
    Error::new(ErrorCode::DeviceInit, format!("the worker of {device}, {exe}, ended before it was ready{printed}"))
        .remedy_if(sandbox::remedy(words))
        .remedy(remedy)
}

/// Returns the remedy for an exhausted resource.
fn scarce(error: &std::io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EAGAIN => Some("allow the user more processes (ulimit -u)"),
        _ => accord_types::scarce::remedy(error),
    }
}

/// Returns the worker's environment: the program's, and the variables that make it a worker.
fn environment(program: &ProgramSpec, worker: &str) -> Vec<Vec<u8>> {
    const PRELOAD: &str = "LD_PRELOAD";
    let mut env = program.env.clone().unwrap_or_else(|| std::env::vars_os().collect());
    if let Some(libacc) = &program.libacc {
        let others = env.iter().find(|(name, _)| name == PRELOAD).map(|(_, value)| value.clone());
        env.retain(|(name, _)| name != PRELOAD);
        env.push((PRELOAD.into(), preload(libacc, others.as_deref())));
    }
    env.retain(|(name, _)| name != WORKER_ENV);
    env.push((WORKER_ENV.into(), worker.into()));
    env.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()).collect()
}

/// Returns the preload list, with `libacc` before the program's other entries.
fn preload(libacc: &Path, others: Option<&OsStr>) -> OsString {
    let mut all = libacc.as_os_str().to_owned();
    for other in others.unwrap_or_default().as_bytes().split(|byte| b": ".contains(byte)) {
        if !other.is_empty() && !other.ends_with(b"libacc.so") {
            all.push(":");
            all.push(OsStr::from_bytes(other));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;

    #[test]
    fn a_workers_last_words_are_quoted_without_waiting_for_more() {
        let (from, to) = pipe().unwrap();
        let mut to = File::from(to);
        let printed = |from| ended("h2:0", "/bin/x", Some(from)).to_string();
        assert!(printed(&from).contains("before it was ready"));
        std::io::Write::write_all(&mut to, b"accord: worker: libacc.so differs\nand more\n").unwrap();
        assert!(printed(&from).contains("before it was ready: libacc.so differs; and more"), "{}", printed(&from));
        std::io::Write::write_all(&mut to, &[b'x'; 10 * WORDS_MAX]).unwrap();
        assert!(printed(&from).len() < 2 * WORDS_MAX);
    }

    #[test]
    fn exhausted_resource_is_named_rather_than_the_executable() {
        assert!(scarce(&Error::from_raw_os_error(libc::EMFILE)).is_some_and(|remedy| remedy.contains("ulimit -n")));
        assert!(scarce(&Error::from_raw_os_error(libc::EAGAIN)).is_some_and(|remedy| remedy.contains("ulimit -u")));
        assert_eq!(scarce(&Error::from_raw_os_error(libc::ENOENT)), None);
    }
}
