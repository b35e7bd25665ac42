//! Processes under a time limit, with all their descendants.

use crate::Result;
use accord_types::settings::SPIN_CORES;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time limit of a program.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit for descendants after the program's end.
const LEFTOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of polls for conditions that can't be awaited.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A command to run.
pub struct Job {
    command: Command,
    timeout: Duration,
    mark: String,
}

/// A process that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Whether the process was killed at the time limit.
    pub timed_out: bool,
    /// Process number and command line of remaining descendants, which were then killed.
    pub left_behind: Vec<String>,
}

/// A process that runs.
pub struct Running {
    child_id: u32,
    mark: String,
    timeout: Duration,
    ended: Receiver<std::io::Result<ExitStatus>>,
    is_finished: bool,
    stdout: Reader,
    stderr: Reader,
}

/// Reads a stream to its end, and makes the text so far available.
struct Reader {
    text: Arc<(Mutex<Vec<u8>>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Job {
    /// The variable that marks a run's processes, which inherit it.
    pub(crate) const MARK: &str = "ACCORD_TEST_RUN";

    /// Creates a command in a process group of its own, without settings of Accord and OpenACC except
    /// `ACCORD_SPIN_CORES`, which may be set for all tests.
    pub fn new(program: impl Into<OsString>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new(program.into());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("ACC_")
                || (text.starts_with("ACCORD_") && text != SPIN_CORES.name)
                || text.starts_with("GOMP_")
                || text == "LD_PRELOAD"
            {
                command.env_remove(&name);
            }
        }
        command.env(Self::MARK, &mark).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, timeout: TIMEOUT, mark }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.command.arg(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<T: Into<OsString>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.command.args(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.command.env(name, value.into());
        self
    }

    /// Sets environment variables.
    #[must_use]
    pub fn envs(self, all: impl IntoIterator<Item = (String, OsString)>) -> Self {
        all.into_iter().fold(self, |job, (name, value)| job.env(&name, value))
    }

    /// Runs it as this user, and as the group with the same number.
    #[must_use]
    pub fn user(mut self, user: u32) -> Self {
        self.command.uid(user).gid(user);
        self
    }

    /// Sets its standard input.
    #[must_use]
    pub fn stdin(mut self, from: impl Into<Stdio>) -> Self {
        self.command.stdin(from);
        self
    }

    /// Sets another time limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// Returns an error if it can't be started. A time limit is no error, see [`Finished::timed_out`].
    pub fn run(self) -> Result<Finished> {
        self.start()?.finish()
    }

    /// Starts it.
    ///
    /// # Errors
    /// Returns an error if it can't be started.
    pub fn start(mut self) -> Result<Running> {
        let mut child: Child =
            self.command.spawn().map_err(|error| format!("cannot start {:?}: {error}", self.command.get_program()))?;
        let stdout = Reader::start(child.stdout.take());
        let stderr = Reader::start(child.stderr.take());
        let child_id = child.id();
        let (send, ended) = channel();
        std::thread::spawn(move || send.send(child.wait()));
        Ok(Running { child_id, mark: self.mark, timeout: self.timeout, ended, is_finished: false, stdout, stderr })
    }
}

impl Running {
    /// Returns its process number, which is also its process group's.
    pub fn id(&self) -> u32 {
        self.child_id
    }

    /// Returns the value by which its descendants are marked in their environment.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Sends a signal to it alone.
    ///
    /// # Errors
    /// Returns an error if it is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(pid(self.child_id), signal).map_err(|error| format!("kill {}: {error}", self.child_id))
    }

    /// Whether the process is still running.
    pub fn goes_on(&self) -> bool {
        // The thread that waits for its end reaps it.
        kill(Pid::from_raw(self.child_id.cast_signed()), None).is_ok()
    }

    /// Waits until its output contains `text`.
    ///
    /// # Errors
    /// Returns the output so far if the text doesn't come within its time limit.
    pub fn await_output(&self, text: &str) -> Result<()> {
        self.stdout.await_text(text, self.timeout).map_err(|printed| {
            format!("waited in vain for {text:?}\n-- stdout\n{printed}\n-- stderr\n{}", self.stderr.so_far())
        })
    }

    /// Waits until its standard error contains `text`.
    ///
    /// # Errors
    /// Returns the output so far if the text doesn't come within its time limit.
    pub fn await_errors(&self, text: &str) -> Result<()> {
        self.stderr.await_text(text, self.timeout).map_err(|printed| format!("waited in vain for {text:?}\n{printed}"))
    }

    /// Returns its standard output so far.
    pub fn output(&self) -> String {
        self.stdout.so_far()
    }

    /// Waits for its end, and then for the end of its descendants.
    ///
    /// # Errors
    /// Returns an error if the system does not report its status.
    pub fn finish(mut self) -> Result<Finished> {
        let (status, timed_out) = match self.ended.recv_timeout(self.timeout) {
            Ok(status) => (status, false),
            Err(_) => {
                let _ = killpg(pid(self.child_id), Signal::SIGKILL);
                (self.ended.recv().map_err(|error| error.to_string())?, true)
            }
        };
        self.is_finished = true;
        let status = status.map_err(|error| error.to_string())?;
        let left_behind = if timed_out { leftovers(&self.mark) } else { await_leftovers(&self.mark, LEFTOVER_TIMEOUT) };
        kill_all(&left_behind);
        Ok(Finished { status, stdout: self.stdout.finish(), stderr: self.stderr.finish(), timed_out, left_behind })
    }
}

/// Kills the processes of a test that fails before [`Running::finish`].
impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_finished {
            kill_all(&leftovers(&self.mark));
        }
    }
}

