//! How long a waiting thread looks before it sleeps.
//!
//! To wake a thread on an idle core costs several times what the rest of a short wait does. So a
//! thread that reads looks again and again for a while, giving its core to whoever wants it in between,
//! if recent waits were so short that this is likely to end the wait. It never does where it has only one core.

use std::time::Duration;

/// Waits longer than this on average are slept through.
const SHORT: Duration = Duration::from_micros(100);
/// Weight of the latest wait in the average: 1 / 8.
const SHIFT: u32 = 3;

/// What is known of recent waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    average: Duration,
    cores: usize,
}

impl Patience {
    /// For a process that may use so many cores.
    pub(super) fn new(cores: usize) -> Self {
        Self { average: 2 * SHORT, cores }
    }

    /// How long to look before sleeping.
    pub(super) fn limit(&self) -> Duration {
        if self.cores > 1 && self.average < SHORT { 2 * self.average } else { Duration::ZERO }
    }

    /// A wait took this long.
    pub(super) fn waited(&mut self, time: Duration) {
        // A single long wait must not outweigh many short ones for long.
        let time = time.min(8 * SHORT);
        self.average = self.average - self.average / (1 << SHIFT) + time / (1 << SHIFT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(cores: usize, waits: &[u64]) -> Patience {
        let mut patience = Patience::new(cores);
        waits.iter().for_each(|&us| patience.waited(Duration::from_micros(us)));
        patience
    }

    #[test]
    fn short_waits_make_patient_and_long_ones_end_it() {
        assert_eq!(Patience::new(4).limit(), Duration::ZERO, "nothing is known yet");
        let short = after(4, &[20; 30]);
        assert!(short.limit() >= Duration::from_micros(40) && short.limit() < 2 * SHORT);
        let mut long = short;
        (0..3).for_each(|_| long.waited(Duration::from_secs(1)));
        assert_eq!(long.limit(), Duration::ZERO);
        (0..30).for_each(|_| long.waited(Duration::from_micros(20)));
        assert!(long.limit() > Duration::ZERO, "and back");
    }

    #[test]
    fn one_core_is_left_to_the_others() {
        assert_eq!(after(1, &[1; 50]).limit(), Duration::ZERO);
    }
}
