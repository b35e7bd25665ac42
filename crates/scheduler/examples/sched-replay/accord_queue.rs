//! Replays a trace with Accord's own scheduler, its order and its backfill, with run times as limits.

use crate::times::{Job, Tally, Timed};
use crate::trace::Cluster;
use accord_scheduler::amount::Amount;
use accord_scheduler::class::{ClassFilter, DeviceClass};
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::placement::{NodeState, Task, WHOLE};
use accord_scheduler::request::{Alternative, Count, Part, Take};
use accord_scheduler::{Effect, Input, JobId, Millis, Policy, Request, Scheduler};
use accord_types::{DeviceType, NodeId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Memory of each device, and of each MiB of a host, in bytes. Traces do not include the device memory of tasks.
const DEVICE_MEMORY: u64 = 1 << 34;
const MIB: u64 = 1 << 20;

/// The scheduler and its inputs.
struct Driver<'a> {
    scheduler: Scheduler,
    effects: Vec<Effect>,
    jobs: &'a [Job],
    /// The index of the trace's job for each queued job.
    asked: HashMap<JobId, usize>,
    /// Ends of running jobs.
    ends: BinaryHeap<Reverse<(u64, JobId)>>,
    tally: Tally<'a>,
}

pub(crate) fn run(
    cluster: &Cluster,
    jobs: &[Job],
    policy: Policy,
    account: &dyn Fn(usize) -> (String, String),
) -> Timed {
    let mut driver = Driver {
        scheduler: Scheduler::new(policy),
        effects: Vec::new(),
        jobs,
        asked: HashMap::new(),
        ends: BinaryHeap::new(),
        tally: Tally::new(jobs),
    };
    for (node, state) in cluster.nodes.iter().enumerate() {
        driver.apply(0, Input::NodeJoined(description(node as u32, state)), None);
    }
    let mut next = 0;
    loop {
        let end = driver.ends.peek().map(|Reverse((at, job))| (*at, *job));
        let arrival = jobs.get(next).map(|job| (job.arrives * 1000.0) as u64);
        let Some(at) = end.map(|(at, _)| at).into_iter().chain(arrival).min() else { break };
        if let Some(deadline) = driver.scheduler.next_deadline().filter(|deadline| deadline.0 < at) {
            driver.apply(deadline.0, Input::Tick, None);
        } else if let Some((_, job)) = end.filter(|(end, _)| *end == at) {
            driver.ends.pop();
            driver.apply(at, Input::Ended { job }, None);
        } else {
            let (user, account) = account(next);
            let request = request(&jobs[next].task, jobs[next].runs);
            driver.apply(at, Input::Ask { user, account, origin: None, request }, Some(next));
            next += 1;
        }
    }
    driver.tally.done(cluster.capacity())
}

impl Driver<'_> {
    /// Passes an input to the scheduler and carries its effects out. Nodes confirm releases at once.
    fn apply(&mut self, at: u64, input: Input, asks: Option<usize>) {
        let (mut inputs, mut asks) = (vec![input], asks);
        while let Some(input) = inputs.pop() {
            self.scheduler.apply(Millis(at), input, &mut self.effects);
            for effect in self.effects.drain(..) {
                match effect {
                    Effect::Queued { job } => {
                        if let Some(asks) = asks.take() {
                            self.asked.insert(job, asks);
                        }
                    }
                    Effect::Started { job, .. } => {
                        let Some(index) = self.asked.get(&job) else { continue };
                        self.ends.push(Reverse((at + (self.jobs[*index].runs * 1000.0) as u64, job)));
                        self.tally.started(*index, at as f64 / 1000.0);
                    }
                    Effect::Release { job, node } => inputs.push(Input::Released { job, node }),
                    _ => {}
                }
            }
        }
    }
}

fn description(node: u32, state: &NodeState) -> NodeDescription {
    let class = DeviceClass {
        kind: DeviceType::Nvidia,
        model: format!("model-{}", state.model()),
        memory: DEVICE_MEMORY,
        context: 0,
        compute: (0, 0),
    };
    let device = |ordinal| DeviceDescription { ordinal, class: class.clone() };
    NodeDescription {
        id: NodeId(node),
        name: format!("node-{node}"),
        incarnation: 1,
        devices: (0..state.count() as u32).map(device).collect(),
        cores: state.cores().into(),
        host_memory: u64::from(state.memory()) * MIB,
        labels: Default::default(),
    }
}

/// Returns the request of a task, with its devices on one node.
fn request(task: &Task, runs: f64) -> Request {
    let devices = u64::from(task.devices.max(1));
    let part = |model: Option<String>| Part {
        count: Count::exactly(task.devices.max(1).into()),
        class: ClassFilter { model, ..ClassFilter::ALL },
        take: if task.share >= WHOLE {
            Take::Exclusive
        } else {
            let milli = u32::from(task.share);
            Take::Shared(Amount { milli, memory: DEVICE_MEMORY * u64::from(milli) / u64::from(WHOLE) })
        },
        cores: u64::from(task.cores) / devices,
        host_memory: u64::from(task.memory) * MIB / devices,
    };
    let models: Vec<Option<String>> = if task.models.is_any() {
        vec![None]
    } else {
        (0..64).filter(|model| task.models.allow(*model)).map(|model| Some(format!("model-{model}"))).collect()
    };
    let alternatives = models.into_iter().map(|model| Alternative { parts: vec![part(model)] }).collect();
    Request { alternatives, nodes: Some(1), limit_ms: Some((runs * 1000.0) as u64 + 1), ..Request::of(part(None)) }
}
