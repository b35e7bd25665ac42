//! Common parts of random constructs of all languages.

use crate::analysis::Rules;

/// Rules that allow everything that is proven.
pub(super) const RULES: Rules = Rules { prove: true, implicit_reductions: true, no_alias: false };

/// Numbers that follow from a seed.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        accord_test_tier::splitmix64(&mut self.0) % bound
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[usize::try_from(self.below(list.len() as u64)).unwrap_or(0)]
    }
}

/// A setting of the test.
pub(super) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the seeds of a test's files: `ACCORD_TEST_PROGRAMS` constructs, else as many as the tier has, from `ACCORD_TEST_SEED` on.
pub(super) fn seeds(of_file: usize, short: u64, long: u64) -> std::ops::Range<u64> {
    let constructs = number("ACCORD_TEST_PROGRAMS").unwrap_or(accord_test_tier::pick(short, long));
    let files = constructs.div_ceil(of_file as u64);
    let first = number("ACCORD_TEST_SEED").unwrap_or_else(|| accord_test_tier::first_seed(files));
    first..first + files
}

/// Whether the sources are only written, into the folder that `ACCORD_TEST_WRITE` names.
pub(super) fn written(seeds: std::ops::Range<u64>, extension: &str, source: impl Fn(u64) -> String) -> bool {
    let Some(folder) = std::env::var_os("ACCORD_TEST_WRITE") else { return false };
    for seed in seeds {
        let file = std::path::Path::new(&folder).join(format!("kernels_{seed}.{extension}"));
        std::fs::write(file, source(seed)).unwrap();
    }
    true
}
