//! Whether a job can ever start on the nodes that there are, and whether a forecast may still find a start: of a job that
//! no event starts, it need not run on for long.

use super::lack::{Lack, together};
use super::{ReservationState, Scheduler, Timer};
use crate::demand::{Layout, PartDemand};
use crate::ids::{ClassId, JobId};
use crate::phase::{Hold, Phase};
use crate::policy::JobNodes;
use crate::pool::{Device, HostResources, Node};
use crate::request::Locality;
use crate::shapes::{Shape, ShapeKey};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A label of nodes, with its value.
type Label = (String, String);

/// What jobs lack, by their shape and the labels that nodes must have.
type Lacks = BTreeMap<(usize, Vec<Label>), Option<String>>;

/// The nodes of waiting and running jobs. What jobs of one shape lack is determined once.
pub struct NodesOfJobs<'a> {
    scheduler: &'a Scheduler,
    lacks: RefCell<Lacks>,
}

impl JobNodes for NodesOfJobs<'_> {
    fn node_without(&self, job: JobId, labels: &[Label]) -> Option<String> {
        let held = self.scheduler.jobs.get(&job)?.grants.iter().filter(|grant| grant.hold == Hold::Held);
        let mut nodes = held.map(|grant| self.scheduler.pool.node(grant.spot.node));
        let lacks = |node: &&Node| labels.iter().any(|(name, value)| node.labels.get(name) != Some(value));
        nodes.find(lacks).map(|node| node.name.clone())
    }

    fn lack_with(&self, job: JobId, labels: &[Label]) -> Option<String> {
        let job = self.scheduler.jobs.get(&job).filter(|job| job.phase == Phase::Waiting)?;
        let lack = || {
            let key = ShapeKey { labels: labels.to_vec(), ..self.scheduler.shapes.get(job.shape).key.clone() };
            let shape = Shape::new(key, &self.scheduler.pool);
            self.scheduler.lack_of(&shape, job.origin).map(|lack| lack.to_string())
        };
        self.lacks.borrow_mut().entry((job.shape, labels.to_vec())).or_insert_with(lack).clone()
    }
}

impl Scheduler {
    /// Whether a waiting job may ever start on the nodes and devices that there are now, whatever other jobs hold of them. Drained
    /// devices and those in quarantine stay so in a forecast.
    pub(super) fn may_ever_start(&self, id: JobId) -> bool {
        let Some(job) = self.jobs.get(&id).filter(|job| job.phase == Phase::Waiting) else { return false };
        let is_gone = |name: &String| self.reservation_state(name) == ReservationState::Gone;
        !self.paused
            && !job.on_hold
            && !job.request.reservation.as_ref().is_some_and(is_gone)
            && self.may_ever_fit(self.shapes.get(job.shape), job.origin)
    }

    /// Whether all devices that work together, with all cores and memory of their nodes, suffice for a choice of a shape.
    pub(super) fn may_ever_fit(&self, shape: &Shape, origin: Option<u32>) -> bool {
        let nodes = self.nodes_for(shape, origin);
        shape.choices.iter().any(|choice| match shape.layout {
            Layout::Any(_) => choice.iter().all(|part| {
                let space: u64 = nodes.iter().map(|&node| self.whole_capacity(node, part)).sum();
                space >= u64::from(part.count.least)
            }),
            Layout::Nodes(count) => {
                let has_space = |node: &&u32| {
                    let mut parts = choice.iter();
                    parts.all(|part| self.whole_capacity(**node, part) >= u64::from(part.count.least.div_ceil(count)))
                };
                nodes.iter().filter(has_space).count() >= count as usize
            }
            Layout::Chunks(chunks) => {
                let chunks_of =
                    |part: &PartDemand, node| self.whole_capacity(node, part) / u64::from(part.count.least.max(1));
                let space = |&node: &u32| choice.iter().map(|part| chunks_of(part, node)).min().unwrap_or(0);
                nodes.iter().map(space).sum::<u64>() >= u64::from(chunks)
            }
        })
    }

