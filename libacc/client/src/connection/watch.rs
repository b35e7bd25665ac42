//! Decides which thread reads events without a waiter: output of workers, credit, failures, and the end of the
//! connection.
//!
//! The watcher, a thread of the connection, reads them, and must not delay other threads. While the program uses the
//! connection, the watcher polls: as the reader it would cost each wait a hop between threads. After a quiet period it
//! becomes the reader and blocks, so that an idle program has no wake-ups. The first wait after that costs one hop.
//! During a long wait the waiting thread reads, and the watcher sleeps.

use std::time::Duration;

/// The interval of the watcher's polls while the connection is in use.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The next step of the watcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchStep {
    /// Handle available events, sleep for [`POLL_INTERVAL`] or until woken, then call again.
    Look,
    /// Read once as the reader, blocking, handle the events, and call again.
    Read,
    /// Park until woken, then call again.
    Park,
    /// The connection is lost.
    End,
}

/// The activity of the watcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Activity {
    #[default]
    Looking,
    Reading,
    Parked,
}

/// The state of the watcher.
#[derive(Default)]
pub(super) struct Watch {
    state: Activity,
    /// The program's activity at the watcher's last step.
    seen: u64,
}

/// The state of the connection at a step of the watcher.
#[derive(Clone, Copy)]
pub(super) struct WatchState {
    /// Grows with each action of the program.
    pub(super) activity: u64,
    /// Whether a waiter is the reader, or is about to be.
    pub(super) wanted: bool,
    /// Whether progress depends on events without a waiter.
    pub(super) urgent: bool,
}

impl Watch {
    /// Returns the watcher's next step. For [`WatchStep::Read`] it must become the reader.
    pub(super) fn step(&mut self, now: WatchState) -> WatchStep {
        let quiet = now.activity == self.seen;
        self.seen = now.activity;
        let (state, step) = match now.wanted {
            false if now.urgent || quiet => (Activity::Reading, WatchStep::Read),
            true if quiet => (Activity::Parked, WatchStep::Park),
            _ => (Activity::Looking, WatchStep::Look),
        };
        self.state = state;
        step
    }

    /// Records the end of a wait, or urgency; returns whether to wake the watcher. (A blocked reader can't be woken.)
    pub(super) fn rouse(&mut self, urgent: bool) -> bool {
        let rouse = self.state == Activity::Parked || (urgent && self.state == Activity::Looking);
        if rouse {
            self.state = Activity::Looking;
            // The wait counts as activity: the next one may follow soon.
            self.seen = u64::MAX;
        }
        rouse
    }

    /// Whether the watcher is going to poll soon.
    pub(super) fn is_looking(&self) -> bool {
        self.state == Activity::Looking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(activity: u64, wanted: bool) -> WatchState {
        WatchState { activity, wanted, urgent: false }
    }

    #[test]
    fn watcher_reads_only_while_the_program_is_idle() {
        let mut watch = Watch::default();
        assert_eq!(watch.step(situation(5, false)), WatchStep::Look);
        assert_eq!(watch.step(situation(6, false)), WatchStep::Look);
        assert_eq!(watch.step(situation(6, false)), WatchStep::Read);
        assert!(!watch.rouse(true) && !watch.is_looking(), "it reads and sees what comes");
        assert_eq!(watch.step(situation(7, false)), WatchStep::Look);
    }

    #[test]
    fn watcher_parks_during_a_long_wait() {
        let mut watch = Watch::default();
        assert_eq!(watch.step(situation(5, true)), WatchStep::Look);
        assert!(!watch.rouse(false), "it looks anyway");
        assert_eq!(watch.step(situation(5, true)), WatchStep::Park);
        assert!(watch.rouse(false), "the wait is over");
        assert!(!watch.rouse(false), "once");
        assert_eq!(watch.step(situation(6, false)), WatchStep::Look);
    }

    #[test]
    fn urgent_events_are_read_at_once() {
        let mut watch = Watch::default();
        watch.step(situation(1, false));
        assert!(watch.rouse(true));
        assert_eq!(watch.step(WatchState { activity: 2, wanted: false, urgent: true }), WatchStep::Read);
    }
}
