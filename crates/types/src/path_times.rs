//! Measured or estimated times of copies over a path.

use std::fmt;

/// The shorter of the two lengths that are timed. Bytes beyond [`MEDIUM`] go at the path's rate.
pub const SMALL: u64 = 8;
/// The longer of the two lengths that are timed, see [`SMALL`].
pub const MEDIUM: u64 = 64 << 10;

const NS_PER_S: u64 = 1_000_000_000;

/// Times of a path in one direction, for small, medium and long copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathTimes {
    /// Time of [`SMALL`] bytes, in nanoseconds.
    pub small_ns: u64,
    /// Time of [`MEDIUM`] bytes, in nanoseconds.
    pub medium_ns: u64,
    /// Rate of the bytes after [`MEDIUM`], in bytes a second.
    pub stream_bytes_per_s: u64,
}

impl PathTimes {
    /// Returns consistent times: longer copies take no less, and every rate is finite, even for a disturbed
    /// measurement.
    pub fn new(small_ns: u64, medium_ns: u64, stream_bytes_per_s: u64) -> Self {
        Self { small_ns, medium_ns: medium_ns.max(small_ns), stream_bytes_per_s: stream_bytes_per_s.max(1) }
    }

    /// Returns the time of a copy of this many bytes.
    pub fn ns(&self, bytes: u64) -> u64 {
        if bytes <= MEDIUM {
            let more = u128::from(self.medium_ns.saturating_sub(self.small_ns));
            let part = more * u128::from(bytes.saturating_sub(SMALL)) / u128::from(MEDIUM - SMALL);
            return self.small_ns.saturating_add(narrow(part));
        }
        let rest = u128::from(bytes - MEDIUM) * u128::from(NS_PER_S) / u128::from(self.stream_bytes_per_s.max(1));
        self.medium_ns.saturating_add(narrow(rest))
    }

    /// Returns the times of two paths in sequence. Long copies use both at once, pipelined in pieces.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self::new(
            self.small_ns.saturating_add(next.small_ns),
            self.medium_ns.saturating_add(next.medium_ns),
            self.stream_bytes_per_s.min(next.stream_bytes_per_s),
        )
    }

    /// Returns the times with a constant added to each copy.
    #[must_use]
    pub fn after(self, ns: u64) -> Self {
        Self::new(self.small_ns.saturating_add(ns), self.medium_ns.saturating_add(ns), self.stream_bytes_per_s)
    }

    /// Returns the median of each figure.
    pub fn median<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let all: Vec<&Self> = all.into_iter().collect();
        let middle = |of: fn(&Self) -> u64| {
            let mut figures: Vec<u64> = all.iter().map(|times| of(times)).collect();
            figures.sort_unstable();
            figures.get(figures.len() / 2).copied()
        };
        Some(Self::new(
            middle(|times| times.small_ns)?,
            middle(|times| times.medium_ns)?,
            middle(|times| times.stream_bytes_per_s)?,
        ))
    }
}

/// The source of a path's times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    /// The path itself was measured.
    Measured,
    /// Parts of the path, or other paths of its kind, were measured.
    Estimated,
    /// Nothing was measured: the values of usual hardware.
    Default,
}

impl Source {
    /// Returns the source's name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Estimated => "estimated",
            Self::Default => "default",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The times of a path, and their source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// The figures.
    pub times: PathTimes,
    /// Source of the times.
    pub source: Source,
}

impl Cost {
    /// Returns a cost with default times, which were not measured here.
    pub const fn default_of(small_ns: u64, medium_ns: u64, stream_bytes_per_s: u64) -> Self {
        Self { times: PathTimes { small_ns, medium_ns, stream_bytes_per_s }, source: Source::Default }
    }

    /// Returns the cost of two paths in sequence. Its source is the less certain of the two, and [`Source::Estimated`]
    /// at best.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self { times: self.times.then(next.times), source: self.source.max(next.source).max(Source::Estimated) }
    }

    /// Returns the cost with [`PathTimes::after`] applied.
    #[must_use]
    pub fn after(self, ns: u64) -> Self {
        Self { times: self.times.after(ns), source: self.source.max(Source::Estimated) }
    }
}

fn narrow(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_measured_and_between_them_on_lines() {
        let times = PathTimes::new(1_000, 9_000, 1 << 30);
        assert_eq!([0, 8, MEDIUM].map(|bytes| times.ns(bytes)), [1_000, 1_000, 9_000]);
        assert_eq!(times.ns((MEDIUM + SMALL) / 2), 5_000);
        assert_eq!(times.ns(MEDIUM + (1 << 30)), 9_000 + NS_PER_S);
        assert_eq!(times.ns(u64::MAX), 9_000 + narrow((u128::from(u64::MAX - MEDIUM) * 1_000_000_000) >> 30));
    }

    #[test]
    fn longer_transfers_never_take_less_time() {
        let odd = [0, 1, 7_000, u64::MAX];
        for small in odd {
            for medium in odd {
                for rate in odd {
                    let times = PathTimes::new(small, medium, rate);
                    let lengths = [0, 1, 8, 9, 100, MEDIUM - 1, MEDIUM, MEDIUM + 1, 1 << 30, u64::MAX];
                    assert!(lengths.map(|bytes| times.ns(bytes)).is_sorted(), "{times:?}");
                }
            }
        }
    }

    #[test]
    fn paths_behind_each_other_add_up_and_go_as_fast_as_the_slower() {
        let (first, second) = (PathTimes::new(1, 10, 500), PathTimes::new(2, 30, 400));
        assert_eq!(first.then(second), PathTimes::new(3, 40, 400));
        assert_eq!(first.after(5), PathTimes::new(6, 15, 500));
        let cost = |source| Cost { times: first, source };
        assert_eq!(cost(Source::Measured).then(cost(Source::Measured)).source, Source::Estimated);
        assert_eq!(cost(Source::Measured).then(cost(Source::Default)).source, Source::Default);
    }

    #[test]
    fn the_middle_is_taken_figure_by_figure() {
        let all = [PathTimes::new(1, 50, 9), PathTimes::new(3, 40, 7), PathTimes::new(2, 60, 8)];
        assert_eq!(PathTimes::median(&all), Some(PathTimes::new(2, 50, 8)));
        assert_eq!(PathTimes::median([]), None);
    }
}
