//! Repeated timing of an operation.

use accord_types::{MEDIUM, PathTimes, SMALL};
use std::time::{Duration, Instant};

/// Most timed runs, and the time after which no further run starts.
const RUNS_MAX: usize = 100;
const SHARE: Duration = Duration::from_millis(10);
/// Size of a copy for measuring the rate.
pub(super) const STREAM: usize = 8 << 20;

/// Returns the median of several runs, after one for warming up.
pub(super) fn median(mut run: impl FnMut()) -> Duration {
    run();
    let (begin, mut times) = (Instant::now(), Vec::with_capacity(RUNS_MAX));
    while times.is_empty() || times.len() < RUNS_MAX && begin.elapsed() < SHARE {
        let before = Instant::now();
        run();
        times.push(before.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

/// Measures the times of a copy of a given length.
pub(super) fn path(mut copy: impl FnMut(usize)) -> PathTimes {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let [small, medium] = [SMALL, MEDIUM].map(|bytes| ns(median(|| copy(usize::try_from(bytes).unwrap_or(0)))));
    let long = ns(median(|| copy(STREAM)));
    let behind = u128::from(long.saturating_sub(medium).max(1));
    let rate = (STREAM as u128 - u128::from(MEDIUM)) * 1_000_000_000 / behind;
    PathTimes::new(small, medium, u64::try_from(rate).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_tried_with_all_lengths_and_not_for_long() {
        let mut lengths = std::collections::BTreeMap::new();
        path(|bytes| *lengths.entry(bytes).or_insert(0usize) += 1);
        assert_eq!(lengths.keys().copied().collect::<Vec<_>>(), [8, 64 << 10, STREAM]);
        assert!(lengths.values().all(|runs| (2..=RUNS_MAX + 1).contains(runs)), "{lengths:?}");
        let mut runs = 0;
        median(|| {
            runs += 1;
            std::thread::sleep(SHARE);
        });
        assert_eq!(runs, 2);
    }
}
