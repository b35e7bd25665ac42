//! Repeated runs, and statistics of their times.

use std::time::{Duration, Instant};

/// Most runs of a figure: more do not improve it.
const RUNS_MAX: usize = 2_000;
/// Fewest runs of a figure that was begun.
const RUNS_MIN: usize = 3;

/// The times of a series of equal runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Times {
    /// The median.
    pub(super) median_us: f64,
    /// The 10th percentile.
    pub(super) p10_us: f64,
    /// The 90th percentile.
    pub(super) p90_us: f64,
    pub(super) runs: usize,
}

impl Times {
    /// Returns `None` if there are no runs.
    pub(super) fn of(mut runs: Vec<Duration>) -> Option<Self> {
        runs.sort_unstable();
        let last = runs.len().checked_sub(1)?;
        let at = |tenths: usize| runs.get(last * tenths / 10).map(|time| time.as_secs_f64() * 1e6);
        Some(Self { median_us: at(5)?, p10_us: at(1)?, p90_us: at(9)?, runs: runs.len() })
    }

    /// Returns the rate in gigabytes per second, for runs of this many bytes.
    pub(super) fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 / self.median_us / 1e3
    }
}

/// The remaining time, divided among the remaining figures.
pub(super) struct Budget {
    deadline: Instant,
    cells: usize,
}

impl Budget {
    pub(super) fn new(whole: Duration, cells: usize) -> Self {
        Self { deadline: Instant::now() + whole, cells }
    }

    /// Measures the next figure: one run to warm up, then runs for its share of the time. Returns `None` if no time is
    /// left.
    pub(super) fn measure(&mut self, mut warm_up: impl FnMut(), mut run: impl FnMut()) -> Option<Times> {
        let start = Instant::now();
        let left = self.deadline.saturating_duration_since(start);
        let cells = u32::try_from(self.cells.max(1)).unwrap_or(u32::MAX);
        self.cells = self.cells.saturating_sub(1);
        if left.is_zero() {
            return None;
        }
        let end = start + left / cells;
        warm_up();
        let mut runs = Vec::with_capacity(RUNS_MAX);
        while runs.len() < RUNS_MAX {
            let before = Instant::now();
            if before >= self.deadline && !runs.is_empty() || before >= end && runs.len() >= RUNS_MIN {
                break;
            }
            run();
            runs.push(before.elapsed());
        }
        Times::of(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_tenths_are_taken() {
        let runs = |numbers: &[u64]| numbers.iter().map(|&us| Duration::from_micros(us)).collect::<Vec<_>>();
        let times = Times::of(runs(&[11, 3, 1, 2, 5, 4, 10, 6, 9, 8, 7])).unwrap();
        assert_eq!((times.median_us, times.p10_us, times.p90_us, times.runs), (6.0, 2.0, 10.0, 11));
        assert_eq!(times.rate(6_000), 1.0);
        assert_eq!(Times::of(runs(&[4])).unwrap().median_us, 4.0);
        assert!(Times::of(Vec::new()).is_none());
    }

    #[test]
    fn measurement_beyond_the_time_budget_is_skipped() {
        let mut calls = 0;
        let mut none = Budget::new(Duration::ZERO, 2);
        assert!(none.measure(|| calls += 1, || ()).is_none());
        assert_eq!(calls, 0, "nor is it warmed up");
    }

    #[test]
    fn a_share_is_at_least_a_few_runs_and_at_most_many() {
        let mut budget = Budget::new(Duration::from_secs(3_600), 1_000_000_000);
        let times = budget.measure(|| (), || std::thread::sleep(Duration::from_micros(50))).unwrap();
        assert_eq!(times.runs, RUNS_MIN);
        let mut whole = Budget::new(Duration::from_secs(3_600), 1);
        assert_eq!(whole.measure(|| (), || ()).unwrap().runs, RUNS_MAX);
    }
}
