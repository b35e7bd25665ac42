//! The log of an executor's standard error, and its reports. An executor gets a pipe as standard error, and nothing of
//! the agent's own. The agent logs a bounded number of bounded lines.

use crate::executor_reports::ExecutorReports;
use crate::session_logs::SessionLogs;
use accord_types::SessionId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most lines of one executor that are logged; further ones are counted.
const LINES_MAX: u64 = 64;
/// Most bytes of a line; the rest is dropped.
const LINE_MAX: usize = 1 << 10;
/// Most reads of the pipe after the executor's end, since another process may go on writing to it.
const READS_AFTER_END_MAX: u32 = 16;

/// The agent's end of an executor's standard error.
pub(crate) struct ExecutorOutput {
    pipe: File,
    session: SessionId,
    lines: Lines,
    reports: ExecutorReports,
    logs: Arc<SessionLogs>,
}

impl ExecutorOutput {
    pub(crate) fn new(pipe: OwnedFd, session: SessionId, reports: ExecutorReports, logs: Arc<SessionLogs>) -> Self {
        Self { pipe: pipe.into(), session, lines: Lines::default(), reports, logs }
    }

    /// Logs the lines of the pipe, also in the session's log, and passes reports on, until `process`, the executor, has ended.
    pub(crate) fn log_until_end_of(mut self, process: &OwnedFd) {
        let (mut open, mut left) = (true, READS_AFTER_END_MAX);
        loop {
            let mut handles = vec![PollFd::new(process, PollFlags::IN)];
            handles.extend(open.then(|| PollFd::new(&self.pipe, PollFlags::IN)));
            let pause = self.reports.pause();
            let readable = self.reports.control().filter(|_| pause.is_none());
            handles.extend(readable.map(|control| PollFd::new(control, PollFlags::IN)));
            let timeout = pause.and_then(|pause| Timespec::try_from(pause).ok());
            match poll(&mut handles, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            let received = |which: usize| handles.get(which).is_some_and(|handle| !handle.revents().is_empty());
            let (ended, printed) = (received(0), open && received(1));
            let reported = readable.is_some() && received(usize::from(open) + 1);
            if reported || ended {
                self.reports.pass_on();
            }
            if ended && (!printed || left == 0) {
                break;
            }
            if ended {
                left -= 1;
            }
            if printed {
                open = self.read();
            }
        }
        self.finish();
    }

    /// Reads the pipe. Returns `false` at its end.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.pipe.read(&mut bytes) {
            Ok(0) => false,
            Ok(len) => {
                for line in self.lines.add(&bytes[..len]) {
                    self.log(&line);
                }
                true
            }
            Err(error) => error.kind() == std::io::ErrorKind::Interrupted,
        }
    }

    fn log(&self, line: &str) {
        tracing::warn!("the executor of session {} says: {line}", self.session);
        self.logs.note(self.session, line);
    }

    fn finish(mut self) {
        if let Some(line) = self.lines.last() {
            self.log(&line);
        }
        if self.lines.dropped > 0 {
            tracing::warn!("the executor of session {} has said {} more lines", self.session, self.lines.dropped);
            self.logs.note(self.session, &format!("the executor has said {} more lines", self.lines.dropped));
        }
    }
}

/// Divides the bytes read into lines that can be logged.
#[derive(Default)]
pub(crate) struct Lines {
    /// The start of an incomplete line, at most [`LINE_MAX`] bytes.
    begun: Vec<u8>,
    logged: u64,
    /// Number of lines beyond the limit.
    pub(crate) dropped: u64,
}

impl Lines {
    /// Adds bytes, and returns the lines that they complete.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for &byte in bytes {
            if byte == b'\n' {
                lines.extend(self.last());
            } else if self.begun.len() < LINE_MAX {
                self.begun.push(byte);
            }
        }
        lines
    }

    /// Ends a line. Returns `None` if it is empty or beyond the limit.
    pub(crate) fn last(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.begun);
        if line.is_empty() {
            return None;
        }
        if self.logged == LINES_MAX {
            self.dropped += 1;
            return None;
        }
        self.logged += 1;
        // Escaped, so that it can't control a terminal or look like another line.
        Some(String::from_utf8_lossy(&line).escape_debug().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_hold_nothing_that_a_terminal_obeys() {
        let mut lines = Lines::default();
        assert_eq!(lines.add(b"one\ntw"), ["one"]);
        assert_eq!(lines.add(b"o\x1b[2J\r\n\n"), ["two\\u{1b}[2J\\r"]);
        let long = [&[b'x'; 10 * LINE_MAX][..], b"\n"].concat();
        assert_eq!(lines.add(&long)[0].len(), LINE_MAX);
        let many = "y\n".repeat(100);
        assert_eq!(lines.add(many.as_bytes()).len() as u64, LINES_MAX - 3);
        assert_eq!((lines.last(), lines.dropped), (None, 100 - (LINES_MAX - 3)));
        assert!(lines.begun.len() <= LINE_MAX);
    }
}
