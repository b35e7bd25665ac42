//! Replays a trace with its times: tasks arrive, wait in a queue, and leave after their run time.

use crate::Placement;
use crate::policy::Policy;
use crate::trace::{Cluster, Pod};
use accord_scheduler::placement::{NodeState, Task, WHOLE};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};

/// The order in which waiting tasks start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Discipline {
    /// First come, first served: the first waiting task blocks all others.
    FirstCome,
    /// Strict backfill: other tasks start if that does not delay the first one. Run times are known.
    Backfill,
}

impl Discipline {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::FirstCome => "first come, first served",
            Self::Backfill => "strict backfill",
        }
    }
}

/// The combinations that are compared.
pub(crate) const COMPARED: [(Discipline, Placement); 5] = [
    (Discipline::FirstCome, Placement::BestFit),
    (Discipline::FirstCome, Placement::Accord),
    (Discipline::Backfill, Placement::BestFit),
    (Discipline::Backfill, Placement::Fgd),
    (Discipline::Backfill, Placement::Accord),
];

/// A class of tasks with at least this many device milli.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    from: u32,
}

pub(crate) const CLASSES: [Class; 4] = [
    Class { name: "part of a device", from: 0 },
    Class { name: "one device", from: 1000 },
    Class { name: "2 to 7 devices", from: 2000 },
    Class { name: "8 devices", from: 8000 },
];

/// A task with its arrival and run time, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) task: Task,
    /// Seconds after the first arrival.
    pub(crate) arrives: f64,
    pub(crate) runs: f64,
    /// The index in the list.
    pub(crate) pod: usize,
}

/// Returns the device tasks of a list that ran, by arrival. Tasks without devices are left out, because Accord's
/// requests are for devices. Tasks that fit no node are left out as well.
pub(crate) fn jobs(cluster: &Cluster, pods: &[Pod]) -> Result<Vec<Job>, String> {
    let fits = |task: &Task| task.devices > 0 && cluster.nodes.iter().any(|node| node.fits(task));
    let with_devices = pods.iter().enumerate().filter(|(_, pod)| fits(&pod.task));
    let ran =
        |(at, pod): (usize, &Pod)| Some(Job { task: pod.task, arrives: pod.created?, runs: pod.duration?, pod: at });
    let mut jobs: Vec<Job> = with_devices.filter_map(ran).collect();
    jobs.sort_by(|a, b| a.arrives.total_cmp(&b.arrives));
    let first = jobs.first().ok_or("no task with devices has times")?.arrives;
    jobs.iter_mut().for_each(|job| job.arrives -= first);
    Ok(jobs)
}

/// The figures of a replay.
#[derive(Debug)]
pub(crate) struct Timed {
    /// Waits in seconds, by class.
    pub(crate) waits: [Vec<f64>; CLASSES.len()],
    pub(crate) jobs: usize,
    pub(crate) started: usize,
    /// Used percentage of all device time until the last arrival.
    pub(crate) used: f64,
}

impl Timed {
    /// Combines the figures of several replays: all waits, and the mean use.
    pub(crate) fn of_all(runs: Vec<Self>) -> Self {
        let count = runs.len() as f64;
        let mut all = Self { waits: Default::default(), jobs: 0, started: 0, used: 0.0 };
        for run in runs {
            all.jobs += run.jobs;
            all.started += run.started;
            all.used += run.used / count;
            all.waits.iter_mut().zip(run.waits).for_each(|(waits, more)| waits.extend(more));
        }
        all
    }
}

/// Accumulates the figures of a replay.
pub(crate) struct Tally<'a> {
    jobs: &'a [Job],
    waits: [Vec<f64>; CLASSES.len()],
    /// Used device time until the last arrival, in milli seconds of devices.
    used: f64,
    last: f64,
}

impl<'a> Tally<'a> {
    pub(crate) fn new(jobs: &'a [Job]) -> Self {
        Self { jobs, waits: Default::default(), used: 0.0, last: jobs.last().map_or(0.0, |job| job.arrives) }
    }

    pub(crate) fn started(&mut self, job: usize, at: f64) {
        let Job { task, arrives, runs, .. } = self.jobs[job];
        let class = CLASSES.iter().rposition(|class| task.volume() >= class.from).unwrap_or_default();
        self.waits[class].push((at - arrives).max(0.0));
        self.used += f64::from(task.volume()) * ((at + runs).min(self.last) - at.min(self.last));
    }

    pub(crate) fn done(self, capacity: u64) -> Timed {
        Timed {
            jobs: self.jobs.len(),
            started: self.waits.iter().map(Vec::len).sum(),
            waits: self.waits,
            used: self.used * 100.0 / (capacity as f64 * self.last.max(1.0)),
        }
    }
}

/// A node with its devices and running tasks.
struct Host {
    cores: u32,
    memory: u32,
    model: u8,
    free: Vec<u16>,
    running: Vec<Running>,
}

#[derive(Clone)]
struct Running {
    ends: f64,
    job: usize,
    task: Task,
    devices: Vec<usize>,
}

impl Host {
    fn state(&self) -> NodeState {
        NodeState::new(self.cores, self.memory, self.model, &self.free)
    }

    fn start(&mut self, running: Running) {
        self.cores -= running.task.cores;
        self.memory -= running.task.memory;
        running.devices.iter().for_each(|device| self.free[*device] -= running.task.share);
        self.running.push(running);
    }

