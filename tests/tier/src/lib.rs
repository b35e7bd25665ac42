//! The two tiers of the tests. `make test` runs the short one in minutes; `make test-long` runs everything.
//!
//! A test that only the long tier runs is `#[ignore = "long"]`. A generator or simulation takes a small part of its seeds in the short
//! tier, another part each day, so that the days together cover what the long tier covers at once.
#![forbid(unsafe_code)]

use std::time::SystemTime;

/// The environment variable that chooses the tier: `long`, or unset for the short one.
pub const TIER: &str = "ACCORD_TEST_TIER";

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Whether this is a run of the long tier.
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os(TIER).is_some_and(|tier| tier == "long")
}

/// Returns `short` or `long`, by the tier of this run.
#[must_use]
pub fn pick<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// Returns the first of `count` consecutive seeds of this run: 0 in the long tier, and another range each day in the short one.
///
/// A test prints the seed that failed, so that it can be run again on another day.
#[must_use]
pub fn first_seed(count: u64) -> u64 {
    if is_long() { 0 } else { today().wrapping_mul(count) }
}

/// Returns the cases of this run: all in the long tier, and `count` of them in the short one, where successive days take all in turn.
///
/// A test prints the case that failed, so that it can be run alone.
#[must_use]
pub fn cases<T: Clone>(all: &[T], count: usize) -> Vec<T> {
    if is_long() { all.to_vec() } else { part(all, count, today()) }
}

fn part<T: Clone>(all: &[T], count: usize, day: u64) -> Vec<T> {
    let first = usize::try_from(day).unwrap_or(0).wrapping_mul(count);
    (0..count.min(all.len())).map(|n| all[first.wrapping_add(n) % all.len()].clone()).collect()
}

/// Returns the next number of SplitMix64, from which tests make what they choose, and advances `state`, whose first value is the seed.
pub const fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Days since 1970. A clock that is set to an earlier time counts as day 0.
fn today() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() / SECONDS_PER_DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of seed 0 by the algorithm's reference implementation.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut state = 0;
        let numbers = [(); 3].map(|()| splitmix64(&mut state));
        assert_eq!(numbers, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    #[test]
    fn successive_days_take_all_cases() {
        let days = [0, 1, 2].map(|day| part(&["a", "b", "c", "d", "e"], 2, day));
        assert_eq!(days, [["a", "b"], ["c", "d"], ["e", "a"]]);
        assert_eq!(part(&[1, 2], 3, 7), [2, 1], "never one twice");
        assert!(part::<u8>(&[], 3, 1).is_empty());
    }

    #[test]
    fn ranges_of_successive_days_do_not_overlap() {
        // The environment of this process is not changed: other tests read it too.
        if is_long() {
            assert_eq!(first_seed(7), 0);
        } else {
            assert_eq!(first_seed(7) % 7, 0);
            assert!(first_seed(7) >= 7 * 20_000);
        }
    }
}
