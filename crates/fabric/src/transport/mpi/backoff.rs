//! How the thread that owns MPI waits. MPI has no wake-up, so the thread polls. It spins for a moment after an event,
//! because answers come soon. Then it polls ever more rarely, because a node's cores belong to the program.

use accord_types::spin_policy::SpinPolicy;
use std::time::Duration;

/// Time after the last event during which the thread polls and yields instead of sleeping.
const POLL_TIME: Duration = Duration::from_micros(200);
/// The same time while exposed buffers are in flight: many MPIs copy only inside a call, and most copies end within this
/// time. After it the thread takes the shortest sleeps.
const MOVES_POLL_TIME: Duration = Duration::from_millis(500);
/// The reciprocal of the sleep's share in the time since the last event, which bounds the relative delay.
const SHARE: u32 = 128;
/// Shortest sleep; the system's own is about as long.
const SLEEP_MIN: Duration = Duration::from_micros(50);
/// Longest sleep. A poll with its sleep costs a few microseconds: well below 1 % of this.
const SLEEP_MAX: Duration = Duration::from_millis(16);

/// A thread that keeps the core for longer than this after a yield is computing. Waiting threads give it back sooner.
const OVERSUBSCRIBED: Duration = Duration::from_micros(500);
/// Number of sleeps, in place of yields, when another thread is computing: the system's scheduler favours a thread that
/// has slept over one that keeps yielding.
const OVERSUBSCRIBED_PAUSES: u32 = 64;

/// The pause before the next poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pause {
    /// Yield the core.
    Yield,
    /// Sleep until there is something to send, for at most this time.
    Sleep(Duration),
}

/// The effects of earlier pauses.
#[derive(Debug)]
pub(super) struct Backoff {
    /// Sleeps that remain because another thread is computing.
    oversubscribed: u32,
    /// Waits of more than [`POLL_TIME`], for example for a kernel that other ranks wait for.
    quiet: SpinPolicy,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(SpinPolicy::long_spin())
    }
}

impl Backoff {
    fn new(quiet: SpinPolicy) -> Self {
        Self { oversubscribed: 0, quiet }
    }

    /// Records an event after `idle` without one.
    pub(super) fn ends(&mut self, idle: Duration) {
        if idle > POLL_TIME {
            self.quiet.waited(idle);
        }
    }

    /// Decides the next pause after `idle` without an event. `moves`: exposed buffers are in flight.
    pub(super) fn pause(&mut self, idle: Duration, moves: bool) -> Pause {
        let looks = if moves { MOVES_POLL_TIME } else { POLL_TIME.max(self.quiet.limit()) };
        if self.oversubscribed == 0 && idle < looks {
            return Pause::Yield;
        }
        self.oversubscribed = self.oversubscribed.saturating_sub(1);
        Pause::Sleep(if moves { SLEEP_MIN } else { (idle / SHARE).clamp(SLEEP_MIN, SLEEP_MAX) })
    }

    /// Records how long [`Pause::Yield`] took.
    pub(super) fn has_yielded(&mut self, time: Duration) {
        if time > OVERSUBSCRIBED {
            self.oversubscribed = OVERSUBSCRIBED_PAUSES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_grow_with_the_time_since_the_last_event() {
        let pause = |idle| Backoff::new(SpinPolicy::long_spin_with_cores(2)).pause(idle, false);
        assert_eq!(pause(Duration::from_micros(199)), Pause::Yield);
        assert_eq!(pause(Duration::from_micros(200)), Pause::Sleep(SLEEP_MIN));
        assert_eq!(pause(Duration::from_millis(128)), Pause::Sleep(Duration::from_millis(1)));
        assert_eq!(pause(Duration::from_millis(2048)), Pause::Sleep(SLEEP_MAX));
        assert_eq!(pause(Duration::from_secs(8)), Pause::Sleep(SLEEP_MAX));
    }

    #[test]
    fn spin_limit_follows_recent_waits() {
        let after = |waits: &[u64]| {
            let mut backoff = Backoff::new(SpinPolicy::long_spin_with_cores(8));
            waits.iter().for_each(|us| backoff.ends(Duration::from_micros(*us)));
            backoff
        };
        // Kernels of 0.8 ms with short messages in between.
        let mut kernels = after(&[5, 20, 800].repeat(40));
        assert_eq!(kernels.pause(Duration::from_millis(1), false), Pause::Yield);
        assert_eq!(kernels.pause(Duration::from_millis(2), false), Pause::Sleep(SLEEP_MIN));
        let mut rare = after(&[5, 20, 50_000].repeat(12));
        assert_eq!(rare.pause(POLL_TIME, false), Pause::Sleep(SLEEP_MIN));
        // A long idle time leads to sleep, and a single one is not a pattern.
        kernels.ends(Duration::from_secs(60));
        kernels.ends(Duration::from_secs(60));
        assert_eq!(kernels.pause(POLL_TIME, false), Pause::Sleep(SLEEP_MIN));
    }

    #[test]
    fn mpi_is_polled_while_it_copies() {
        let pause = |idle| Backoff::new(SpinPolicy::long_spin_with_cores(2)).pause(idle, true);
        assert_eq!(pause(Duration::from_millis(499)), Pause::Yield);
        assert_eq!(pause(Duration::from_secs(8)), Pause::Sleep(SLEEP_MIN));
    }

    #[test]
    fn pauses_are_slept_through_while_another_thread_computes() {
        let mut backoff = Backoff::new(SpinPolicy::long_spin_with_cores(2));
        backoff.has_yielded(OVERSUBSCRIBED);
        assert_eq!(backoff.pause(Duration::ZERO, false), Pause::Yield);
        backoff.has_yielded(2 * OVERSUBSCRIBED);
        for _ in 0..OVERSUBSCRIBED_PAUSES {
            assert_eq!(backoff.pause(Duration::ZERO, false), Pause::Sleep(SLEEP_MIN));
        }
        assert_eq!(backoff.pause(Duration::ZERO, false), Pause::Yield);
    }
}