    fn end(&mut self, job: usize) {
        let Some(at) = self.running.iter().position(|running| running.job == job) else { return };
        let running = self.running.swap_remove(at);
        self.cores += running.task.cores;
        self.memory += running.task.memory;
        running.devices.iter().for_each(|device| self.free[*device] += running.task.share);
    }

    /// Returns when `task` fits if nothing else starts.
    fn fits_at(&self, task: &Task, now: f64) -> Option<f64> {
        if self.state().fits(task) {
            return Some(now);
        }
        let mut ends: Vec<&Running> = self.running.iter().collect();
        ends.sort_by(|a, b| a.ends.total_cmp(&b.ends));
        let (mut cores, mut memory, mut free) = (self.cores, self.memory, self.free.clone());
        for running in ends {
            cores += running.task.cores;
            memory += running.task.memory;
            running.devices.iter().for_each(|device| free[*device] += running.task.share);
            if NodeState::new(cores, memory, self.model, &free).fits(task) {
                return Some(running.ends);
            }
        }
        None
    }
}

/// The simulated cluster.
struct Simulation<'a> {
    policy: Box<dyn Policy>,
    hosts: Vec<Host>,
    jobs: &'a [Job],
    now: f64,
    waiting: VecDeque<usize>,
    /// Ends of running jobs, in milliseconds, with job and node.
    ends: BinaryHeap<Reverse<(u64, usize, u32)>>,
    tally: Tally<'a>,
    /// Tasks that fit nowhere since the last end on a node with room for them, and whether they would end before the
    /// reserved start.
    failed: HashSet<(Task, bool)>,
    /// The reserved start of the first waiting job, with its node.
    reserved: Option<(f64, u32)>,
}

pub(crate) fn run(queue: Discipline, placement: Placement, cluster: &Cluster, jobs: &[Job]) -> Timed {
    let host = |state: &NodeState| Host {
        cores: state.cores(),
        memory: state.memory(),
        model: state.model(),
        free: vec![WHOLE; state.count()],
        running: Vec::new(),
    };
    let mut simulation = Simulation {
        policy: placement.policy(jobs.iter().map(|job| job.task), 0),
        hosts: cluster.nodes.iter().map(host).collect(),
        jobs,
        now: 0.0,
        waiting: VecDeque::new(),
        ends: BinaryHeap::new(),
        tally: Tally::new(jobs),
        failed: HashSet::new(),
        reserved: None,
    };
    for node in 0..simulation.hosts.len() {
        simulation.show(node as u32);
    }
    let mut next = 0;
    loop {
        let end = simulation.ends.peek().map(|Reverse((end, ..))| *end as f64 / 1000.0);
        let arrival = jobs.get(next).map(|job| job.arrives);
        let Some(time) = end.into_iter().chain(arrival).min_by(f64::total_cmp) else { break };
        simulation.now = time;
        if arrival.is_some_and(|arrival| arrival <= time) {
            simulation.policy.arrived(&jobs[next].task);
            simulation.waiting.push_back(next);
            next += 1;
        } else {
            simulation.end();
        }
        simulation.start_waiting(queue);
    }
    simulation.tally.done(cluster.capacity())
}

impl Simulation<'_> {
    fn show(&mut self, node: u32) {
        self.policy.set(node, self.hosts[node as usize].state());
    }

    fn end(&mut self) {
        let Some(Reverse((_, job, node))) = self.ends.pop() else { return };
        self.hosts[node as usize].end(job);
        self.show(node);
        let state = self.hosts[node as usize].state();
        self.failed.retain(|(task, _)| !state.fits(task));
    }

    fn start_waiting(&mut self, queue: Discipline) {
        while let Some(first) = self.waiting.front().copied() {
            if !self.try_start(first, None) {
                break;
            }
            self.waiting.pop_front();
        }
        let Some(first) = self.waiting.front().copied() else { return };
        if queue == Discipline::FirstCome {
            return;
        }
        let task = &self.jobs[first].task;
        let starts = self.hosts.iter().zip(0..).filter_map(|(host, node)| Some((host.fits_at(task, self.now)?, node)));
        let reserved = starts.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        if self.reserved.map(|(_, node)| node) != reserved.map(|(_, node)| node) {
            self.failed.clear();
        }
        self.reserved = reserved;
        let waiting = std::mem::take(&mut self.waiting);
        for (at, job) in waiting.into_iter().enumerate() {
            if at == 0 || !self.try_start(job, reserved) {
                self.waiting.push_back(job);
            }
        }
    }

    /// Starts a job if it fits somewhere. It may use the node of the reserved start only if it ends before that.
    fn try_start(&mut self, job: usize, reserved: Option<(f64, u32)>) -> bool {
        let Job { task, runs, .. } = self.jobs[job];
        let in_time = reserved.is_none_or(|(start, _)| self.now + runs <= start);
        if self.failed.contains(&(task, in_time)) {
            return false;
        }
        let mut allowed = |node| in_time || reserved.is_none_or(|(_, of)| of != node);
        let Some((node, from)) = self.policy.place(&task, &mut allowed) else {
            self.failed.insert((task, in_time));
            return false;
        };
        let host = &mut self.hosts[node as usize];
        let mut devices: Vec<(u16, usize)> =
            host.free.iter().copied().zip(0..).filter(|(free, _)| *free >= from).collect();
        devices.sort_unstable();
        let devices = devices.into_iter().take(task.devices.into()).map(|(_, device)| device).collect();
        host.start(Running { ends: self.now + runs, job, task, devices });
        self.show(node);
        self.ends.push(Reverse((((self.now + runs) * 1000.0) as u64, job, node)));
        self.tally.started(job, self.now);
        true
    }
}
