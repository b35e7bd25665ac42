//! The launches of a stream that are in the driver's stream at one time while the device is shared by turns. A launch in the
//! driver's stream can't be held back, so a turn ends only after all of them.

use std::time::{Duration, Instant};

/// The time that a batch of short launches should take: long beside a wait of 10 us, and short beside a turn.
const BATCH_TIME: Duration = Duration::from_micros(500);
/// Most launches of a batch.
const BATCH_MAX: u32 = 64;
/// The longest batch behind which the next one is issued, so that the device does not wait for the host in between. A region
/// of 1 ms takes a little longer while the host waits for each.
const OVERLAP_MAX: Duration = Duration::from_micros(1_250);

/// The worker's next step after a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterLaunch {
    /// Issues the next one.
    Issue,
    /// Records the event with this number, at the batch's end.
    Record(usize),
    /// Records the event with this number, and waits for the other one: for the batch before.
    RecordAndWait(usize),
    /// Waits until the driver's stream is empty.
    Drain,
}

/// The worker's batches of launches, of which two are in the driver's stream if they are short.
#[derive(Debug)]
pub(crate) struct LaunchBatch {
    /// Launches of this batch.
    launched: u32,
    /// Launches of a whole one.
    size: u32,
    /// When its first launch was issued, or the batch before has ended.
    since: Option<Instant>,
    overlaps: bool,
    /// The event of the batch before, if it may be in the driver's stream.
    before: Option<usize>,
    /// Launches of the batches with the two events, and of the batch that is waited for.
    counts: [u32; 2],
    awaited: u32,
}

impl Default for LaunchBatch {
    fn default() -> Self {
        Self { launched: 0, size: 1, since: None, overlaps: false, before: None, counts: [0; 2], awaited: 0 }
    }
}

impl LaunchBatch {
    /// Counts a launch.
    pub(crate) fn launched(&mut self, now: Instant) -> AfterLaunch {
        self.since.get_or_insert(now);
        self.launched += 1;
        if self.launched < self.size {
            return AfterLaunch::Issue;
        }
        let count = std::mem::take(&mut self.launched);
        if !self.overlaps {
            (self.before, self.awaited) = (None, count);
            return AfterLaunch::Drain;
        }
        let event = 1 - self.before.unwrap_or(1);
        self.counts[event] = count;
        match self.before.replace(event) {
            None => AfterLaunch::Record(event),
            Some(before) => {
                self.awaited = self.counts[before];
                AfterLaunch::RecordAndWait(event)
            }
        }
    }

    /// Records the end of a batch that was waited for, and adapts the next ones.
    pub(crate) fn waited(&mut self, now: Instant) {
        let took = self.since.replace(now).map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let launch = (took / self.awaited.max(1)).as_nanos().max(1);
        self.size = u32::try_from(BATCH_TIME.as_nanos() / launch).unwrap_or(BATCH_MAX).clamp(1, BATCH_MAX);
        self.overlaps = took <= OVERLAP_MAX;
    }

    /// Records that the driver's stream is empty, and the next launch not issued yet.
    pub(crate) fn drained(&mut self) {
        (self.launched, self.since, self.before) = (0, None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs launches of one duration, and returns the longest time that the driver's stream needs for what it has.
    fn longest(launch: Duration) -> Duration {
        let begun = Instant::now();
        // When the driver's stream has done what it has, and the ends of the batches with the two events.
        let (mut now, mut free, mut ends, mut longest) = (begun, begun, [begun; 2], Duration::ZERO);
        let mut batch = LaunchBatch::default();
        for count in 0..1_000 {
            free = free.max(now) + launch;
            if count > 100 {
                longest = longest.max(free - now);
            }
            match batch.launched(now) {
                AfterLaunch::Issue => continue,
                AfterLaunch::Record(event) => {
                    ends[event] = free;
                    continue;
                }
                AfterLaunch::RecordAndWait(event) => {
                    ends[event] = free;
                    now = now.max(ends[1 - event]);
                }
                AfterLaunch::Drain => now = free,
            }
            batch.waited(now);
        }
        longest
    }

    #[test]
    fn little_more_than_a_launch_is_in_the_drivers_stream() {
        for us in [1, 20, 50, 200, 400, 1_000, 1_250, 3_000, 10_000] {
            let launch = Duration::from_micros(us);
            let longest = longest(launch);
            assert!(longest <= launch + OVERLAP_MAX, "{launch:?}: {longest:?}");
            // The driver's stream always has the next launch of a short region.
            assert!(us > 1_000 || longest >= 2 * launch, "{launch:?}: {longest:?}");
        }
    }

    #[test]
    fn a_drained_stream_begins_a_batch() {
        let mut batch = LaunchBatch { overlaps: true, ..LaunchBatch::default() };
        let now = Instant::now();
        assert_eq!(batch.launched(now), AfterLaunch::Record(0));
        assert_eq!(batch.launched(now), AfterLaunch::RecordAndWait(1));
        assert_eq!(batch.launched(now), AfterLaunch::RecordAndWait(0));
        batch.drained();
        assert_eq!(batch.launched(now), AfterLaunch::Record(0));
    }
}
