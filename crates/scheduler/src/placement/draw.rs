//! Pools of tasks drawn from the mix, to fill a node's free resources with.

use crate::placement::mix::Mix;
use crate::placement::random::Random;
use crate::placement::state::Task;

/// Number of pools by which a node is judged.
const POOLS: usize = 64;
/// Size of the first pool, in 1/65,536 of four tasks a device and four more. The last one has twice that.
const SIZE_FIRST: u64 = 39_322;
/// Growth of the size from pool to pool, times 2^32: the 63rd root of 2 / 0.6.
const SIZE_GROWTH: u64 = 4_377_836_359;
/// Most host-only tasks in a pool.
const HOST_TASKS_MAX: u64 = 64;
const SEED: u64 = 4242;

/// The pools for one number of devices, with tasks for all models.
#[derive(Clone, Debug, Default)]
pub(crate) struct DrawnPools(pub(crate) Vec<Vec<Task>>);

/// Draws kinds of tasks by their frequency.
struct Urn {
    tasks: Vec<Task>,
    up_to: Vec<u64>,
}

impl Urn {
    fn new<'a>(kinds: impl Iterator<Item = (&'a Task, u64)>) -> Self {
        let mut urn = Self { tasks: Vec::new(), up_to: Vec::new() };
        let mut sum = 0;
        for (task, count) in kinds {
            sum += count;
            urn.tasks.push(*task);
            urn.up_to.push(sum);
        }
        urn
    }

    fn total(&self) -> u64 {
        self.up_to.last().copied().unwrap_or_default()
    }

    fn draw(&self, random: &mut Random) -> Task {
        let at = random.below(self.total());
        self.tasks[self.up_to.partition_point(|up_to| *up_to <= at)]
    }
}

impl DrawnPools {
    /// Draws the pools. Equal mixes yield equal pools.
    pub(crate) fn new(mix: &Mix, devices: usize) -> Self {
        let (with_devices, host_only) = (Urn::new(mix.device_kinds()), Urn::new(mix.host_kinds()));
        if with_devices.total() == 0 || devices == 0 {
            return Self::default();
        }
        let (mut random, mut size) = (Random::new(SEED + devices as u64), SIZE_FIRST);
        let pool = |_| {
            let tasks = ((4 * devices as u64 + 4) * size) >> 16;
            size = ((u128::from(size) * u128::from(SIZE_GROWTH)) >> 32) as u64;
            pool(tasks, devices as u64, &with_devices, &host_only, &mut random)
        };
        Self((0..POOLS).map(pool).collect())
    }
}

/// Returns device tasks by descending size. Host-only tasks are near the front, as many as accompany a node's devices
/// in the mix.
fn pool(tasks: u64, devices: u64, with_devices: &Urn, host_only: &Urn, random: &mut Random) -> Vec<Task> {
    let mut drawn: Vec<(Task, u64)> = (0..tasks).map(|_| (with_devices.draw(random), random.next())).collect();
    let size = |task: &Task| (task.devices > 1, task.volume());
    drawn.sort_unstable_by(|(a, by), (b, than)| size(b).cmp(&size(a)).then(by.cmp(than)));
    let mut order: Vec<Task> = drawn.into_iter().map(|(task, _)| task).collect();
    let (hosts, per) = (host_only.total() * devices, with_devices.total());
    let one_more = u64::from(random.below(per) < hosts % per);
    for _ in 0..(hosts / per + one_more).min(HOST_TASKS_MAX) {
        let task = host_only.draw(random);
        let places = order.len() as u64 + 1;
        let at = random.below(places).min(random.below(places));
        order.insert(at as usize, task);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_have_the_mix_by_descending_size_and_grow() {
        let mut mix = Mix::default();
        let (small, whole) =
            (Task { devices: 1, share: 250, ..Task::default() }, Task { devices: 1, share: 1000, ..Task::default() });
        for task in [small, small, small, whole, Task { cores: 1000, ..Task::default() }] {
            mix.arrived(&task);
        }
        let pools = DrawnPools::new(&mix, 8).0;
        let with_devices = |pool: &[Task]| pool.iter().filter(|task| task.devices > 0).copied().collect::<Vec<_>>();
        let sizes: Vec<usize> = pools.iter().map(|pool| with_devices(pool).len()).collect();
        assert!(sizes.is_sorted());
        assert_eq!((sizes[0], sizes[POOLS - 1]), (21, 71));
        let all: Vec<Task> = pools.concat();
        let count = |of: &Task| all.iter().filter(|task| *task == of).count();
        assert!((5..8).contains(&(count(&small) * 2 / count(&whole))), "{} {}", count(&small), count(&whole));
        // Two host-only tasks accompany the eight devices of a node, as one accompanies four device tasks.
        assert_eq!(all.iter().filter(|task| task.devices == 0).count(), 2 * POOLS);
        for pool in &pools {
            assert!(with_devices(pool).is_sorted_by_key(|task| std::cmp::Reverse(task.volume())));
        }
    }

    #[test]
    fn equal_mixes_give_equal_pools() {
        let mut mix = Mix::default();
        for share in 1..20 {
            mix.arrived(&Task { devices: 1, share: 50 * share, ..Task::default() });
        }
        assert_eq!(DrawnPools::new(&mix, 4).0, DrawnPools::new(&mix.clone(), 4).0);
        assert_ne!(DrawnPools::new(&mix, 4).0, DrawnPools::new(&mix, 5).0);
    }
}
