//! The part of a node's free device time that tasks of the mix can't use.

use crate::placement::mix::Mix;
use crate::placement::state::{NodeState, Task};
use std::collections::BTreeMap;

/// Binary digits after the point of a potential.
pub(crate) const POINT: u32 = 10;
/// Binary digits of the sum of weights, and of reciprocals.
const WEIGHT_BITS: u32 = 20;
const HOST_BITS: u32 = 36;
const SHARE_BITS: u32 = 16;
/// Number of copies of a task, with [`HOST_BITS`] after the point, if the task takes no host resources.
const WITHOUT_BOUND: u64 = 1 << 62;

/// The mix for nodes of one model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments {
    demands: Vec<Demand>,
    /// Sum of the weights of all tasks, including those that may not run on this model.
    weights: u64,
}

/// Tasks with the same demand of devices.
#[derive(Clone, Debug)]
struct Demand {
    devices: u8,
    share: u16,
    /// Tasks per milli of a device.
    per_share: u64,
    hosts: Vec<HostDemand>,
}

/// The host demand of some of these tasks.
#[derive(Clone, Copy, Debug)]
struct HostDemand {
    weight: u64,
    /// Tasks per milli core and per MiB, and a constant that is added.
    per_core: (u64, u64),
    per_memory: (u64, u64),
}

/// Returns a task's weight: its frequency times the square root of its volume, so that nodes stay whole for large
/// tasks.
fn weight(task: &Task, count: u64) -> u64 {
    count * (u64::from(task.volume()) << 10).isqrt()
}

fn reciprocal(demand: u32) -> (u64, u64) {
    if demand == 0 { (0, WITHOUT_BOUND) } else { ((1 << HOST_BITS) / u64::from(demand) + 1, 0) }
}

impl Fragments {
    pub(crate) fn new(mix: &Mix, model: u8) -> Self {
        let total: u64 = mix.device_kinds().map(|(task, count)| weight(task, count)).sum();
        let mut hosts: BTreeMap<(u8, u16), BTreeMap<(u32, u32), u64>> = BTreeMap::new();
        for (task, count) in mix.device_kinds().filter(|(task, _)| task.models.allow(model)) {
            let demand = hosts.entry((task.devices, task.share)).or_default();
            *demand.entry((task.cores, task.memory)).or_default() += weight(task, count);
        }
        let host = |((cores, memory), weight): ((u32, u32), u64)| HostDemand {
            weight: (weight << WEIGHT_BITS) / total,
            per_core: reciprocal(cores),
            per_memory: reciprocal(memory),
        };
        let demand = |((devices, share), hosts): ((u8, u16), BTreeMap<_, _>)| Demand {
            devices,
            share,
            per_share: (1 << SHARE_BITS) / u64::from(share) + 1,
            hosts: hosts.into_iter().map(host).collect(),
        };
        Self { demands: hosts.into_iter().map(demand).collect(), weights: u64::from(total > 0) << WEIGHT_BITS }
    }

    /// Returns the milli that the average task of the mix can't use.
    ///
    /// A task's usable part has three terms. Half of it is the free share on devices on which a copy fits. A quarter is
    /// the volume of whole copies, and a quarter the volume of fractional copies by the host's cores and memory alone.
    pub(crate) fn of(&self, state: &NodeState) -> i64 {
        let mut usable = 0;
        for demand in &self.demands {
            let fitting = state.remainders().partition_point(|free| *free >= demand.share);
            let fitting = &state.remainders()[..fitting];
            let copies: u64 = if demand.devices == 1 {
                fitting.iter().map(|free| (u64::from(*free) * demand.per_share) >> SHARE_BITS).sum()
            } else {
                (fitting.len() / usize::from(demand.devices)) as u64
            };
            if copies == 0 {
                continue;
            }
            let on_fitting: u64 = fitting.iter().map(|free| u64::from(*free)).sum();
            let volume = u64::from(demand.devices) * u64::from(demand.share);
            for host in &demand.hosts {
                let by_cores = u64::from(state.cores()) * host.per_core.0 + host.per_core.1;
                let by_memory = u64::from(state.memory()) * host.per_memory.0 + host.per_memory.1;
                let by_host = by_cores.min(by_memory);
                if by_host >> HOST_BITS == 0 {
                    continue;
                }
                let whole = copies.min(by_host >> HOST_BITS) * volume;
                let parts = on_fitting.min(((by_host >> 16) * volume) >> (HOST_BITS - 16));
                usable += host.weight * (2 * on_fitting + whole + parts);
            }
        }
        let four_times = 4 * u64::from(state.free()) * self.weights;
        (four_times.saturating_sub(usable) >> (2 + WEIGHT_BITS - POINT)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(tasks: &[Task]) -> Mix {
        let mut mix = Mix::default();
        for task in tasks {
            mix.arrived(task);
        }
        mix
    }

    fn milli(fragments: &Fragments, state: &NodeState) -> i64 {
        (fragments.of(state) + (1 << (POINT - 1))) >> POINT
    }

    #[test]
    fn capacity_usable_by_every_task_is_no_fragment() {
        let task = Task { devices: 1, share: 500, ..Task::default() };
        let fragments = Fragments::new(&mix(&[task]), 0);
        assert_eq!(milli(&fragments, &NodeState::new(0, 0, 0, &[1000, 1000])), 0);
    }

    #[test]
    fn all_is_a_fragment_where_no_task_fits() {
        let whole = Task { devices: 1, share: 1000, ..Task::default() };
        let cores = Task { cores: 8000, ..whole };
        let other = Task { models: crate::placement::state::Models::only([3]), ..whole };
        for (task, state) in [
            (whole, NodeState::new(0, 0, 0, &[900, 800])),
            (cores, NodeState::new(7000, 0, 0, &[1000, 700])),
            (other, NodeState::new(0, 0, 0, &[1000, 700])),
        ] {
            assert_eq!(milli(&Fragments::new(&mix(&[task]), 0), &state), 1700);
        }
    }

    #[test]
    fn whole_copies_count_by_a_quarter() {
        let task = Task { devices: 1, share: 600, ..Task::default() };
        // All 1000 are on a fitting device, one copy takes 600, and the host has room for more.
        assert_eq!(milli(&Fragments::new(&mix(&[task]), 0), &NodeState::new(0, 0, 0, &[1000])), 100);
    }
}
