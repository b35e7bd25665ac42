//! Pauses between retries: short at first, then longer, and jittered so that processes do not retry at the same moment.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(1);

/// A bounded exponential backoff with jitter.
#[derive(Clone, Debug)]
pub struct Backoff {
    pause: Duration,
    end: Duration,
    random: u64,
}

impl Backoff {
    /// Creates a backoff that ends `limit` after the first try. Different seeds give different pauses.
    pub fn new(limit: Duration, seed: u64) -> Self {
        Self { pause: FIRST, end: limit, random: seed }
    }

    /// Returns the pause before the next try, after one that failed `since` the first began; `None` once the limit has
    /// passed.
    pub fn pause(&mut self, since: Duration) -> Option<Duration> {
        let left = self.end.checked_sub(since).filter(|left| !left.is_zero())?;
        // Half of the pause is fixed, the other half is jitter.
        let part = u32::try_from(self.draw() % 1_000).unwrap_or(0);
        let pause = self.pause / 2 + self.pause * part / 2_000;
        self.pause = (self.pause * 2).min(LONGEST);
        Some(pause.min(left))
    }

    /// Returns the next number of SplitMix64, whose outputs differ well for nearby seeds such as process numbers.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_until_the_deadline_and_once_at_the_deadline() {
        for seed in 0..500 {
            for limit in [0, 1, 49, 700, 30_000].map(Duration::from_millis) {
                let (mut backoff, mut now, mut tries) = (Backoff::new(limit, seed), Duration::ZERO, 1);
                while let Some(pause) = backoff.pause(now) {
                    assert!(pause <= LONGEST);
                    now += pause;
                    tries += 1;
                    assert!(tries < 200, "{limit:?}");
                }
                assert_eq!(now, limit, "the last try is when the time is over");
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
