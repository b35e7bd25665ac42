//! The job that a run holds in a cluster: requested before anything starts, and released at the command's end.

use super::signals::{Event, Signals};
use crate::failure::{Failure, Result};
use crate::output::report_line;
use accord_fabric::frame::session::Message;
use accord_fabric::session_endpoint::{self, OpenRetries, SessionConnection};
use accord_fabric::transport::PeerAddress;
use accord_scheduler::Request;
use accord_trust::Trust;
use accord_trust::attester::Attester;
use accord_types::settings::{self, parse_time};
use accord_types::short_lock::ShortLock;
use accord_types::status_line::StatusLine;
use accord_types::{ErrorCode, HeldJob, JobToken, OrderPolicy, Rank, SessionRequest, os_text, threads};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time limit of the coordinator's answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The time in which a coordinator that does not answer may still learn of the command's end.
const END_WITHIN: Duration = Duration::from_secs(30);
/// Time after which the user is informed that this takes long.
const REPORT_AFTER: Duration = Duration::from_secs(2);
/// Interval of checks whether the coordinator answers again.
const POLL: Duration = Duration::from_millis(50);

/// The state of a job's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    /// The coordinator learns of the command's end by the end of the connection.
    Up,
    /// The connection is lost, and a thread reconnects.
    Lost,
    /// The job has ended before the command.
    Over,
    /// The coordinator does not know the job any more.
    Unknown,
}

/// A job with its devices. It lasts as long as its connection, which a thread watches.
pub(crate) struct HeldJobOfRun {
    job: HeldJob,
    reach: Arc<ShortLock<Reach>>,
}

impl HeldJobOfRun {
    /// Returns the token with which programs open sessions in the job.
    pub(crate) fn token(&self) -> JobToken {
        self.job.token
    }

    /// Whether the job has ended before the command.
    pub(crate) fn is_over(&self) -> bool {
        self.reach() == Reach::Over
    }

    /// Lets a coordinator that does not answer learn of the command's end, for [`END_WITHIN`] at most. A signal stops
    /// this at once.
    pub(crate) fn finish(&self, signals: &mut Signals) {
        let (begun, job) = (Instant::now(), self.job.token.job);
        let mut reported = false;
        while self.reach() == Reach::Lost && begun.elapsed() < END_WITHIN {
            if begun.elapsed() >= REPORT_AFTER && !std::mem::replace(&mut reported, true) {
                report_line(format_args!(
                    "the program has ended, but no coordinator answers to end job {job}; trying on, for {END_WITHIN:?} in \
                     all; Ctrl-C ends this at once"
                ));
            }
            match signals.next(Some(Instant::now() + POLL)) {
                Ok(Event::Ended(..) | Event::Timeout) => {}
                Ok(Event::Signal { .. } | Event::Orphaned) | Err(_) => break,
            }
        }
        if self.reach() == Reach::Lost {
            report_line(format_args!(
                "no coordinator knows that job {job} has ended; the next one ends it soon after its start"
            ));
        }
    }

    fn reach(&self) -> Reach {
        *self.reach.lock()
    }
}

/// A job that has its devices, before a thread watches its connection.
pub(crate) struct GrantedJob {
    request: JobRequest,
    job: HeldJob,
    lane: SessionConnection,
}

impl GrantedJob {
    /// Starts the thread that watches the job's connection. If the job ends before this process does, the process gets
    /// SIGTERM. It must handle signals as events by now, as the thread inherits its mask.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub(crate) fn watch(self) -> Result<HeldJobOfRun> {
        let Self { request, job, lane } = self;
        let reach = Arc::new(ShortLock::new(Reach::Up));
        let watched = Arc::clone(&reach);
        let listen = move || {
            let end = request.listen(job, lane, &watched);
            *watched.lock() = end;
            if end == Reach::Over {
                let _ = kill(Pid::this(), Signal::SIGTERM);
            }
        };
        threads::spawn("accord-job", listen).map_err(|error| Failure::system("can't start a thread", error))?;
        Ok(HeldJobOfRun { job, reach })
    }
}

