//! How the thread that owns MPI waits: MPI wakes nobody, so it has to look. It looks without a pause for a moment after something
//! happened, since answers come soon; then ever more rarely, as a node's cores belong to the program.

use accord_types::spin_policy::SpinPolicy;
use std::time::Duration;

/// So long after the last event it looks without sleeping, giving the core to others in between.
const LOOKS: Duration = Duration::from_micros(200);
/// The same while lent bytes are under way, as many MPIs copy only when they are asked: as long as most of them take. Then it sleeps as shortly as it can.
const MOVES_LOOKS: Duration = Duration::from_millis(500);
/// The share of the time since the last event that it sleeps: what comes then is late by that at most.
const SHARE: u32 = 128;
/// The shortest sleep; the system's own is about as long.
const SLEEP_MIN: Duration = Duration::from_micros(50);
/// The longest sleep. A look takes a few microseconds, with the sleep's own cost: well below 1 % of this.
const SLEEP_MAX: Duration = Duration::from_millis(16);

/// Somebody who keeps the core that long when it is given has use for it; those who wait for messages keep it for less.
const CROWDED: Duration = Duration::from_micros(500);
/// So many pauses are slept through then: who has slept gets the core back sooner than who gives it away again and again.
const CROWDED_PAUSES: u32 = 64;

/// What to do before the next look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pause {
    /// Let others run.
    Yield,
    /// Sleep, unless this side has something to send.
    Sleep(Duration),
}

/// How the pauses were so far.
#[derive(Debug)]
pub(super) struct Backoff {
    /// Pauses that are still to be slept through, as others want the core.
    crowded: u32,
    /// Times of more than [`LOOKS`] without an event: a kernel's, say, which others wait for.
    quiet: SpinPolicy,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(SpinPolicy::patient())
    }
}

impl Backoff {
    fn new(quiet: SpinPolicy) -> Self {
        Self { crowded: 0, quiet }
    }

    /// Something happens after `idle` without an event.
    pub(super) fn ends(&mut self, idle: Duration) {
        if idle > LOOKS {
            self.quiet.waited(idle);
        }
    }

    /// After nothing has happened for `idle`; `moves`: lent bytes are under way.
    pub(super) fn pause(&mut self, idle: Duration, moves: bool) -> Pause {
        let looks = if moves { MOVES_LOOKS } else { LOOKS.max(self.quiet.limit()) };
        if self.crowded == 0 && idle < looks {
            return Pause::Yield;
        }
        self.crowded = self.crowded.saturating_sub(1);
        Pause::Sleep(if moves { SLEEP_MIN } else { (idle / SHARE).clamp(SLEEP_MIN, SLEEP_MAX) })
    }

    /// Others have had the core for so long after [`Pause::Yield`].
    pub(super) fn has_yielded(&mut self, time: Duration) {
        if time > CROWDED {
            self.crowded = CROWDED_PAUSES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_grow_with_the_time_since_something_happened() {
        let pause = |idle| Backoff::new(SpinPolicy::patient_with(2)).pause(idle, false);
        assert_eq!(pause(Duration::from_micros(199)), Pause::Yield);
        assert_eq!(pause(Duration::from_micros(200)), Pause::Sleep(SLEEP_MIN));
        assert_eq!(pause(Duration::from_millis(128)), Pause::Sleep(Duration::from_millis(1)));
        assert_eq!(pause(Duration::from_millis(2048)), Pause::Sleep(SLEEP_MAX));
        assert_eq!(pause(Duration::from_secs(8)), Pause::Sleep(SLEEP_MAX));
    }

    #[test]
    fn it_looks_for_longer_where_that_was_worth_it() {
        let after = |waits: &[u64]| {
            let mut backoff = Backoff::new(SpinPolicy::patient_with(8));
            waits.iter().for_each(|us| backoff.ends(Duration::from_micros(*us)));
            backoff
        };
        // Kernels of 0.8 ms with some words in between.
        let mut kernels = after(&[5, 20, 800].repeat(40));
        assert_eq!(kernels.pause(Duration::from_millis(1), false), Pause::Yield);
        assert_eq!(kernels.pause(Duration::from_millis(2), false), Pause::Sleep(SLEEP_MIN));
        let mut rare = after(&[5, 20, 50_000].repeat(12));
        assert_eq!(rare.pause(LOOKS, false), Pause::Sleep(SLEEP_MIN));
        // One that is idle has slept long, and once is not often.
        kernels.ends(Duration::from_secs(60));
        kernels.ends(Duration::from_secs(60));
        assert_eq!(kernels.pause(LOOKS, false), Pause::Sleep(SLEEP_MIN));
    }

    #[test]
    fn mpi_is_asked_again_and_again_while_it_copies() {
        let pause = |idle| Backoff::new(SpinPolicy::patient_with(2)).pause(idle, true);
        assert_eq!(pause(Duration::from_millis(499)), Pause::Yield);
        assert_eq!(pause(Duration::from_secs(8)), Pause::Sleep(SLEEP_MIN));
    }

    #[test]
    fn a_core_that_others_want_is_left_to_them_for_a_while() {
        let mut backoff = Backoff::new(SpinPolicy::patient_with(2));
        backoff.has_yielded(CROWDED);
        assert_eq!(backoff.pause(Duration::ZERO, false), Pause::Yield);
        backoff.has_yielded(2 * CROWDED);
        for _ in 0..CROWDED_PAUSES {
            assert_eq!(backoff.pause(Duration::ZERO, false), Pause::Sleep(SLEEP_MIN));
        }
        assert_eq!(backoff.pause(Duration::ZERO, false), Pause::Yield);
    }
}
