//! Views of jobs for users: state, and the reason for waiting.

use super::Scheduler;
use super::lack::{Lack, together};
use super::pass::Stop;
use crate::charge::Usage;
use crate::effect::{LeasedDevice, Refusal};
use crate::ids::{ClassId, JobId};
use crate::input::Reservation;
use crate::job::Job;
use crate::phase::Phase;
use crate::policy::SitePolicy;
use crate::pool::HostResources;
use crate::request::Locality;
use crate::search::{Layout, PartDemand};
use crate::time::Millis;

/// Most devices of a class that are visited to find the reservation that has them.
const SET_ASIDE_MAX: usize = 64;

/// Nodes that are looked at for those with free devices that have most memory and cores left.
const BESIDE_MAX: usize = 64;

/// The reason for a job's wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WaitReason {
    /// The job is on hold.
    OnHold,
    /// All starts are paused.
    Paused,
    /// No known class of devices fits.
    NoSuchDevices,
    /// The nodes that there are can never hold the job, whatever other jobs hold of them.
    Never(Lack),
    /// The account has its most running jobs.
    Running {
        /// The account.
        account: String,
    },
    /// The account has spent its device-hours of the month.
    Spent {
        /// The account.
        account: String,
    },
    /// The account would exceed its maximum of devices.
    Most {
        /// The account.
        account: String,
    },
    /// Devices that it needs are guaranteed to other accounts, and the job's limit is longer than a quantum.
    Guarantee,
    /// The first job needs the free devices beside all guarantees before this job's limit ends, which is longer than a
    /// quantum.
    First {
        /// The first job.
        by: JobId,
    },
    /// The job requests a reservation that has not begun, is full, or does not exist.
    Reservation {
        /// The reservation.
        name: String,
        /// Its state.
        state: ReservationState,
    },
    /// Enough devices are free, but a reservation for others has them during the job's limit.
    Reserved {
        /// The reservation.
        name: String,
        /// The model of its first choice.
        model: String,
        /// The number that it needs.
        needed: u64,
        /// The number that is free for the duration of its limit.
        free: u64,
    },
    /// Too few fitting devices are free for the duration of the job's limit, or not on the nodes where it needs them.
    Devices {
        /// The model of its first choice.
        model: String,
        /// The number that it needs.
        needed: u64,
        /// The number that is free for the duration of its limit.
        free: u64,
    },
    /// Devices are free, but no node with free devices has enough memory. The memory of CPU devices is their node's.
    HostMemory {
        /// The model of its first choice.
        model: String,
        /// The least bytes of one node's memory that it needs.
        needed: u64,
        /// The most bytes that are free on such a node.
        free: u64,
    },
    /// Devices are free, but no node with free devices has enough cores.
    Cores {
        /// The model of its first choice.
        model: String,
        /// The least thousandths of one node's cores that it needs.
        needed: u64,
        /// The most that is free on such a node.
        free: u64,
    },
    /// Devices are free, and cores and memory of their nodes, but these are for the reserved start of another job, before the job's limit ends.
    Claimed {
        /// The model of its first choice.
        model: String,
        /// The job with that reserved start.
        by: JobId,
    },
}

/// The state of a reservation that a job requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReservationState {
    /// The reservation has not begun.
    Ahead,
    /// The reservation has begun, but too few of its devices are free.
    Full,
    /// The reservation is over, or was deleted.
    Gone,
}

/// The present state of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobView {
    /// Its number.
    pub job: JobId,
    /// Its user.
    pub user: String,
    /// Its account.
    pub account: String,
    /// Its phase.
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

/// A job, with the reason why it waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The job.
    pub view: JobView,
    /// The reason; `None` if it does not wait.
    pub reason: Option<WaitReason>,
    /// Number of jobs before it in order; `None` for a job that does not wait, or is on hold.
    pub position: Option<usize>,
    /// Its reserved start.
    pub starts: Option<Millis>,
}

impl Scheduler {
    /// Returns the present state of a job.
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

    /// Returns the usage of an account and its descendants until now.
    #[must_use]
    pub fn usage(&self, account: &str) -> Option<Usage> {
        let at = self.accounts.named(account)?;
        Some(self.accounts.usage(self.now, at))
    }

    /// Refuses devices to a user whose account, or one above it, has spent its device-hours of the month by `now`. The user's
    /// own device-hours count if the user has a leaf below the account.
    ///
    /// # Errors
    /// Returns the account that has spent them.
    pub fn check_spent(&self, now: Millis, account: &str, user: &str) -> Result<(), Refusal> {
        let leaf = self.accounts.named(&SitePolicy::leaf(account, user)).or_else(|| self.accounts.named(account));
        match leaf.and_then(|leaf| self.accounts.spent(now, leaf)) {
            Some(account) => Err(Refusal::Spent { account: self.account_name(account) }),
            None => Ok(()),
        }
    }