/// A request for a job, with the coordinator's address.
pub(crate) struct JobRequest {
    address: PeerAddress,
    trust: Trust,
    request: SessionRequest,
    time: Duration,
}

impl JobRequest {
    /// Creates a request of `accord run` for a program with this many ranks. `lookup` reads one environment variable.
    ///
    /// # Errors
    /// Returns the fault of a setting for reaching the coordinator.
    pub(crate) fn new(
        lookup: &dyn Fn(&str) -> Option<String>,
        program: &OsStr,
        ranks: u32,
        request: &Request,
    ) -> Result<Self> {
        let setting = |setting: settings::Setting| setting.find(lookup).map(|(_, value)| value);
        let address = setting(settings::COORDINATOR).ok_or_else(|| Failure::new("there is no coordinator"))?;
        let (folder, munge, token, home) =
            (setting(settings::TLS), setting(settings::MUNGE), setting(settings::TOKEN_FILE), std::env::var_os("HOME"));
        let attester = Attester::of_settings(munge.as_deref(), token.as_deref());
        let trust = Trust::of_program(&address, folder.as_deref(), attester, home.as_deref())?;
        let own = nix::unistd::gethostname().unwrap_or_default();
        let rank = Rank { rank: 0, size: ranks, local_rank: 0, local_size: 0, job: 0 };
        let request = SessionRequest {
            node_name: setting(settings::NODE).unwrap_or_else(|| own.to_string_lossy().into_owned()),
            pid: std::process::id(),
            program: os_text::displayed(os_text::encode(program).rsplit('/').next().unwrap_or_default()),
            rank: (ranks > 1).then_some(rank),
            kind: None,
            order: OrderPolicy::Local,
            devices: Some(request.to_string()),
            job: None,
        };
        let time = parse_time(&settings::OPEN_TIMEOUT.in_force(lookup).0).unwrap_or_default();
        Ok(Self { address: PeerAddress::new(address), trust, request, time })
    }

    /// Waits until the job has its devices. The line shows why it waits.
    ///
    /// # Errors
    /// Returns why the coordinator can't be reached, or why it refuses.
    pub(crate) fn hold(self, line: &StatusLine) -> Result<GrantedJob> {
        let (job, lane) = self.ask(&|text| text.map_or_else(|| line.end(), |text| line.show(text)))?;
        Ok(GrantedJob { request: self, job, lane })
    }

    fn ask(&self, show: &dyn Fn(Option<&str>)) -> Result<(HeldJob, SessionConnection)> {
        let say = |line: &str| report_line(format_args!("{line}"));
        let retries = OpenRetries { time: self.time, notify: &say, waits: show };
        let identity = self.trust.current(|_| ());
        let held = session_endpoint::hold_with_retries(&self.address, &identity, ANSWER_LIMIT, &retries, &self.request);
        held.map_err(|error| match error.code() {
            ErrorCode::DeviceUnavailable | ErrorCode::InvalidArgument => Failure::no_devices(Failure::from(error)),
            _ => Failure::from(error),
        })
    }

    /// Waits until the job has ended, and keeps `reach` up to date. Returns [`Reach::Unknown`] if the coordinator does not
    /// know the job any more; its programs then keep their devices.
    fn listen(mut self, job: HeldJob, mut lane: SessionConnection, reach: &ShortLock<Reach>) -> Reach {
        self.request.job = Some(job.token);
        self.request.devices = None;
        loop {
            match lane.next() {
                Ok(Some(Message::Warning(text))) => report_line(format_args!("{text}")),
                Ok(Some(Message::Ended(text))) => {
                    report_line(format_args!("{text}"));
                    return Reach::Over;
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => {
                    *reach.lock() = Reach::Lost;
                    match self.ask(&|_| ()) {
                        Ok((_, again)) => lane = again,
                        Err(failure) => {
                            report_line(format_args!("job {} is held no longer: {failure}", job.token.job));
                            return Reach::Unknown;
                        }
                    }
                    *reach.lock() = Reach::Up;
                }
            }
        }
    }
}