/// Kills processes listed by [`leftovers`].
fn kill_all(listed: &[String]) {
    for process in listed {
        if let Some(id) = process.split(' ').next().and_then(|id| id.parse().ok()) {
            let _ = kill(pid(id), Signal::SIGKILL);
        }
    }
}

impl Finished {
    /// Returns the exit status as in a shell: 128 + n for signal n.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Returns an error with all output, unless it ended with status 0, in time and without descendants.
    ///
    /// # Errors
    /// Returns the report of a program that has failed.
    pub fn success(self) -> Result<Self> {
        if self.code() == 0 && !self.timed_out && self.left_behind.is_empty() {
            return Ok(self);
        }
        Err(self.report())
    }

    /// Returns all that is known about it.
    pub fn report(&self) -> String {
        let mut text = format!("exit status {}", self.code());
        if self.timed_out {
            text += ", killed at the time limit";
        }
        if !self.left_behind.is_empty() {
            text += &format!("\nleft behind: {}", self.left_behind.join("; "));
        }
        format!("{text}\n-- stdout\n{}\n-- stderr\n{}", self.stdout.trim_end(), self.stderr.trim_end())
    }
}

/// Returns process number and command line of the processes with the mark.
pub fn leftovers(mark: &str) -> Vec<String> {
    let wanted = format!("{}={mark}", Job::MARK);
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes()) {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(format!("{name} {}", String::from_utf8_lossy(&line).replace('\0', " ").trim_end()));
        }
    }
    found
}

/// Waits until no process has the mark; returns the remaining ones.
pub(crate) fn await_leftovers(mark: &str, timeout: Duration) -> Vec<String> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = leftovers(mark);
        if left.is_empty() || Instant::now() >= deadline {
            return left;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap_or(i32::MAX))
}

impl Reader {
    fn start(from: Option<impl Read + Send + 'static>) -> Self {
        let text: Arc<(Mutex<Vec<u8>>, Condvar)> = Arc::default();
        let shared = text.clone();
        let thread = std::thread::spawn(move || {
            let Some(mut from) = from else { return };
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut piece) {
                lock(&shared.0).extend_from_slice(&piece[..length]);
                shared.1.notify_all();
            }
        });
        Self { text, thread: Some(thread) }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&lock(&self.text.0)).into_owned()
    }

    fn await_text(&self, text: &str, timeout: Duration) -> Result<()> {
        let missing = |bytes: &mut Vec<u8>| !String::from_utf8_lossy(bytes).contains(text);
        let (guard, waited) = self
            .text
            .1
            .wait_timeout_while(lock(&self.text.0), timeout, missing)
            .unwrap_or_else(PoisonError::into_inner);
        drop(guard);
        if waited.timed_out() { Err(self.so_far()) } else { Ok(()) }
    }

    fn finish(&mut self) -> String {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        String::from_utf8_lossy(&lock(&self.text.0)).into_owned()
    }
}

fn lock(bytes: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}
