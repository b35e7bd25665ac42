//! What users see: a job's state, why it waits, and since when.

use super::Scheduler;
use super::pass::Stop;
use crate::charge::Usage;
use crate::effect::LeasedDevice;
use crate::ids::{ClassId, JobId};
use crate::job::Job;
use crate::phase::Phase;
use crate::request::Locality;
use crate::search::{Layout, PartDemand};
use crate::time::Millis;
use std::cmp::Ordering;

/// The reason for a job's wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WaitReason {
    /// It is on hold.
    OnHold,
    /// All starts are paused.
    Paused,
    /// No class of devices that the cluster knows suits.
    NoSuchDevices,
    /// So many jobs of this account run.
    Running {
        /// The account.
        account: String,
    },
    /// This account would have more devices than its most.
    Most {
        /// The account.
        account: String,
    },
    /// The free devices are guaranteed to other accounts, and its limit is longer than a quantum.
    Guarantee,
    /// Too few devices that suit are free and not set aside during its limit, or not where it needs them.
    Devices {
        /// The model of its first choice.
        model: String,
        /// How many it needs of it.
        needed: u64,
        /// How many of it are free for as long as its limit.
        free: u64,
    },
    /// Devices are free, and no node that has some has enough memory left. A CPU device's memory is its node's.
    HostMemory {
        /// The model of its first choice.
        model: String,
        /// Bytes of one node's memory that it takes at least.
        needed: u64,
        /// The most bytes that such a node has left.
        free: u64,
    },
    /// Devices are free, and no node that has some has enough cores left.
    Cores {
        /// The model of its first choice.
        model: String,
        /// Thousandths of one node's cores that it takes at least.
        needed: u64,
        /// The most that such a node has left.
        free: u64,
    },
}

/// A job as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobView {
    /// Its number.
    pub job: JobId,
    /// Its user.
    pub user: String,
    /// Its account.
    pub account: String,
    /// Its stage.
    pub phase: Phase,
    /// Time of its request.
    pub submitted: Millis,
    /// Time of its start.
    pub started: Option<Millis>,
    /// Time of its lease's end.
    pub ends: Option<Millis>,
    /// Its devices.
    pub devices: Vec<LeasedDevice>,
}

/// A job, and why it waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The job.
    pub view: JobView,
    /// The reason for its wait; `None` if it does not wait.
    pub reason: Option<WaitReason>,
    /// Number of jobs before it in order.
    pub position: usize,
    /// Its reserved start.
    pub starts: Option<Millis>,
}