    /// Returns why a job waits, its position and its reserved start.
    #[must_use]
    pub fn explain(&self, id: JobId) -> Option<Explanation> {
        let job = self.jobs.get(&id)?;
        let waits = job.phase == Phase::Waiting;
        Some(Explanation {
            view: self.view(job),
            reason: waits.then(|| self.wait_reason(job)),
            position: (waits && !job.on_hold).then(|| self.position(job)),
            starts: job.reserved_start.as_ref().map(|reserved_start| reserved_start.starts),
        })
    }

    /// Returns how many jobs are before one that waits and is not on hold.
    pub(super) fn position(&self, job: &Job) -> usize {
        let step = || self.pool.step();
        match job.front {
            Some(front) => self.front.range(..front).inspect(|_| step()).count(),
            None => {
                let others = self.accounts.before(job.account, job.turn, step);
                self.front.len() + usize::try_from(others).unwrap_or(usize::MAX)
            }
        }
    }

    /// Returns why a job waits, without its position.
    #[must_use]
    pub fn reason(&self, id: JobId) -> Option<WaitReason> {
        let job = self.jobs.get(&id).filter(|job| job.phase == Phase::Waiting)?;
        Some(self.wait_reason(job))
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
            Err(Some(Stop::Spent(account))) => WaitReason::Spent { account: self.account_name(account) },
            Err(Some(Stop::Most(account))) => WaitReason::Most { account: self.account_name(account) },
            Err(Some(Stop::Guarantee)) => WaitReason::Guarantee,
            Err(Some(Stop::First(by))) => WaitReason::First { by },
            Err(None) | Ok(_) if self.is_excluded_by_guarantees(job) => WaitReason::Guarantee,
            Err(None) | Ok(_) => match &job.request.reservation {
                Some(name) => WaitReason::Reservation { name: name.clone(), state: self.reservation_state(name) },
                None => self.missing_devices(job),
            },
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
        let lacking = parts.iter().find(short);
        let host_resources =
            parts.iter().filter(|_| lacking.is_none()).find_map(|part| self.missing_host_resources(job, part, until));
        if let Some(host_resources) = host_resources {
            return host_resources;
        }
        let part = lacking.or(parts.first());
        let reserved = part.and_then(|part| self.reserved_to_others(job, part.class, until));
        // If enough devices are free elsewhere, reservations are the reason only if no job holds a device.
        let is_used = part.map(|part| &self.pool.index[part.class.index()]).is_some_and(|of| of.whole < of.sound);
        match (part.map(missing), reserved) {
            (Some(WaitReason::Devices { model, needed, free }), Some((name, more)))
                if needed <= free + more && (free < needed || !is_used) =>
            {
                WaitReason::Reserved { name, model, needed, free }
            }
            (reason, _) => reason.unwrap_or(WaitReason::NoSuchDevices),
        }
    }

    /// Returns how many devices of a class are free for a job until a time, including those kept for its reserved
    /// start.
    fn free_for(&self, job: &Job, class: ClassId, until: Millis) -> u64 {
        let kept = job.reserved_start.iter().flat_map(|reserved_start| &reserved_start.spots).filter(|&&spot| {
            self.pool.device(spot).class == class
                && self.pool.space(spot, until, true).is_none()
                && self.pool.is_free_for(spot, job.id, self.now, until)
        });
        self.pool.free_until(class, until) + kept.count() as u64
    }

    /// Returns whether memory or cores of nodes are what a part lacks: no node with a free device has enough for those that one node must have.
    /// `None` also if the job may use more than [`BESIDE_MAX`] nodes by name, and none of as many with most left.
    fn missing_host_resources(&self, job: &Job, part: &PartDemand, until: Millis) -> Option<WaitReason> {
        if part.cores == 0 && part.host_memory == 0 {
            return None;
        }
        let shape = self.shapes.get(job.shape);
        let needed = HostResources::default().plus(part.host_resources(), together(shape.layout, part));
        let HostResources { memory, cores } = self.most_host_resources(job, part)?;
        let model = self.pool.classes[part.class.index()].model.clone();
        if memory < needed.memory {
            return Some(WaitReason::HostMemory { model, needed: needed.memory, free: memory });
        }
        if cores < needed.cores {
            return Some(WaitReason::Cores { model, needed: needed.cores, free: cores });
        }
        self.claimed_by(job, part, until).map(|by| WaitReason::Claimed { model, by })
    }

