//! The part of a node's devices that stays free when the node is filled from a pool of waiting tasks.
//!
//! The estimate considers cores, memory, models and the sizes of gaps together: a node that fills up well is worth
//! keeping.

use crate::placement::draw::DrawnPools;
use crate::placement::fragments::POINT;
use crate::placement::state::{DEVICES_MAX, NodeState, Task, WHOLE};

/// Binary digits of a device's index in the key by which the tightest device is found.
const INDEX_BITS: u32 = DEVICES_MAX.trailing_zeros();
/// Bits of a bucket in the table by which a search skips tasks that are too large.
const BUCKET_BITS: u32 = 4;
const BUCKETS: usize = (WHOLE as usize >> BUCKET_BITS) + 1;

/// The pools for nodes with a number of devices of one model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pools(Vec<Pool>);

#[derive(Clone, Debug)]
struct Pool {
    /// Tasks of several devices, then tasks of one device, both by descending volume.
    tasks: Vec<PoolTask>,
    /// Index of the first task of one device.
    singles: usize,
    least_share_of_several: u16,
    /// For each bucket of the largest remainder, the first task of one device that may fit.
    first: Vec<u16>,
    host_tasks: Vec<HostTask>,
}

#[derive(Clone, Copy, Debug)]
struct PoolTask {
    cores: u32,
    memory: u32,
    share: u16,
    devices: u8,
    /// Least cores and memory of this task and all later ones.
    cores_from_here: u32,
    memory_from_here: u32,
}

#[derive(Clone, Copy, Debug)]
struct HostTask {
    /// Number of device tasks before it.
    after: usize,
    cores: u32,
    memory: u32,
}

impl Pools {
    pub(crate) fn new(drawn: &DrawnPools, model: u8) -> Self {
        Self(drawn.0.iter().map(|tasks| Pool::new(tasks, model)).collect())
    }

    /// Returns the average milli left free, with [`POINT`] binary digits after the point.
    pub(crate) fn left(&self, state: &NodeState) -> i64 {
        let left: u64 = if state.count() <= DEVICES_MAX / 2 {
            let keys = keys::<{ DEVICES_MAX / 2 }>(state);
            self.0.iter().map(|pool| u64::from(pool.left(state, keys))).sum()
        } else {
            let keys = keys::<DEVICES_MAX>(state);
            self.0.iter().map(|pool| u64::from(pool.left(state, keys))).sum()
        };
        ((left << POINT) / self.0.len().max(1) as u64) as i64
    }
}

impl Pool {
    fn new(order: &[Task], model: u8) -> Self {
        let (mut tasks, mut host_tasks): (Vec<PoolTask>, _) = (Vec::new(), Vec::new());
        for task in order {
            let Task { cores, memory, share, devices, models } = *task;
            if devices == 0 {
                host_tasks.push(HostTask { after: tasks.len(), cores, memory });
            } else if models.allow(model) {
                let (cores_from_here, memory_from_here) = (cores, memory);
                tasks.push(PoolTask { cores, memory, share, devices, cores_from_here, memory_from_here });
            }
        }
        let (mut cores, mut memory) = (u32::MAX, u32::MAX);
        for task in tasks.iter_mut().rev() {
            (cores, memory) = (cores.min(task.cores), memory.min(task.memory));
            (task.cores_from_here, task.memory_from_here) = (cores, memory);
        }
        let singles = tasks.partition_point(|task| task.devices > 1);
        let least_share_of_several = tasks[..singles].iter().map(|task| task.share).min().unwrap_or(u16::MAX);
        let first = first_by_bucket(&tasks, singles);
        Self { tasks, singles, least_share_of_several, first, host_tasks }
    }