impl Scheduler {
    /// Returns a job as it is now.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<JobView> {
        self.jobs.get(&id).map(|job| self.view(job))
    }

    /// Returns all jobs after `after`, in the order of their numbers.
    pub fn jobs(&self, after: Option<JobId>) -> impl Iterator<Item = JobView> + '_ {
        let from = JobId(after.map_or(0, |after| after.0 + 1));
        self.jobs.range(from..).map(|(_, job)| self.view(job))
    }

    fn view(&self, job: &Job) -> JobView {
        let known = |time: Millis| (time != Millis::NEVER).then_some(time);
        JobView {
            job: job.id,
            user: job.user.clone(),
            account: self.account_name(job.account),
            phase: job.phase,
            submitted: job.submitted,
            started: known(job.started),
            ends: known(job.ends),
            devices: job
                .grants
                .iter()
                .map(|grant| LeasedDevice { device: grant.device, amount: grant.amount, exclusive: grant.exclusive })
                .collect(),
        }
    }

    fn account_name(&self, account: u32) -> String {
        self.policy.accounts.get(account as usize).map_or_else(String::new, |account| account.name.clone())
    }

    /// Returns what an account and those below it used until now.
    #[must_use]
    pub fn usage(&self, account: &str) -> Option<Usage> {
        let at = self.accounts.named(account)?;
        Some(self.accounts.usage(self.now, at))
    }

    /// Returns why a job waits, its position and its reserved start.
    #[must_use]
    pub fn explain(&self, id: JobId) -> Option<Explanation> {
        let job = self.jobs.get(&id)?;
        let waits = job.phase == Phase::Waiting;
        let before =
            |other: &&Job| other.phase == Phase::Waiting && !other.on_hold && self.order(other, job) == Ordering::Less;
        Some(Explanation {
            view: self.view(job),
            reason: waits.then(|| self.wait_reason(job)),
            position: if waits && !job.on_hold { self.jobs.values().filter(before).count() } else { 0 },
            starts: job.promise.as_ref().map(|promise| promise.starts),
        })
    }

    fn wait_reason(&self, job: &Job) -> WaitReason {
        if job.on_hold {
            return WaitReason::OnHold;
        }
        if self.paused {
            return WaitReason::Paused;
        }
        let shape = self.shapes.get(job.shape);
        if shape.choices.is_empty() || shape.nodes.as_ref().is_some_and(|nodes| nodes.next(0).is_none()) {
            return WaitReason::NoSuchDevices;
        }
        match self.fit(job) {
            Err(Some(Stop::Running(account))) => WaitReason::Running { account: self.account_name(account) },
            Err(Some(Stop::Most(account))) => WaitReason::Most { account: self.account_name(account) },
            Err(Some(Stop::Guarantee)) => WaitReason::Guarantee,
            Err(None) | Ok(_) => self.missing_devices(job),
        }
    }

    fn missing_devices(&self, job: &Job) -> WaitReason {
        let shape = self.shapes.get(job.shape);
        let chunks = if let Layout::Chunks(chunks) = shape.layout { u64::from(chunks) } else { 1 };
        let until = self.search(shape, job.origin).until;
        let missing = |part: &PartDemand| {
            let (needed, free) = (u64::from(part.count.least) * chunks, self.free_for(job, part.class, until));
            let model = self.pool.classes[part.class.index()].model.clone();
            WaitReason::Devices { model, needed, free }
        };
        let short = |part: &&PartDemand| u64::from(part.count.least) * chunks > self.free_for(job, part.class, until);
        let parts = shape.choices.first().map_or(&[][..], |choice| choice);
        if let Some(part) = parts.iter().find(short) {
            return missing(part);
        }
        let beside = parts.iter().find_map(|part| self.missing_beside(job, part));
        beside.or_else(|| parts.first().map(missing)).unwrap_or(WaitReason::NoSuchDevices)
    }

    /// Returns how many devices of a class are free for a job until a time, with those that are kept for itself.
    fn free_for(&self, job: &Job, class: ClassId, until: Millis) -> u64 {
        let kept = job.promise.iter().flat_map(|promise| &promise.spots).filter(|&&spot| {
            self.pool.device(spot).class == class
                && self.pool.room(spot, until, true).is_none()
                && self.pool.is_free_for(spot, job.id, self.now, until)
        });
        self.pool.free_until(class, until) + kept.count() as u64
    }

    /// Returns whether memory or cores of nodes are what a part lacks: no node with a free device has enough for those that one node must have.
    fn missing_beside(&self, job: &Job, part: &PartDemand) -> Option<WaitReason> {
        if part.cores == 0 && part.host_memory == 0 {
            return None;
        }
        let shape = self.shapes.get(job.shape);
        let is_local = shape.layout == Layout::Any(Locality::Local);
        let together = u64::from(match shape.layout {
            Layout::Nodes(nodes) => part.count.least / nodes.max(1),
            Layout::Chunks(_) | Layout::Any(Locality::Local) => part.count.least,
            Layout::Any(_) => 1,
        });
        let needed = (part.host_memory.saturating_mul(together), part.cores.saturating_mul(together));
        let may_be_used = |at: u32| {
            self.pool.step();
            shape.nodes.as_ref().is_none_or(|nodes| nodes.contains(at))
                && (!is_local || job.origin == Some(at))
                && self.pool.free_on(at, part.class) > 0
        };
        let nodes = (0..).zip(&self.pool.nodes).filter(|&(at, node)| node.up && may_be_used(at));
        let most = nodes.map(|(_, node)| (node.host_memory_free(), node.cores_free()));
        let (memory, cores) = most.reduce(|most, of| (most.0.max(of.0), most.1.max(of.1)))?;
        let model = self.pool.classes[part.class.index()].model.clone();
        if memory < needed.0 {
            return Some(WaitReason::HostMemory { model, needed: needed.0, free: memory });
        }
        (cores < needed.1).then_some(WaitReason::Cores { model, needed: needed.1, free: cores })
    }
}
