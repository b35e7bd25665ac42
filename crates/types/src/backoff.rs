//! When something that failed is tried again: soon, then less often, and not by everybody at the same moment.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(50);
/// The longest one.
const LONGEST: Duration = Duration::from_secs(1);

/// Pauses between tries, until they are over.
#[derive(Clone, Debug)]
pub struct Backoff {
    pause: Duration,
    end: Duration,
    random: u64,
}

impl Backoff {
    /// For `patience` after the first try. Those with different seeds pause differently.
    pub fn new(patience: Duration, seed: u64) -> Self {
        Self { pause: FIRST, end: patience, random: seed | 1 }
    }

    /// After a try that failed `since` the first one began: how long to pause before the next one; none if there is to be none.
    pub fn pause(&mut self, since: Duration) -> Option<Duration> {
        let left = self.end.checked_sub(since).filter(|left| !left.is_zero())?;
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Half of it is the same for all.
        let part = u32::try_from(self.random >> 40).unwrap_or(0) % 1_000;
        let pause = self.pause / 2 + self.pause * part / 2_000;
        self.pause = (self.pause * 2).min(LONGEST);
        Some(pause.min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_until_the_time_is_over_and_once_at_its_end() {
        for seed in 0..500 {
            for patience in [0, 1, 49, 700, 30_000].map(Duration::from_millis) {
                let (mut backoff, mut now, mut tries) = (Backoff::new(patience, seed), Duration::ZERO, 1);
                while let Some(pause) = backoff.pause(now) {
                    assert!(pause <= LONGEST);
                    now += pause;
                    tries += 1;
                    assert!(tries < 200, "{patience:?}");
                }
                assert_eq!(now, patience, "the last try is when the time is over");
            }
        }
    }

    #[test]
    fn many_do_not_come_at_the_same_moment() {
        let moments: std::collections::BTreeSet<Duration> =
            (0..200).filter_map(|seed| Backoff::new(LONGEST, seed * 2).pause(Duration::ZERO)).collect();
        assert!(moments.len() > 100, "{}", moments.len());
    }
}
