//! The owner's observation of a worker that may be stopped or frozen, from its start on.

use super::process::Handle;
use crate::program::{ProgramSpec, SilenceLimit};
use accord_types::liveness::{Liveness, Verdict};
use accord_types::short_lock::ShortLock;
use accord_types::{DeviceInfo, Error, ErrorCode, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time limit of the program's constructors in a worker.
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// The liveness of a worker, for its owner.
pub(crate) struct Watched {
    /// `None` if the caller checks the worker's liveness itself.
    silence_limit: Option<SilenceLimit>,
    worker: Arc<Handle>,
    /// The device's name in messages.
    name: String,
    begun: Instant,
    liveness: ShortLock<Liveness>,
    /// Whether the worker is stopped because its job is suspended.
    is_stopped: AtomicBool,
}

impl Watched {
    pub(crate) fn new(silence_limit: Option<SilenceLimit>, worker: Arc<Handle>, name: String) -> Self {
        Self {
            silence_limit,
            worker,
            name,
            begun: Instant::now(),
            liveness: ShortLock::default(),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Stops the worker. It is not expected to give signs of life until [`Watched::go_on`].
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.worker.stop();
    }

    /// Lets a stopped worker go on.
    pub(crate) fn go_on(&self) {
        self.worker.go_on();
        self.is_stopped.store(false, Ordering::SeqCst);
    }

    /// Returns the worker's beats for a peer that watches it. While it is stopped, they grow with time.
    pub(crate) fn beats(&self, beats: u64) -> u64 {
        let is_stopped = self.is_stopped.load(Ordering::SeqCst);
        if is_stopped { beats.wrapping_add(1 + self.begun.elapsed().as_secs()) } else { beats }
    }

    /// Checks the worker's liveness at intervals. Threads that wait for the worker call it. Returns `true` if it hangs.
    pub(crate) fn check_alive(&self, beats: u64) -> bool {
        let Some(silence_limit) = &self.silence_limit else { return false };
        let mut liveness = self.liveness.lock();
        let is_awaited = !self.is_stopped.load(Ordering::SeqCst);
        let verdict = liveness.check_alive(self.begun.elapsed(), beats, is_awaited, silence_limit.timeout);
        drop(liveness);
        if let Verdict::Silent(silence) = verdict {
            (silence_limit.notify)(&format!("waiting for {}: no answer for {} s", self.name, silence.as_secs()));
        }
        matches!(verdict, Verdict::Hung(_))
    }

    /// Returns the error of a device whose worker does not respond.
    pub(crate) fn hung(&self) -> Error {
        hung(&self.name)
    }

    /// Returns the error of a device whose worker has sent an impossible value, in shared memory or in an answer.
    pub(crate) fn corrupt(&self, what: &str) -> Error {
        Error::new(ErrorCode::Execution, format!("the worker's ring is corrupt ({what}), that of {}", self.name)).remedy(
            "a region has written where it has no data: check its data clauses and the bounds of its arrays; acc_shutdown and acc_init \
             start the device anew",
        )
    }

    /// Ends the worker, without waiting for its end.
    pub(crate) fn end(&self) {
        self.worker.end();
    }
}

fn hung(name: &str) -> Error {
    Error::new(
        ErrorCode::DeviceUnavailable,
        format!("{name} gives no sign of life: it is stopped, or its machine overloaded"),
    )
    .remedy("see who has stopped it; ACCORD_TIMEOUT sets how long it is waited for")
}

/// Observes a worker that was started and has not sent its hello.
pub(crate) struct StartWatch<'a> {
    program: &'a ProgramSpec,
    name: String,
    begun: Instant,
    liveness: Liveness,
    hung: Option<Error>,
}

impl<'a> StartWatch<'a> {
    pub(crate) fn new(program: &'a ProgramSpec, info: &DeviceInfo) -> Self {
        program.start.set_waits(true);
        let name = format!("the worker of {} (node {})", info.id, info.node_name);
        Self { program, name, begun: Instant::now(), liveness: Liveness::default(), hung: None }
    }

    /// Checks at intervals whether to continue the wait.
    ///
    /// # Errors
    /// Returns the reason to stop waiting, if there is one.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        let silence_limit = self.program.silence_limit.as_ref();
        let timeout = silence_limit.and_then(|silence_limit| silence_limit.timeout);
        let timeout = timeout.map_or(START_TIME_MAX, |timeout| timeout.min(START_TIME_MAX));
        let verdict = self.liveness.check_alive(self.begun.elapsed(), 0, true, Some(timeout));
        if let (Verdict::Silent(silence), Some(silence_limit)) = (verdict, silence_limit) {
            (silence_limit.notify)(&format!("waiting for {}: no answer for {} s", self.name, silence.as_secs()));
        }
        if matches!(verdict, Verdict::Hung(_)) || self.program.start.is_given_up() {
            return Err(self.hung.insert(hung(&self.name)).clone());
        }
        Ok(())
    }

    /// Returns the error of a failed check, if any.
    pub(crate) fn hung(&self) -> Option<Error> {
        self.hung.clone()
    }
}

impl Drop for StartWatch<'_> {
    fn drop(&mut self) {
        self.program.start.set_waits(false);
    }
}
