//! Displays the state of a waiting request to the user.

use crate::frame::session::Message;
use accord_types::{Count, QueuedJob, Result};
use std::time::{Duration, Instant};

/// Shorter waits are not displayed.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

/// The result of waiting for a message for a limited time.
pub enum WaitedMessage {
    /// A message; `None` if the connection is lost.
    Message(Option<Message>),
    /// No message arrived in time.
    Nothing,
}

/// The last displayed state of a wait.
pub(crate) struct WaitDisplay<'a> {
    since: Instant,
    line: String,
    /// Whether the line was displayed.
    is_displayed: bool,
    show: &'a dyn Fn(Option<&str>),
}

impl<'a> WaitDisplay<'a> {
    pub(crate) fn new(show: &'a dyn Fn(Option<&str>)) -> Self {
        Self { since: Instant::now(), line: String::new(), is_displayed: false, show }
    }

    /// Records the coordinator's reason for the wait. Of a gang's ranks one gets it, the others an empty text.
    pub(crate) fn update(&mut self, job: &QueuedJob) {
        let line = if job.why.is_empty() { String::new() } else { line_of(job) };
        if line == self.line {
            return;
        }
        self.line = line;
        self.is_displayed = false;
        if self.since.elapsed() >= SHOWN_AFTER {
            self.show_now();
        }
    }

    /// Returns the coordinator's next message, or `None` if the connection is lost. Displays the state when it is due. `hear`
    /// waits for a message for a time, or without limit.
    pub(crate) fn next(&mut self, hear: impl Fn(Option<Duration>) -> Result<WaitedMessage>) -> Result<Option<Message>> {
        let left = SHOWN_AFTER.saturating_sub(self.since.elapsed());
        let mut received = hear(Some(left).filter(|left| !left.is_zero()))?;
        while matches!(received, WaitedMessage::Nothing) {
            self.show_now();
            received = hear(None)?;
        }
        match received {
            WaitedMessage::Message(message) => Ok(message),
            WaitedMessage::Nothing => Ok(None),
        }
    }

    fn show_now(&mut self) {
        if !self.line.is_empty() && !std::mem::replace(&mut self.is_displayed, true) {
            (self.show)(Some(&self.line));
        }
    }
}

impl Drop for WaitDisplay<'_> {
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
        None => String::new(),
        Some(0) => "; it is the next one".to_owned(),
        Some(jobs) => format!("; {} before it", Count(usize::try_from(*jobs).unwrap_or(usize::MAX), "job")),
    };
    // In whole minutes, so that a start that slips by seconds causes no new line.
    let start = starts_in_ms.map(|ms| format!(", starts in about {} min", ms.div_ceil(60_000))).unwrap_or_default();
    format!("{} waits: {why}{before}{start}; Ctrl-C withdraws it", called(job))
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{JobToken, SessionKey};
    use std::cell::RefCell;

    fn queued(position: impl Into<Option<u32>>, why: &str, starts_in_ms: Option<u64>) -> QueuedJob {
        let token = JobToken { job: 7, key: SessionKey([0; SessionKey::LEN]) };
        QueuedJob { token, position: position.into(), why: why.to_owned(), starts_in_ms }
    }

    #[test]
    fn a_line_has_the_place_of_a_job_that_has_one() {
        for (position, place) in [(None, ""), (Some(0), "; it is the next one"), (Some(2), "; 2 jobs before it")] {
            assert_eq!(
                line_of(&queued(position, "it is on hold", None)),
                format!("job 7 waits: it is on hold{place}; Ctrl-C withdraws it")
            );
        }
    }

    #[test]
    fn a_line_has_number_reason_position_start_and_how_to_withdraw() {
        let next = line_of(&queued(0, "all starts are paused", None));
        assert_eq!(next, "job 7 waits: all starts are paused; it is the next one; Ctrl-C withdraws it");
        let later = line_of(&queued(3, "it needs 2 of h200", Some(90_000)));
        let expected = "job 7 waits: it needs 2 of h200; 3 jobs before it, starts in about 2 min; Ctrl-C withdraws it";
        assert_eq!(later, expected);
    }

    #[test]
    fn a_wait_is_shown_after_a_while_and_again_when_it_changes() {
        let lines = RefCell::new(Vec::new());
        let show = |line: Option<&str>| lines.borrow_mut().push(line.map(str::to_owned));
        let count = || lines.borrow().len();
        // No time has passed, however slow the machine is.
        let since = Instant::now() + Duration::from_secs(3_600);
        let mut displayed = WaitDisplay { since, line: String::new(), is_displayed: false, show: &show };
        displayed.update(&queued(1, "a", None));
        assert_eq!(count(), 0);
        let received = displayed
            .next(|time| Ok(if time.is_some() { WaitedMessage::Nothing } else { WaitedMessage::Message(None) }));
        assert!(matches!(received, Ok(None)));
        displayed.update(&queued(1, "a", None));
        assert_eq!(count(), 1, "the same line twice");
        displayed.since = Instant::now().checked_sub(SHOWN_AFTER).expect("the machine runs for some seconds");
        displayed.update(&queued(1, "b", None));
        // Another rank of the gang shows the reason.
        displayed.update(&queued(1, "", None));
        drop(displayed);
        let line = |why: &str| Some(line_of(&queued(1, why, None)));
        assert_eq!(*lines.borrow(), [line("a"), line("b"), None]);
    }
}
