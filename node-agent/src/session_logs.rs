//! The last lines about each session: what the agent says of it and what its executors have written, for the session's user.

use accord_proto::v1::LogLine;
use accord_types::SessionId;
use accord_types::short_lock::ShortLock;
use accord_types::texts::{WORDS_MAX, cut};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Sessions with a log; one more takes the place of the one that ended first, or else of the oldest.
const SESSIONS_MAX: usize = 1_024;
/// Lines of a session that are kept; one more takes the place of the first.
const LINES_MAX: usize = 256;
/// Bytes of these.
const BYTES_MAX: usize = 32 << 10;
/// How long a log is kept once its session has no executor any more.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// The logs of a node's sessions. Any thread may use them.
pub(crate) struct SessionLogs {
    began: Instant,
    logs: ShortLock<BTreeMap<SessionId, Log>>,
}

#[derive(Default)]
struct Log {
    user: String,
    lines: VecDeque<LogLine>,
    bytes: usize,
    dropped: u64,
    /// When its last executor has ended; none while there is one.
    ended: Option<Duration>,
}

/// The log of one session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SessionLog {
    /// The session's user.
    pub(crate) user: String,
    /// The last lines, the oldest first.
    pub(crate) lines: Vec<LogLine>,
    /// Lines before them that are not kept.
    pub(crate) dropped: u64,
}

impl Default for SessionLogs {
    fn default() -> Self {
        Self { began: Instant::now(), logs: ShortLock::default() }
    }
}

impl SessionLogs {
    /// Begins a session's log, or goes on with it.
    pub(crate) fn begin(&self, session: SessionId, user: &str) {
        self.begin_at(self.began.elapsed(), session, user);
    }

    /// Adds a line to a session's log, if it has one.
    pub(crate) fn note(&self, session: SessionId, text: &str) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(unix.as_millis()).unwrap_or(u64::MAX);
        let line = LogLine { unix_ms, text: cut(text, WORDS_MAX).to_owned() };
        if let Some(log) = self.logs.lock().get_mut(&session) {
            log.add(line);
        }
    }

    /// Records that a session has no executor any more.
    pub(crate) fn end(&self, session: SessionId) {
        self.end_at(self.began.elapsed(), session);
    }

    /// Returns the log of a session, if there is one.
    pub(crate) fn read(&self, session: SessionId) -> Option<SessionLog> {
        self.read_at(self.began.elapsed(), session)
    }

    fn begin_at(&self, now: Duration, session: SessionId, user: &str) {
        let mut logs = self.logs.lock();
        forget_old(&mut logs, now);
        if logs.len() >= SESSIONS_MAX && !logs.contains_key(&session) {
            let leaving = logs.iter().min_by_key(|(id, log)| (log.ended.unwrap_or(Duration::MAX), **id));
            if let Some(leaving) = leaving.map(|(id, _)| *id) {
                logs.remove(&leaving);
            }
        }
        let log = logs.entry(session).or_default();
        user.clone_into(&mut log.user);
        log.ended = None;
    }

    fn end_at(&self, now: Duration, session: SessionId) {
        if let Some(log) = self.logs.lock().get_mut(&session) {
            log.ended = Some(now);
        }
    }

    fn read_at(&self, now: Duration, session: SessionId) -> Option<SessionLog> {
        let mut logs = self.logs.lock();
        forget_old(&mut logs, now);
        let log = logs.get(&session)?;
        Some(SessionLog { user: log.user.clone(), lines: log.lines.iter().cloned().collect(), dropped: log.dropped })
    }
}

/// Drops logs whose sessions ended long ago.
fn forget_old(logs: &mut BTreeMap<SessionId, Log>, now: Duration) {
    logs.retain(|_, log| log.ended.is_none_or(|ended| now < ended + KEPT_FOR));
}

impl Log {
    fn add(&mut self, line: LogLine) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.lines.len() > LINES_MAX || self.bytes > BYTES_MAX {
            let Some(first) = self.lines.pop_front() else { break };
            self.bytes -= first.text.len();
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const LATER: Duration = Duration::from_secs(100);

    fn texts(log: &SessionLog) -> Vec<&str> {
        log.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn a_log_has_the_last_lines_and_counts_the_others() {
        let logs = SessionLogs::default();
        logs.note(A, "before it began");
        logs.begin(A, "eva");
        for i in 0..LINES_MAX + 3 {
            logs.note(A, &format!("line {i}"));
        }
        let log = logs.read(A).expect("a log");
        assert_eq!((log.user.as_str(), log.lines.len(), log.dropped), ("eva", LINES_MAX, 3));
        assert_eq!(texts(&log)[0], "line 3");
        logs.note(A, &"x".repeat(2 * WORDS_MAX));
        for _ in 0..BYTES_MAX / WORDS_MAX {
            logs.note(A, &"y".repeat(WORDS_MAX));
        }
        let log = logs.read(A).expect("a log");
        assert_eq!(log.lines.len(), BYTES_MAX / WORDS_MAX);
        assert!(log.lines.iter().all(|line| line.text == "y".repeat(WORDS_MAX) && line.unix_ms > 0));
        assert_eq!(logs.read(SessionId(2)), None);
    }

    #[test]
    fn a_log_outlives_its_session_for_a_while() {
        let logs = SessionLogs::default();
        logs.begin_at(Duration::ZERO, A, "eva");
        logs.note(A, "one");
        logs.end_at(LATER, A);
        assert!(logs.read_at(LATER + KEPT_FOR / 2, A).is_some());
        logs.begin_at(LATER + KEPT_FOR / 2, A, "eva");
        assert_eq!(texts(&logs.read_at(LATER + 2 * KEPT_FOR, A).expect("it goes on")), ["one"]);
        logs.end_at(LATER + 2 * KEPT_FOR, A);
        assert_eq!(logs.read_at(LATER + 3 * KEPT_FOR, A), None);
    }

    #[test]
    fn a_full_table_drops_the_session_that_ended_first() {
        let logs = SessionLogs::default();
        for id in 0..SESSIONS_MAX as u64 {
            logs.begin_at(Duration::ZERO, SessionId(id), "eva");
        }
        logs.end_at(Duration::from_secs(2), SessionId(5));
        logs.end_at(Duration::from_secs(1), SessionId(7));
        logs.begin_at(LATER, SessionId(10_000), "max");
        assert!(logs.read_at(LATER, SessionId(7)).is_none() && logs.read_at(LATER, SessionId(5)).is_some());
        logs.begin_at(LATER, SessionId(10_001), "max");
        logs.begin_at(LATER, SessionId(10_002), "max");
        assert!(logs.read_at(LATER, SessionId(5)).is_none() && logs.read_at(LATER, SessionId(0)).is_none());
        assert!(logs.read_at(LATER, SessionId(10_002)).is_some());
    }
}