    /// Returns the nodes that a shape's jobs may use.
    fn nodes_for(&self, shape: &Shape, origin: Option<u32>) -> Vec<u32> {
        let nodes = (0..).zip(&self.pool.nodes).filter(|(at, node)| {
            let is_own = shape.layout != Layout::Any(Locality::Local) || origin == Some(*at);
            node.up && is_own && shape.nodes.as_ref().is_none_or(|nodes| nodes.contains(*at))
        });
        nodes.map(|(at, _)| at).collect()
    }

    /// Returns what keeps a waiting job from ever starting on the nodes that there are; `None` if they suffice.
    #[must_use]
    pub fn lack(&self, id: JobId) -> Option<Lack> {
        let job = self.jobs.get(&id).filter(|job| job.phase == Phase::Waiting)?;
        self.lack_of(self.shapes.get(job.shape), job.origin)
    }

    fn lack_of(&self, shape: &Shape, origin: Option<u32>) -> Option<Lack> {
        let choice = shape.choices.first().filter(|_| !self.may_ever_fit(shape, origin))?;
        let nodes = self.nodes_for(shape, origin);
        let of_part = |part: &PartDemand| {
            let model = || self.pool.classes[part.class.index()].model.clone();
            let (mut there, mut most) = (0, HostResources::default());
            for &node in &nodes {
                let working = self.working(node, part.class);
                there += working;
                if working > 0 {
                    most = most.most(self.pool.node(node).host_resources());
                }
            }
            let chunks = if let Layout::Chunks(chunks) = shape.layout { u64::from(chunks) } else { 1 };
            let devices = u64::from(part.count.least) * chunks;
            let needed = HostResources::default().plus(part.host_resources(), together(shape.layout, part));
            if there < devices {
                Some(Lack::Devices { model: model(), needed: devices, there })
            } else if most.memory < needed.memory {
                Some(Lack::HostMemory { model: model(), needed: needed.memory, most: most.memory })
            } else {
                (most.cores < needed.cores).then(|| Lack::Cores {
                    model: model(),
                    needed: needed.cores,
                    most: most.cores,
                })
            }
        };
        Some(choice.iter().find_map(of_part).unwrap_or(Lack::Together))
    }

