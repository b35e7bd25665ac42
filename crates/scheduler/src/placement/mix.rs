//! The mix of tasks, learned from arrivals.

use crate::placement::state::{Task, WHOLE};
use std::collections::BTreeMap;

/// Most kinds of tasks in the mix. At the limit all counts are halved, and kinds with a count of 0 are dropped.
pub(crate) const KINDS_MAX: usize = 1024;
/// Number of arrivals after which all counts are halved, so that older tasks count less.
pub(crate) const HALF_LIFE: u64 = 16_384;
/// The mix assumes that one in this many device tasks needs a whole large node. The assumption ends after
/// `EXPECTED_MAX` such tasks were expected but none arrived.
const WHOLE_NODES: u64 = 128;
const EXPECTED_MAX: u64 = 4;
/// The count of one arrival, large enough that halves are whole numbers.
const ARRIVAL: u64 = 16;

#[derive(Clone, Debug, Default)]
pub(crate) struct Mix {
    counts: BTreeMap<Task, u64>,
    since_halving: u64,
}

impl Mix {
    /// Counts an arrived task.
    pub(crate) fn arrived(&mut self, task: &Task) {
        *self.counts.entry(*task).or_default() += ARRIVAL;
        self.since_halving += 1;
        if self.since_halving >= HALF_LIFE {
            self.halve();
        }
        while self.counts.len() > KINDS_MAX {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.since_halving = 0;
        self.counts.retain(|_, count| {
            *count /= 2;
            *count > 0
        });
    }

    /// Returns the mix with some tasks that take `devices` whole devices, all of a large node. So nodes are kept whole
    /// even before the first such task arrives.
    pub(crate) fn with_whole_nodes(&self, devices: u8) -> Self {
        let mut mix = self.clone();
        let (mut all, mut of_whole_nodes) = (0, 0);
        for (task, count) in self.device_kinds() {
            all += count;
            of_whole_nodes += if task.devices >= devices && task.share == WHOLE { count } else { 0 };
        }
        let missing = (all / WHOLE_NODES).min(EXPECTED_MAX * ARRIVAL).saturating_sub(of_whole_nodes);
        if devices > 1 && missing > 0 {
            *mix.counts.entry(Task { devices, share: WHOLE, ..Task::default() }).or_default() += missing;
        }
        mix
    }

    /// Returns each kind of task with its count, in a fixed order.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&Task, u64)> {
        self.counts.iter().map(|(task, count)| (task, *count))
    }

    /// Returns the kinds of tasks with devices.
    pub(crate) fn device_kinds(&self) -> impl Iterator<Item = (&Task, u64)> {
        self.kinds().filter(|(task, _)| task.devices > 0)
    }

    /// Returns the kinds of tasks with host cores and memory only.
    pub(crate) fn host_kinds(&self) -> impl Iterator<Item = (&Task, u64)> {
        self.kinds().filter(|(task, _)| task.devices == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(cores: u32) -> Task {
        Task { devices: 1, share: 500, cores, ..Task::default() }
    }

    #[test]
    fn keeps_frequent_kinds_within_the_bound() {
        let mut mix = Mix::default();
        for cores in 0..4 * KINDS_MAX as u32 {
            mix.arrived(&task(cores));
            mix.arrived(&task(1_000_000));
            assert!(mix.kinds().count() <= KINDS_MAX);
        }
        assert!(mix.kinds().any(|(kind, _)| *kind == task(1_000_000)));
    }

    #[test]
    fn whole_nodes_are_in_the_mix_before_a_task_takes_one() {
        let mut mix = Mix::default();
        for cores in 0..2 * WHOLE_NODES as u32 {
            mix.arrived(&task(cores));
        }
        let whole = Task { devices: 8, share: WHOLE, ..Task::default() };
        let of_whole = |mix: &Mix| mix.kinds().find(|(kind, _)| **kind == whole).map_or(0, |(_, count)| count);
        assert_eq!(of_whole(&mix.with_whole_nodes(8)), 2 * ARRIVAL);
        for _ in 0..4 {
            mix.arrived(&whole);
        }
        assert_eq!(of_whole(&mix.with_whole_nodes(8)), of_whole(&mix));
        assert_eq!(mix.with_whole_nodes(1).kinds().count(), mix.kinds().count());
    }

    #[test]
    fn later_tasks_outweigh_as_many_earlier_ones() {
        let mut mix = Mix::default();
        for cores in [1, 2] {
            for _ in 0..HALF_LIFE {
                mix.arrived(&task(cores));
            }
        }
        let counts: Vec<u64> = mix.kinds().map(|(_, count)| count).collect();
        assert_eq!(counts[1], 2 * counts[0]);
    }
}
