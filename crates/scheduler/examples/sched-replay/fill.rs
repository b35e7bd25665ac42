//! Replays arrivals in random order: each task is placed at once or fails, and none leaves.

use crate::policy::Policy;
use crate::trace::{Cluster, Pod};
use accord_scheduler::placement::{Random, Task};

/// Returns the list's tasks, with further tasks drawn from it until the demand is 1.3 times the cluster's devices, in
/// random order.
pub(crate) fn draw(pods: &[Pod], capacity: u64, seed: u64) -> Vec<Task> {
    let mut random = Random::new(seed + 1000);
    let mut tasks: Vec<Task> = pods.iter().map(|pod| pod.task).collect();
    let target = capacity * 13 / 10;
    let mut demand: u64 = tasks.iter().map(|task| u64::from(task.volume())).sum();
    while demand > target {
        let task = tasks.swap_remove(random.below(tasks.len() as u64) as usize);
        demand -= u64::from(task.volume());
    }
    loop {
        let task = pods[random.below(pods.len() as u64) as usize].task;
        if demand + u64::from(task.volume()) > target {
            break;
        }
        demand += u64::from(task.volume());
        tasks.push(task);
    }
    for at in (1..tasks.len()).rev() {
        tasks.swap(at, random.below(at as u64 + 1) as usize);
    }
    tasks
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filled {
    /// Allocated percentage of all device milli when tasks with 100 % and 130 % of the demand have arrived.
    pub(crate) allocated: [f64; 2],
    /// Processor time of each decision and its update in microseconds, and whether it was warm.
    pub(crate) decisions: Vec<(f64, bool)>,
}

/// Places the tasks in order.
pub(crate) fn run(policy: &mut dyn Policy, cluster: &Cluster, tasks: &[Task]) -> Filled {
    let mut states = cluster.nodes.clone();
    for (node, state) in states.iter().enumerate() {
        policy.set(node as u32, *state);
    }
    let (capacity, mut arrived, mut allocated, mut filled) = (cluster.capacity(), 0, 0, Filled::default());
    let percent = |milli: u64| milli as f64 * 100.0 / capacity as f64;
    for task in tasks {
        let start = processor_time();
        policy.arrived(task);
        let warm = policy.is_warm(task);
        let placed = policy.place(task, &mut |_| true);
        if let Some((node, from)) = placed {
            let state = &mut states[node as usize];
            *state = state.with(task, from);
            policy.set(node, *state);
            allocated += u64::from(task.volume());
        }
        filled.decisions.push((processor_time() - start, warm));
        let before = arrived;
        arrived += u64::from(task.volume());
        if before < capacity && arrived >= capacity {
            filled.allocated[0] = percent(allocated);
        }
    }
    filled.allocated[1] = percent(allocated);
    filled
}

/// Returns the processor time of this thread in microseconds, which other processes do not affect.
fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
