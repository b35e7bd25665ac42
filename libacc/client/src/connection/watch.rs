//! Decides which thread reads events without a waiter: a worker's output, credit, failures, the connection's end.
//!
//! A thread of the connection, the watcher, reads them, and must delay no other thread. While the program uses the
//! connection, the watcher polls: were it the reader, each wait would cost a hop from thread to thread. When nothing
//! has happened for a while, it becomes the reader and blocks, so that an idle program has no wake-ups. The first wait
//! after that hops once. While a wait takes long, its thread reads, and the watcher sleeps until the wait is over.

use std::time::Duration;

/// The interval of the watcher's polls while the connection is in use.
pub const LOOK: Duration = Duration::from_millis(10);

/// The next step of the watcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchStep {
    /// Handles what is here, sleeps for [`LOOK`] or until it is woken, then asks again.
    Look,
    /// It has the reading side: reads once, waiting for that, handles what comes, and asks again.
    Read,
    /// Sleeps until it is woken, then asks again.
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
    /// What the program had done when the watcher looked last.
    seen: u64,
}

/// The state of the connection when the watcher asks.
#[derive(Clone, Copy)]
pub(super) struct Situation {
    /// Grows with whatever the program does.
    pub(super) activity: u64,
    /// A waiter has the reading side, or is about to.
    pub(super) wanted: bool,
    /// Progress depends on events without a waiter.
    pub(super) urgent: bool,
}

impl Watch {
    /// The watcher asks what to do. [`WatchStep::Read`]: it is to take the reading side.
    pub(super) fn step(&mut self, now: Situation) -> WatchStep {
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

    /// A wait is over, or something has become urgent: whether the watcher is to be woken. (While it reads it can't be.)
    pub(super) fn rouse(&mut self, urgent: bool) -> bool {
        let rouse = self.state == Activity::Parked || (urgent && self.state == Activity::Looking);
        if rouse {
            self.state = Activity::Looking;
            // What is over was something: the next wait may follow soon.
            self.seen = u64::MAX;
        }
        rouse
    }

    /// Whether it is going to look soon.
    pub(super) fn is_looking(&self) -> bool {
        self.state == Activity::Looking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(activity: u64, wanted: bool) -> Situation {
        Situation { activity, wanted, urgent: false }
    }

    #[test]
    fn it_reads_when_nothing_happens_and_keeps_out_of_the_way_when_something_does() {
        let mut watch = Watch::default();
        assert_eq!(watch.step(situation(5, false)), WatchStep::Look);
        assert_eq!(watch.step(situation(6, false)), WatchStep::Look);
        assert_eq!(watch.step(situation(6, false)), WatchStep::Read);
        assert!(!watch.rouse(true) && !watch.is_looking(), "it reads and sees what comes");
        assert_eq!(watch.step(situation(7, false)), WatchStep::Look);
    }

    #[test]
    fn it_sleeps_through_a_long_wait() {
        let mut watch = Watch::default();
        assert_eq!(watch.step(situation(5, true)), WatchStep::Look);
        assert!(!watch.rouse(false), "it looks anyway");
        assert_eq!(watch.step(situation(5, true)), WatchStep::Park);
        assert!(watch.rouse(false), "the wait is over");
        assert!(!watch.rouse(false), "once");
        assert_eq!(watch.step(situation(6, false)), WatchStep::Look);
    }

    #[test]
    fn it_reads_at_once_what_something_hangs_on() {
        let mut watch = Watch::default();
        watch.step(situation(1, false));
        assert!(watch.rouse(true));
        assert_eq!(watch.step(Situation { activity: 2, wanted: false, urgent: true }), WatchStep::Read);
    }
}
