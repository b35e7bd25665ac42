//! How the thread that owns MPI waits: MPI wakes nobody, so it has to look. It looks without a pause for a moment after something
//! happened, since answers come soon; then ever more rarely, as a node's cores belong to the program.

use std::time::Duration;

/// So long after the last event it looks without sleeping, giving the core to others in between.
const LOOKS: Duration = Duration::from_micros(200);
/// The share of the time since the last event that it sleeps: what comes then is late by that at most.
const SHARE: u32 = 8;
/// The shortest sleep; the system's own is about as long.
const SLEEP_MIN: Duration = Duration::from_micros(50);
/// The longest sleep. A look takes a few microseconds, with the sleep's own cost: well below 1 % of this.
const SLEEP_MAX: Duration = Duration::from_millis(16);

/// What to do before the next look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pause {
    /// Let others run.
    Yield,
    /// Sleep, unless this side has something to send.
    Sleep(Duration),
}

/// After nothing has happened for `idle`.
pub(super) fn pause(idle: Duration) -> Pause {
    if idle < LOOKS {
        return Pause::Yield;
    }
    Pause::Sleep((idle / SHARE).clamp(SLEEP_MIN, SLEEP_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_grow_with_the_time_since_something_happened() {
        assert_eq!(pause(Duration::from_micros(199)), Pause::Yield);
        assert_eq!(pause(Duration::from_micros(200)), Pause::Sleep(SLEEP_MIN));
        assert_eq!(pause(Duration::from_millis(8)), Pause::Sleep(Duration::from_millis(1)));
        assert_eq!(pause(Duration::from_millis(128)), Pause::Sleep(SLEEP_MAX));
        assert_eq!(pause(Duration::from_secs(8)), Pause::Sleep(SLEEP_MAX));
    }
}
