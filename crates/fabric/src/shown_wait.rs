//! What people see of a request that waits.

use crate::frame::session::Message;
use accord_types::{Count, QueuedJob, Result};
use std::time::{Duration, Instant};

/// A request that waits for less is not spoken of.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

/// What has come within a time.
pub(crate) enum Heard {
    /// A message; none: the connection is gone.
    Message(Option<Message>),
    /// Nothing yet.
    Nothing,
}

/// The state of a wait, as it was shown last.
pub(crate) struct ShownWait<'a> {
    since: Instant,
    line: String,
    /// The line was shown.
    is_shown: bool,
    show: &'a dyn Fn(Option<&str>),
}

impl<'a> ShownWait<'a> {
    pub(crate) fn new(show: &'a dyn Fn(Option<&str>)) -> Self {
        Self { since: Instant::now(), line: String::new(), is_shown: false, show }
    }

    /// The coordinator says why the request waits. Of a gang it says so to one rank, and nothing to the others.
    pub(crate) fn update(&mut self, job: &QueuedJob) {
        let line = if job.why.is_empty() { String::new() } else { line_of(job) };
        if line == self.line {
            return;
        }
        self.line = line;
        self.is_shown = false;
        if self.since.elapsed() >= SHOWN_AFTER {
            self.show_now();
        }
    }

    /// Returns the coordinator's next message; none if the connection is gone. Shows meanwhile what is to be shown. `hear` waits for a message
    /// for a time, or without end.
    pub(crate) fn next(&mut self, hear: impl Fn(Option<Duration>) -> Result<Heard>) -> Result<Option<Message>> {
        let left = SHOWN_AFTER.saturating_sub(self.since.elapsed());
        let mut heard = hear(Some(left).filter(|left| !left.is_zero()))?;
        while matches!(heard, Heard::Nothing) {
            self.show_now();
            heard = hear(None)?;
        }
        match heard {
            Heard::Message(message) => Ok(message),
            Heard::Nothing => Ok(None),
        }
    }

    fn show_now(&mut self) {
        if !self.line.is_empty() && !std::mem::replace(&mut self.is_shown, true) {
            (self.show)(Some(&self.line));
        }
    }
}

impl Drop for ShownWait<'_> {
    fn drop(&mut self) {
        (self.show)(None);
    }
}

/// What messages call a job.
pub(crate) fn called(job: &QueuedJob) -> String {
    format!("job {}", job.token.job)
}

fn line_of(job: &QueuedJob) -> String {
    let QueuedJob { token: _, position, why, starts_in_ms } = job;
    let before = match position {
        0 => "it is the next one".to_owned(),
        jobs => format!("{} before it", Count(usize::try_from(*jobs).unwrap_or(usize::MAX), "job")),
    };
    // Minutes: a start that slips by seconds is no news.
    let start = starts_in_ms.map(|ms| format!(", starts in about {} min", ms.div_ceil(60_000))).unwrap_or_default();
    format!("{} waits: {why}; {before}{start}; Ctrl-C withdraws it", called(job))
}
