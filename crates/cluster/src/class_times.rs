//! Path times by class for the scheduler: the median of each class's latest measurements.

use accord_scheduler::path_class::{PathClass, PathTimesByClass};
use accord_types::PathTimes;
use std::collections::{BTreeMap, VecDeque};

/// Number of latest measurements of a class that are used.
const MEASUREMENTS_MAX: usize = 32;
/// Number of bytes by whose transfer time measurements are compared.
const COMPARED_BYTES: u64 = 1 << 20;

/// The latest measurements of each class.
#[derive(Debug, Default)]
pub(super) struct ClassTimes(BTreeMap<PathClass, VecDeque<PathTimes>>);

impl ClassTimes {
    /// Adds a measurement. Returns the times by class.
    pub(super) fn note(&mut self, class: PathClass, times: PathTimes) -> PathTimesByClass {
        let of_class = self.0.entry(class).or_default();
        if of_class.len() == MEASUREMENTS_MAX {
            of_class.pop_front();
        }
        of_class.push_back(times);
        let mut by_class = PathTimesByClass::default();
        for (&class, measured) in &self.0 {
            by_class.set(class, PathTimes::median(measured).map(|times| times.ns(COMPARED_BYTES)));
        }
        by_class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_latest_measurements_counts() {
        let times = |medium_ns| PathTimes::new(1_000, medium_ns, u64::MAX);
        let mut classes = ClassTimes::default();
        for medium_ns in [50_000, 40_000, 900_000] {
            classes.note(PathClass::Rack, times(medium_ns));
        }
        let by_class = classes.note(PathClass::Other, times(200_000));
        let found = PathClass::ALL.map(|class| by_class.get(class));
        assert_eq!(found, [None, Some(50_000), None, Some(200_000)]);
        for _ in 0..MEASUREMENTS_MAX {
            classes.note(PathClass::Rack, times(70_000));
        }
        assert_eq!(classes.note(PathClass::Rack, times(1)).get(PathClass::Rack), Some(70_000));
        assert_eq!(classes.0[&PathClass::Rack].len(), MEASUREMENTS_MAX);
    }
}
