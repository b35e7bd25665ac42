//! When commands are sent, and by whom. An operation only appends a frame.
//!
//! The sending thread depends on what the program is about to do. If it waits, its wait sends all in
//! one go. If it doesn't, an operation should start at once; and if it puts one operation after
//! the other into queues, it should not pay for sending each. So:
//!
//! * As long as waits follow upon operations, operations are left to them. The flusher looks in
//!   and sends what has become old.
//! * Else the first few operations after a wait are sent by the thread that calls, and the flusher sends the rest.
//!
//! The flusher is a thread that looks in as long as there is something to do, so that it need not be woken each time: to wake it
//! for a single launch costs more than the launch.

use std::time::Duration;

/// The interval of the flusher's polls while it finds something to send, and while it doesn't.
const LOOK_BUSY: Duration = Duration::from_micros(20);
const LOOK_IDLE: Duration = Duration::from_micros(150);
/// The time for which it polls without anything new before it sleeps.
const AWAKE: Duration = Duration::from_millis(2);
/// Frames this old are sent by the flusher: no wait has followed.
const OLD: Duration = Duration::from_micros(50);
/// A wait that comes so soon after an operation follows upon it.
const FOLLOWS: Duration = Duration::from_micros(20);
/// The number of those in a row that make a habit.
const HABIT: u32 = 2;
/// The number of operations after a wait that the calling thread sends.
const DIRECT: u32 = 3;

/// The thread that sends the frames appended last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// The calling thread, now.
    Now,
    /// The flusher or a wait; nothing is to be done.
    Later,
    /// The flusher, which sleeps: it is to be woken, or started.
    WakeFlusher,
}

/// The next step of the flusher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlusherStep {
    /// Sends, then sleeps for so long, then asks again.
    Flush(Duration),
    /// Sleeps for so long, then asks again.
    Sleep(Duration),
    /// Sleeps until it is woken, then asks again.
    Park,
    /// The connection is lost.
    End,
}

/// The program's recent operations, kept with the frames.
#[derive(Default)]
pub(super) struct FlushPolicy {
    /// When the first and the last of the frames that wait was appended.
    first: Option<Duration>,
    last: Option<Duration>,
    /// Waits in a row that followed upon operations.
    followed: u32,
    /// Operations that calling threads have sent since the last wait.
    direct: u32,
    /// Frames appended so far.
    appended: u64,
    /// Whether the flusher looks in.
    awake: bool,
    /// What the flusher saw last, and since when nothing has changed.
    seen: u64,
    since: Duration,
}

impl FlushPolicy {
    /// A frame was appended.
    pub(super) fn append(&mut self, now: Duration) {
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.appended += 1;
    }

    /// The frames are on their way.
    pub(super) fn sent(&mut self) {
        self.first = None;
    }

    /// The program is about to wait.
    pub(super) fn wait(&mut self, now: Duration) {
        self.followed = match self.last {
            Some(last) if now.saturating_sub(last) < FOLLOWS => self.followed.saturating_add(1),
            _ => 0,
        };
        self.direct = 0;
    }

    /// An asynchronous operation was appended last, and there is room for more.
    pub(super) fn soon(&mut self) -> Flush {
        if self.followed < HABIT && self.direct < DIRECT {
            self.direct += 1;
            return Flush::Now;
        }
        self.wake()
    }

    /// Leaves frames for the flusher to send as soon as it looks.
    pub(super) fn leave(&mut self, now: Duration) -> Flush {
        self.first = Some(now.saturating_sub(OLD));
        self.wake()
    }

    /// Has the flusher look in.
    pub(super) fn wake(&mut self) -> Flush {
        if std::mem::replace(&mut self.awake, true) { Flush::Later } else { Flush::WakeFlusher }
    }

    /// Whether the flusher looks in.
    pub(super) fn is_awake(&self) -> bool {
        self.awake
    }

    /// Frames appended so far.
    pub(super) fn appended(&self) -> u64 {
        self.appended
    }

    /// The flusher asks what to do.
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
                FlusherStep::Flush(LOOK_BUSY)
            }
            None if now.saturating_sub(self.since) > AWAKE => {
                self.awake = false;
                FlusherStep::Park
            }
            _ => FlusherStep::Sleep(LOOK_IDLE),
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
        assert_eq!(policy.flusher(AWAKE), FlusherStep::Flush(LOOK_BUSY));
        policy.sent();
        assert_eq!(policy.flusher(2 * AWAKE), FlusherStep::Sleep(LOOK_IDLE), "something was new");
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
        assert_eq!(policy.flusher(2 * US), FlusherStep::Sleep(LOOK_IDLE), "a wait may follow");
        assert_eq!(policy.flusher(US + OLD), FlusherStep::Flush(LOOK_BUSY));
        policy.sent();
        assert_eq!(policy.flusher(AWAKE), FlusherStep::Sleep(LOOK_IDLE));
        assert_eq!(policy.flusher(2 * AWAKE), FlusherStep::Park);
        assert_eq!(policy.flusher(9 * AWAKE), FlusherStep::Park, "though it wakes by chance");
        policy.append(10 * AWAKE);
        assert_eq!(policy.soon(), Flush::WakeFlusher);
    }
}
