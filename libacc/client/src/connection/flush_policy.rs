//! Decides when commands are sent, and by which thread. An operation only appends a frame.
//!
//! The best thread depends on the program's next action. If it waits, its wait sends all frames in one go. If it
//! doesn't, an operation should start at once. If it enqueues many operations, it should not pay for sending each. So:
//!
//! * While waits follow operations soon, frames are left to the waits. The flusher polls, and sends those that have
//!   become old.
//! * Otherwise the calling thread sends the first few operations after a wait, and the flusher the rest.
//!
//! The flusher is a thread that keeps polling while there is something to do: to wake it for a single launch costs more
//! than the launch.

use std::time::Duration;

/// Appended frames that no thread has taken yet.
#[derive(Default)]
pub(super) struct UnsentFrames {
    pub(super) frames: Vec<u8>,
    /// The policy that decides which thread sends them, and when.
    pub(super) flush: FlushPolicy,
}

/// Poll intervals of the flusher: after it found something to send, and after it didn't.
const POLL_WHILE_BUSY: Duration = Duration::from_micros(20);
const POLL_WHILE_IDLE: Duration = Duration::from_micros(150);
/// The time for which the flusher polls without new frames before it parks.
const AWAKE: Duration = Duration::from_millis(2);
/// Age of frames that the flusher sends, because no wait has followed.
const OLD: Duration = Duration::from_micros(50);
/// Longest time between an operation and a wait that counts as following it.
const FOLLOWS: Duration = Duration::from_micros(20);
/// Number of such waits in a row after which frames are left to waits.
const HABIT: u32 = 2;
/// Number of operations after a wait that the calling thread sends.
const DIRECT: u32 = 3;

/// The thread that sends the last appended frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// The calling thread, now.
    Now,
    /// The flusher or a wait; nothing is to be done.
    Later,
    /// The flusher, which must be woken or started.
    WakeFlusher,
}

/// The next step of the flusher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlusherStep {
    /// Send, then sleep for this long, then call again.
    Flush(Duration),
    /// Sleep for this long, then call again.
    Sleep(Duration),
    /// Park until woken, then call again.
    Park,
    /// The connection is lost.
    End,
}

/// The program's recent operations, kept with the frames.
#[derive(Default)]
pub(super) struct FlushPolicy {
    /// Times at which the first and the last unsent frame was appended.
    first: Option<Duration>,
    last: Option<Duration>,
    /// Number of waits in a row that followed operations.
    followed: u32,
    /// Number of operations that calling threads have sent since the last wait.
    direct: u32,
    /// Frames appended so far.
    appended: u64,
    /// Whether the flusher is polling.
    awake: bool,
    /// Value of `appended` at the flusher's last poll, and the time since which it is unchanged.
    seen: u64,
    since: Duration,
}

impl FlushPolicy {
    /// Records an appended frame.
    pub(super) fn append(&mut self, now: Duration) {
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.appended += 1;
    }

    /// Records that all frames are being sent.
    pub(super) fn sent(&mut self) {
        self.first = None;
    }

    /// Records that the program is about to wait.
    pub(super) fn wait(&mut self, now: Duration) {
        self.followed = match self.last {
            Some(last) if now.saturating_sub(last) < FOLLOWS => self.followed.saturating_add(1),
            _ => 0,
        };
        self.direct = 0;
    }

    /// Decides which thread sends an asynchronous operation that was appended last.
    pub(super) fn soon(&mut self) -> Flush {
        if self.followed < HABIT && self.direct < DIRECT {
            self.direct += 1;
            return Flush::Now;
        }
        self.wake()
    }

    /// Makes the flusher send all frames at its next poll.
    pub(super) fn leave(&mut self, now: Duration) -> Flush {
        self.first = Some(now.saturating_sub(OLD));
        self.wake()
    }

    /// Makes the flusher poll.
    pub(super) fn wake(&mut self) -> Flush {
        if std::mem::replace(&mut self.awake, true) { Flush::Later } else { Flush::WakeFlusher }
    }

    /// Whether the flusher is polling.
    pub(super) fn is_awake(&self) -> bool {
        self.awake
    }

    /// Number of frames appended so far.
    pub(super) fn appended(&self) -> u64 {
        self.appended
    }

    /// Returns the flusher's next step.
    pub(super) fn flusher(&mut self, now: Duration) -> FlusherStep {
        if !self.awake {
            return FlusherStep::Park;
        }
        if self.appended != self.seen {
            (self.seen, self.since) = (self.appended, now);
        }
        match self.first {
            Some(first) if now.saturating_sub(first) >= OLD => {
                self.followed = 0;
                FlusherStep::Flush(POLL_WHILE_BUSY)
            }
            None if now.saturating_sub(self.since) > AWAKE => {
                self.awake = false;
                FlusherStep::Park
            }
            _ => FlusherStep::Sleep(POLL_WHILE_IDLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn operations_are_left_to_waits_that_follow_them() {
        let mut policy = FlushPolicy::default();
        let mut sent = 0;
        for round in 0..20 {
            let now = round * 1000 * US;
            policy.append(now);
            sent += u32::from(policy.soon() == Flush::Now);
            policy.wait(now + FOLLOWS - US);
            policy.sent();
        }
        assert_eq!(sent, HABIT);
    }

    #[test]
    fn the_first_few_operations_are_sent_at_once_where_no_waits_follow() {
        let mut policy = FlushPolicy::default();
        for round in 0..3 {
            let now = round * 1000 * US;
            let sent = (0..10).filter(|_| {
                policy.append(now);
                policy.soon() == Flush::Now
            });
            assert_eq!(sent.count(), DIRECT as usize);
            policy.wait(now + FOLLOWS);
        }
    }

    #[test]
    fn the_flusher_sends_what_others_have_left() {
        let mut policy = FlushPolicy::default();
        policy.append(AWAKE);
        policy.sent();
        assert_eq!(policy.leave(AWAKE), Flush::WakeFlusher);
        assert_eq!(policy.flusher(AWAKE), FlusherStep::Flush(POLL_WHILE_BUSY));
        policy.sent();
        assert_eq!(policy.flusher(2 * AWAKE), FlusherStep::Sleep(POLL_WHILE_IDLE), "something was new");
        assert_eq!(policy.flusher(3 * AWAKE), FlusherStep::Park);
    }

    #[test]
    fn the_flusher_is_woken_once_sends_what_is_old_and_sleeps_when_nothing_comes() {
        let mut policy = FlushPolicy::default();
        assert_eq!(policy.flusher(Duration::ZERO), FlusherStep::Park);
        let flushes: Vec<_> = (0..6)
            .map(|_| {
                policy.append(US);
                policy.soon()
            })
            .collect();
        assert_eq!(flushes[..3], [Flush::Now; 3]);
        assert_eq!(flushes[3..], [Flush::WakeFlusher, Flush::Later, Flush::Later]);
        assert_eq!(policy.flusher(2 * US), FlusherStep::Sleep(POLL_WHILE_IDLE), "a wait may follow");
        assert_eq!(policy.flusher(US + OLD), FlusherStep::Flush(POLL_WHILE_BUSY));
        policy.sent();
        assert_eq!(policy.flusher(AWAKE), FlusherStep::Sleep(POLL_WHILE_IDLE));
        assert_eq!(policy.flusher(2 * AWAKE), FlusherStep::Park);
        assert_eq!(policy.flusher(9 * AWAKE), FlusherStep::Park, "though it wakes by chance");
        policy.append(10 * AWAKE);
        assert_eq!(policy.soon(), Flush::WakeFlusher);
    }
}
