//! What users see: a job's state, why it waits, and since when.

use super::Scheduler;
use super::pass::Stop;
use crate::charge::Usage;
use crate::effect::LeasedDevice;
use crate::ids::JobId;
use crate::job::Job;
use crate::phase::Phase;
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
            let (needed, free) = (u64::from(part.count.least) * chunks, self.pool.free_until(part.class, until));
            let model = self.pool.classes[part.class.index()].model.clone();
            WaitReason::Devices { model, needed, free }
        };
        let short = |part: &&PartDemand| u64::from(part.count.least) * chunks > self.pool.free_until(part.class, until);
        let parts = shape.choices.first().map_or(&[][..], |choice| choice);
        parts.iter().find(short).or(parts.first()).map_or(WaitReason::NoSuchDevices, missing)
    }
}
