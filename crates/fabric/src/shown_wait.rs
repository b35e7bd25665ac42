//! Shows the user the state of a request that waits.

use crate::frame::session::Message;
use accord_types::{Count, QueuedJob, Result};
use std::time::{Duration, Instant};

/// Shorter waits are not shown.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

/// The result of waiting for a message for a time.
pub enum Heard {
    /// A message; `None` if the connection is lost.
    Message(Option<Message>),
    /// Nothing yet.
    Nothing,
}

/// The state of a wait, as last shown.
pub(crate) struct ShownWait<'a> {
    since: Instant,
    line: String,
    /// Whether the line was shown.
    is_shown: bool,
    show: &'a dyn Fn(Option<&str>),
}

impl<'a> ShownWait<'a> {
    pub(crate) fn new(show: &'a dyn Fn(Option<&str>)) -> Self {
        Self { since: Instant::now(), line: String::new(), is_shown: false, show }
    }

    /// Takes the coordinator's reason for the wait. For a gang one rank gets it, and the others get an empty one.
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

    /// Returns the coordinator's next message; `None` if the connection is lost. Shows the state when it is due. `hear`
    /// waits for a message for a time, or without limit.
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

/// Returns a job's name in messages.
pub(crate) fn called(job: &QueuedJob) -> String {
    format!("job {}", job.token.job)
}

fn line_of(job: &QueuedJob) -> String {
    let QueuedJob { token: _, position, why, starts_in_ms } = job;
    let before = match position {
        0 => "it is the next one".to_owned(),
        jobs => format!("{} before it", Count(usize::try_from(*jobs).unwrap_or(usize::MAX), "job")),
    };
    // In minutes: a start that slips by seconds need not be shown.
    let start = starts_in_ms.map(|ms| format!(", starts in about {} min", ms.div_ceil(60_000))).unwrap_or_default();
    format!("{} waits: {why}; {before}{start}; Ctrl-C withdraws it", called(job))
}
