//! The program whose regions devices run, if its executable is started for them.

use accord_types::Check;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Receives bytes that a worker wrote to its standard output (1) or error (2).
pub type OutputSink = Arc<dyn Fn(u8, &[u8]) + Send + Sync>;

/// The program's limits on the silence of a worker.
#[derive(Clone)]
pub struct SilenceLimit {
    /// The time after which the device is given up; `None` means never.
    pub timeout: Option<Duration>,
    /// Receives a line for the user before that.
    pub notify: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The start of a worker, for threads that observe it.
#[derive(Default)]
pub struct WorkerStart {
    waits: AtomicBool,
    given_up: AtomicBool,
}

impl WorkerStart {
    /// Whether a worker was started and has not responded yet.
    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    /// Makes the start fail.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    pub(crate) fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::Release);
    }
}

/// The program whose regions a worker runs.
#[derive(Clone)]
pub struct ProgramSpec {
    /// The executable.
    pub exe: PathBuf,
    /// The program's name as invoked (`argv[0]`).
    pub arg0: OsString,
    /// The whole environment of the worker; `None` inherits the owner's.
    pub env: Option<Vec<(OsString, OsString)>>,
    /// Working directory; `None` inherits the owner's.
    pub cwd: Option<PathBuf>,
    /// `libacc.so` to preload; `None` if the environment or the executable loads it.
    pub libacc: Option<PathBuf>,
    /// The sink of the worker's output; `None` inherits the owner's.
    pub output: Option<OutputSink>,
    /// `None` if the caller observes the worker by [`crate::Device::beats`].
    pub silence_limit: Option<SilenceLimit>,
    /// The start of the worker.
    pub start: Arc<WorkerStart>,
}

impl ProgramSpec {
    /// Whether the program's environment requests guard pages around blocks of device memory.
    pub(crate) fn checks_bounds(&self) -> bool {
        let name = accord_types::settings::CHECK.name;
        let value = match &self.env {
            Some(env) => env.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone()),
            None => std::env::var_os(name),
        };
        // A value without a meaning is an error where the program's session begins.
        value.is_some_and(|value| value.to_str().and_then(Check::parse) == Some(Check::Bounds))
    }

    /// Returns this process's own program, whose workers inherit everything.
    pub fn of_this_process() -> Self {
        Self {
            exe: PathBuf::from("/proc/self/exe"),
            arg0: std::env::args_os().next().unwrap_or_default(),
            env: None,
            cwd: None,
            libacc: None,
            output: None,
            silence_limit: None,
            start: Arc::default(),
        }
    }
}