    /// Fills the node with the pool's tasks in order, each on the tightest devices. Returns the milli left.
    ///
    /// Each key is the free share of a device with the device's index in its low digits.
    fn left<const LANES: usize>(&self, state: &NodeState, mut keys: [i16; LANES]) -> u32 {
        let (mut cores, mut memory, mut free) = (state.cores(), state.memory(), state.free());
        let mut host_tasks = self.host_tasks.iter().peekable();
        let (mut at, mut largest) = (0, state.devices()[0]);
        while free > 0 {
            if at < self.singles && largest < self.least_share_of_several {
                at = self.singles;
            }
            if at >= self.singles {
                at = at.max(usize::from(self.first[usize::from(largest >> BUCKET_BITS)]));
            }
            let Some(task) = self.tasks.get(at) else { break };
            while let Some(host) = host_tasks.next_if(|host| host.after <= at) {
                if host.cores <= cores && host.memory <= memory {
                    cores -= host.cores;
                    memory -= host.memory;
                }
            }
            if task.cores_from_here > cores || task.memory_from_here > memory {
                break;
            }
            at += 1;
            if task.cores > cores || task.memory > memory || task.share > largest {
                continue;
            }
            let share = (task.share << INDEX_BITS) as i16;
            if task.devices > 1 && keys.iter().filter(|key| **key >= share).count() < usize::from(task.devices) {
                continue;
            }
            take_tightest(&mut keys, task.devices, share);
            cores -= task.cores;
            memory -= task.memory;
            free -= u32::from(task.devices) * u32::from(task.share);
            largest = keys.iter().fold(0, |largest, key| largest.max(*key)) as u16 >> INDEX_BITS;
        }
        free
    }
}

/// Takes `share` from the `needed` tightest devices that have it. There are enough of them.
///
/// The keys are signed words, because processors find their minimum eight at a time.
fn take_tightest<const LANES: usize>(keys: &mut [i16; LANES], needed: u8, share: i16) {
    let mut least = share;
    for _ in 0..needed {
        let best = keys.iter().fold(i16::MAX, |best, key| best.min(if *key >= least { *key } else { i16::MAX }));
        keys[usize::from(best as u16) % LANES] -= share;
        least = best.saturating_add(1);
    }
}

/// Returns the keys of the devices.
fn keys<const LANES: usize>(state: &NodeState) -> [i16; LANES] {
    std::array::from_fn(|at| (state.devices()[at] << INDEX_BITS) as i16 | at as i16)
}

fn first_by_bucket(tasks: &[PoolTask], singles: usize) -> Vec<u16> {
    let (mut first, mut at) = (vec![0; BUCKETS], tasks.len());
    for (bucket, first) in first.iter_mut().enumerate() {
        let largest = ((bucket + 1) << BUCKET_BITS) - 1;
        while at > singles && usize::from(tasks[at - 1].share) <= largest {
            at -= 1;
        }
        *first = at as u16;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::random::Random;
    use crate::placement::state::Models;

    /// Computes the same result without tables and keys.
    fn left_plainly(order: &[Task], state: &NodeState) -> u32 {
        let mut left = *state;
        for task in order {
            if left.fits(task) {
                let mut devices = left.remainders().to_vec();
                let fitting = devices.iter().filter(|free| **free >= task.share).count();
                for device in &mut devices[fitting - usize::from(task.devices)..fitting] {
                    *device -= task.share;
                }
                left = NodeState::new(left.cores() - task.cores, left.memory() - task.memory, left.model(), &devices);
            }
        }
        left.free()
    }

    #[test]
    fn filling_is_what_it_is_without_tables() {
        let mut random = Random::new(1);
        let mut below = |end: u32| random.below(u64::from(end)) as u32;
        for _ in 0..2000 {
            let mut tasks: Vec<Task> = (0..below(30))
                .map(|_| {
                    let devices = [0, 1, 1, 1, 2, 4][below(6) as usize];
                    let share = if below(3) == 0 { 1000 } else { 1 + below(1000) as u16 };
                    let models = if below(4) == 0 { Models::only([1]) } else { Models::ANY };
                    Task { devices, share, cores: below(9), memory: below(9), models }.normal()
                })
                .collect();
            tasks.sort_by_key(|task| (task.devices < 2, std::cmp::Reverse(task.volume())));
            let count = 1 + below(DEVICES_MAX as u32) as usize;
            let remainders: Vec<u16> =
                (0..count).map(|_| [1000, 1000, below(1001) as u16][below(3) as usize]).collect();
            let state = NodeState::new(below(40), below(40), below(2) as u8, &remainders);
            let drawn = DrawnPools(vec![tasks.clone()]);
            assert_eq!(
                Pools::new(&drawn, state.model()).left(&state),
                i64::from(left_plainly(&tasks, &state)) << POINT
            );
        }
    }
}