    /// Returns the nodes of jobs, to compare policies.
    #[must_use]
    pub fn nodes_of_jobs(&self) -> NodesOfJobs<'_> {
        NodesOfJobs { scheduler: self, lacks: RefCell::default() }
    }

    /// Returns how many devices of a class on a node work and are not drained.
    fn working(&self, node: u32, class: ClassId) -> u64 {
        self.pool.step();
        let node = self.pool.node(node);
        let is_drained = |device: &Device| device.drained.into_iter().chain(node.drained).any(|from| from <= self.now);
        let works = |device: &&Device| !device.faulty && !device.absent && !is_drained(device);
        node.devices.iter().filter(|device| device.class == class).filter(works).count() as u64
    }

    /// Returns how many devices a part may have of a node that no job uses.
    fn whole_capacity(&self, node: u32, part: &PartDemand) -> u64 {
        let devices = self.working(node, part.class);
        let node = self.pool.node(node);
        let by_cores = node.host.cores.checked_div(part.cores).unwrap_or(u64::MAX);
        let by_memory = node.host.memory.checked_div(part.host_memory).unwrap_or(u64::MAX);
        devices.min(by_cores).min(by_memory)
    }

    /// Whether a forecast finds no further start: all that happens from now on is that jobs without a limit are renewed and that usage is
    /// brought up to date.
    pub(super) fn is_at_rest(&self) -> bool {
        self.timers.iter().all(|&(_, timer)| {
            self.pool.step();
            match timer {
                // In forecasts no job gives way.
                Timer::Settle(_) | Timer::Preempt => true,
                Timer::Lease(job) | Timer::Warn(job) => self.is_renewed(job),
                Timer::Window(_)
                | Timer::Drain(_)
                | Timer::Wait(_)
                | Timer::Keep(_)
                | Timer::Promise(_)
                | Timer::Suspension(_) => false,
            }
        })
    }

    /// Whether a running job has no limit, and its lease is renewed at its end.
    fn is_renewed(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|job| {
            let renewed = job.ends.plus(self.policy.quantum());
            job.limit_ms.is_none() && job.ending.is_none() && !self.is_wanted(id, renewed)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::class::{ClassFilter, DeviceClass};
    use crate::node::{DeviceDescription, NodeDescription};
    use crate::request::{Part, Request};
    use crate::{Forecast, Input, JobId, Millis, Policy, Scheduler};
    use accord_types::{DeviceType, NodeId};
    use std::collections::BTreeMap;

    const NODES: u32 = 50;

    fn node(id: u32) -> NodeDescription {
        let class = DeviceClass {
            kind: DeviceType::Nvidia,
            model: "d".to_owned(),
            memory: 1 << 30,
            context: 0,
            compute: (9, 0),
        };
        NodeDescription {
            id: NodeId(id),
            name: format!("h{id}"),
            incarnation: 1,
            devices: (0..2).map(|ordinal| DeviceDescription { ordinal, class: class.clone() }).collect(),
            cores: 8_000,
            host_memory: 1 << 30,
            labels: BTreeMap::new(),
        }
    }

    fn ask(request: Request) -> Input {
        Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin: None, request }
    }

    fn devices(count: u32) -> Request {
        Request::of(Part::whole(count, ClassFilter::ALL))
    }

    /// A cluster, each of whose devices is in use by one of the `running` jobs in turn.
    fn full(running: &[Request]) -> Scheduler {
        let mut scheduler = Scheduler::new(Policy::default());
        for id in 0..NODES {
            scheduler.apply(Millis(0), Input::NodeJoined(node(id)), &mut Vec::new());
        }
        for at in 0..2 * u64::from(NODES) {
            let request = running[at as usize % running.len()].clone();
            scheduler.apply(Millis(at), ask(request), &mut Vec::new());
        }
        scheduler
    }

    /// Returns the forecast of a request, and its steps.
    fn forecast(scheduler: &Scheduler, request: Request) -> (Option<Forecast>, u64) {
        let mut copy = scheduler.clone();
        copy.apply(copy.now(), ask(request), &mut Vec::new());
        let before = copy.steps();
        let forecast = copy.forecast_here(JobId(copy.last_job));
        (forecast, copy.steps() - before)
    }

    #[test]
    fn a_forecast_of_what_no_cluster_of_these_nodes_has_does_not_run_on() {
        let limited = |minutes: u64| Request { limit_ms: Some(minutes * 60_000), ..devices(1) };
        let cluster = full(&[limited(60), limited(70), limited(80)]);
        let cores = |cores: u64| Request::of(Part { cores, ..Part::whole(1, ClassFilter::ALL) });
        let of_ranks = |count: u32| Request { ranks: 2, per_rank: true, ..devices(count) };
        let never = [
            devices(2 * NODES + 1),
            cores(8_001),
            Request { nodes: Some(2), ..devices(6) },
            of_ranks(3),
            Request { only_nodes: vec!["h1".to_owned()], ..devices(3) },
        ];
        for request in never {
            let (found, steps) = forecast(&cluster, request.clone());
            assert!(matches!(found, Some(Forecast::Unknown { .. })), "{request:?}: {found:?}");
            assert!(steps <= 8 * u64::from(NODES), "{request:?}: {steps} steps");
        }
        for request in [devices(2 * NODES), cores(8_000), Request { nodes: Some(2), ..devices(4) }, of_ranks(2)] {
            let (found, _) = forecast(&cluster, request.clone());
            assert!(matches!(found, Some(Forecast::At { .. })), "{request:?}: {found:?}");
        }
    }

    #[test]
    fn a_forecast_ends_once_all_that_happens_is_that_jobs_are_renewed() {
        let cluster = full(&[devices(1)]);
        let (found, steps) = forecast(&cluster, devices(1));
        assert!(matches!(found, Some(Forecast::Unknown { .. })), "{found:?}");
        assert!(steps <= 100 * u64::from(NODES), "{steps} steps");
        // One with a limit is among them.
        let mut running = vec![devices(1); 2 * NODES as usize];
        running[7].limit_ms = Some(3_600_000);
        let (found, _) = forecast(&full(&running), devices(1));
        assert!(matches!(found, Some(Forecast::At { .. })), "{found:?}");
    }
}