    /// Returns the job whose reserved start needs cores or memory that a part would take: of [`BESIDE_MAX`] nodes with free devices that have
    /// enough now, none has enough until the job's end.
    fn claimed_by(&self, job: &Job, part: &PartDemand, until: Millis) -> Option<JobId> {
        let shape = self.shapes.get(job.shape);
        let (count, lease) = (together(shape.layout, part), (self.now, until));
        let needed = HostResources::default().plus(part.host_resources(), count);
        let few = self.few_nodes(job);
        let most = self.pool.index[part.class.index()].most_host_resources_first(needed);
        let nodes: Vec<u32> = match few {
            Some(few) => few,
            None => most.take(BESIDE_MAX).filter(|&node| self.may_use_node(job, node)).collect(),
        };
        let is_enough = |node: &u32| {
            let search = self.search(shape, job.origin);
            let free = self.pool.host_resources(*node, part.class).is_some_and(|free| free.covers(needed));
            free && search.usable(*node, part.class, until) >= count
        };
        let enough: Vec<u32> = nodes.into_iter().filter(is_enough).collect();
        if enough.iter().any(|&node| self.pool.host_resources_for(node, lease).covers(needed)) {
            return None;
        }
        enough.first().and_then(|&node| self.pool.claimed_by(node, lease, job.id, needed))
    }

    /// Returns the most memory and the most cores that nodes with a free device have left which a job may use.
    fn most_host_resources(&self, job: &Job, part: &PartDemand) -> Option<HostResources> {
        match self.few_nodes(job) {
            Some(few) => {
                let left = few.into_iter().filter_map(|node| self.pool.host_resources(node, part.class));
                left.reduce(HostResources::most)
            }
            None => {
                let index = &self.pool.index[part.class.index()];
                index.most_host_resources(BESIDE_MAX, |node| self.may_use_node(job, node))
            }
        }
    }

    /// Whether a job's request allows a node.
    fn may_use_node(&self, job: &Job, node: u32) -> bool {
        self.pool.step();
        self.shapes.get(job.shape).nodes.as_ref().is_none_or(|nodes| nodes.contains(node))
    }

    /// Returns the nodes that a job may use, if its request names them and they are at most [`BESIDE_MAX`].
    fn few_nodes(&self, job: &Job) -> Option<Vec<u32>> {
        let shape = self.shapes.get(job.shape);
        let few: Vec<u32> = match shape.layout {
            Layout::Any(Locality::Local) => job.origin.into_iter().collect(),
            _ => shape.nodes.iter().flat_map(|nodes| nodes.iter().take(BESIDE_MAX + 1)).collect(),
        };
        let is_few = !few.is_empty() && few.len() <= BESIDE_MAX;
        is_few.then(|| few.into_iter().filter(|&node| self.may_use_node(job, node)).collect())
    }

    /// Returns a reservation that has free devices of a class until then which are for others, and how many: of
    /// [`SET_ASIDE_MAX`] devices that are set aside so early.
    fn reserved_to_others(&self, job: &Job, class: ClassId, until: Millis) -> Option<(String, u64)> {
        let set_aside = self.pool.index[class.index()].set_aside_before(until).take(SET_ASIDE_MAX);
        let (mut name, mut count) = (None, 0);
        for spot in set_aside {
            self.pool.step();
            let device = self.pool.device(spot);
            let windows = device.windows.iter().filter(|window| window.starts < until && window.ends > self.now);
            let of_others = windows.filter_map(|window| self.reservations.get(&window.id)).map(|(of, _)| of);
            if let Some(reservation) = of_others.min_by_key(|of| of.starts).filter(|of| !self.is_open_to(of, job)) {
                name.get_or_insert_with(|| reservation.name.clone());
                count += 1;
            }
        }
        // Beyond the visited devices, any number may be reserved.
        name.map(|name| (name, if count == SET_ASIDE_MAX { u64::MAX / 2 } else { count as u64 }))
    }

    /// Whether a job may start on devices of a reservation now.
    fn is_open_to(&self, reservation: &Reservation, job: &Job) -> bool {
        reservation.starts <= self.now && self.is_for_job(reservation, job)
    }

    pub(super) fn reservation_state(&self, name: &str) -> ReservationState {
        let named = self.reservations.values().map(|(of, _)| of).filter(|of| of.name == name);
        match named.map(|of| of.starts).min() {
            None => ReservationState::Gone,
            Some(starts) if starts <= self.now => ReservationState::Full,
            Some(_) => ReservationState::Ahead,
        }
    }
}
