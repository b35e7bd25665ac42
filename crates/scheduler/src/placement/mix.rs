//! The mix of tasks, learned from those that arrived.

use crate::placement::state::{Task, WHOLE};
use std::collections::BTreeMap;

/// Most kinds of task in the mix. One more halves all counts and drops those that vanish.
pub(crate) const KINDS_MAX: usize = 1024;
/// Arrivals after which all counts are halved: older tasks count less.
pub(crate) const HALF_LIFE: u64 = 16_384;
/// At least one of so many tasks with devices is taken to need a whole node of the largest, until so many were expected in vain.
const WHOLE_NODES: u64 = 128;
const EXPECTED_MAX: u64 = 4;
/// What an arrival adds to its kind's count, so that halves stay whole numbers.
const ARRIVAL: u64 = 16;

#[derive(Clone, Debug, Default)]
pub(crate) struct Mix {
    counts: BTreeMap<Task, u64>,
    since_halving: u64,
}

impl Mix {
    /// Counts a task.
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

    /// The mix in which some tasks take `devices` whole ones, all of a large node's: nodes are kept whole for them also before the
    /// first one arrives.
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

    /// Each kind of task with its count, in a fixed order.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&Task, u64)> {
        self.counts.iter().map(|(task, count)| (task, *count))
    }

    /// The kinds of task that take devices.
    pub(crate) fn device_kinds(&self) -> impl Iterator<Item = (&Task, u64)> {
        self.kinds().filter(|(task, _)| task.devices > 0)
    }

    /// The kinds of task that take host cores and memory only.
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
