//! The launches of a stream that are in the driver's stream at one time while the device is shared by turns. A launch in the
//! driver's stream can't be held back, so a turn ends only after all of them.

use std::time::{Duration, Instant};

/// The time that a batch should take: long beside its wait of 10 us, and short beside a turn.
const BATCH_TIME: Duration = Duration::from_micros(500);
/// Most launches of a batch.
const BATCH_MAX: u32 = 64;

/// Launches that the stream's worker has issued since it last waited for the driver's stream.
#[derive(Debug)]
pub(crate) struct LaunchBatch {
    launched: u32,
    /// Number of launches after which the worker waits.
    size: u32,
    since: Option<Instant>,
}

impl Default for LaunchBatch {
    fn default() -> Self {
        Self { launched: 0, size: 1, since: None }
    }
}

impl LaunchBatch {
    /// Counts a launch. Returns whether the worker must wait for the driver's stream.
    pub(crate) fn launched(&mut self, now: Instant) -> bool {
        self.since.get_or_insert(now);
        self.launched += 1;
        self.launched >= self.size
    }

    /// Records that the driver's stream was empty, and adapts the size of a batch.
    pub(crate) fn waited(&mut self, now: Instant) {
        let took = self.since.take().map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        if 2 * took <= BATCH_TIME {
            self.size = (2 * self.size).min(BATCH_MAX);
        } else if took > BATCH_TIME {
            self.size = (self.size / 2).max(1);
        }
        self.launched = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of launches of a batch once it has adapted to launches of this duration.
    fn adapted(launch: Duration) -> u32 {
        let (mut batch, mut now, mut last) = (LaunchBatch::default(), Instant::now(), 0);
        for _ in 0..1_000 {
            last += 1;
            if batch.launched(now) {
                now += launch * last;
                batch.waited(now);
                if batch.size < last {
                    return last;
                }
                last = 0;
            }
        }
        batch.size
    }

    #[test]
    fn a_batch_takes_about_its_time() {
        assert_eq!(adapted(Duration::from_millis(10)), 1);
        assert!((4..=16).contains(&adapted(Duration::from_micros(50))), "{}", adapted(Duration::from_micros(50)));
        assert_eq!(adapted(Duration::from_nanos(100)), BATCH_MAX);
    }
}
