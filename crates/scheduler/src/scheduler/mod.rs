//! The scheduler's state and its entry point.

mod admin;
mod asks;
mod beside_guarantees;
mod earlier;
mod explain;
mod first;
mod forecast;
mod groups;
mod invariants;
mod lack;
mod leases;
mod nodes;
mod pass;
mod possible;
mod preempting;
mod quarantine;
mod reservable;
mod reservations;
mod reserved;
mod reserved_starts;
mod saving;
mod suspending;
mod timers;
mod view;
mod waiting_order;

use crate::accounts::{Accounts, Head, Queued};
use crate::effect::{Effect, EndCause};
use crate::ids::{JobId, ReservationId};
use crate::input::{DrainTarget, Input, Reservation};
use crate::job::Job;
use crate::noting::NotingMap;
use crate::phase::Phase;
use crate::policy::Policy;
use crate::pool::{Pool, Spot};
use crate::search::Search;
use crate::shapes::{Shapes, classes_of};
use crate::time::Millis;
pub use explain::{Explanation, JobView, ReservationState, WaitReason};
pub use first::DISPLACED_DEVICES_MAX;
pub use forecast::{FORECAST_EVENTS_MAX, Forecast};
use groups::{Group, Groups};
pub use lack::Lack;
pub use possible::NodesOfJobs;
pub use preempting::{PREEMPT_INTERVAL_MS, PREEMPTABLE_MAX};
pub use quarantine::Quarantine;
pub use reservable::{Reservable, TooFew};
use std::collections::{BTreeMap, BTreeSet};
pub use suspending::{ANSWER_MS, OWNER_AGAIN_MS, RESUME_AGAIN_MS, RETRY_MS};
pub use view::DeviceState;
pub use waiting_order::{AccountOrder, WaitingPlace};

/// Interval at which the order of accounts is updated to their usage.
pub const SETTLE_MS: u64 = 60_000;

/// A timer. Timers of the same time are processed in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Timer {
    /// Updates the usage of a leaf account.
    Settle(u32),
    /// A reservation begins or ends.
    Window(ReservationId),
    /// A drain's deadline passes.
    Drain(DrainTarget),
    /// A lease ends.
    Lease(JobId),
    /// A job is warned of the end of its lease, or its lease is renewed.
    Warn(JobId),
    /// A request has reached its longest wait.
    Wait(JobId),
    /// A disconnected requester loses its place.
    Keep(JobId),
    /// A reserved start counts as missed.
    Promise(JobId),
    /// Agents should have answered the order to suspend a job, or to resume it; or it is to be resumed again.
    Suspension(JobId),
    /// Waiting jobs may have others give way.
    Preempt,
}

/// A drain.
#[derive(Clone, Debug)]
struct Drain {
    by_time: Millis,
    end: bool,
    reason: String,
}

/// The scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    now: Millis,
    policy: Policy,
    accounts: Accounts,
    pool: Pool,
    shapes: Shapes,
    jobs: NotingMap<JobId, Job>,
    last_job: u64,
    waiting: usize,
    /// Jobs that administrators have put first.
    front: BTreeMap<u64, JobId>,
    last_front: u64,
    paused: bool,
    timers: BTreeSet<(Millis, Timer)>,
    /// Leaf accounts with a timer.
    settling: BTreeSet<u32>,
    /// Jobs with a reserved start.
    with_reserved_start: BTreeSet<JobId>,
    /// Those jobs of `with_reserved_start` that are within a guarantee, to which others yield.
    entitled: BTreeSet<JobId>,
    /// The first job beyond all guarantees, to which other reserved starts yield.
    head: Option<JobId>,
    /// Running jobs without a limit for which planning assumes no end.
    endless: BTreeSet<JobId>,
    /// Ends of leases for planning.
    ends: BTreeSet<(Millis, JobId)>,
    /// Those jobs of `with_reserved_start` whose devices were all free at their last change.
    ready: BTreeSet<JobId>,
    /// Shapes to test, and shapes that fit but whose jobs may not start.
    candidates: BTreeSet<usize>,
    /// The pool's stamp at the last pass.
    passed: u64,
    /// Whether a restart has found no reserved starts, so that they are planned before the first pass starts a job.
    replans: bool,
    reservations: BTreeMap<ReservationId, (Reservation, Vec<Spot>)>,
    /// Waiting jobs, grouped by the properties that determine their reserved devices.
    groups: Groups,
    /// Reservations with members that have begun.
    open_reservations: BTreeSet<ReservationId>,
    /// Reservations that do not suffice for a job with a reserved start, with the stamps at that time
    /// (`ReservedFreeDevices::grown`).
    unfit: BTreeMap<JobId, BTreeMap<ReservationId, u64>>,
    drains: BTreeMap<DrainTarget, Drain>,
    quarantined: BTreeMap<accord_types::DeviceId, Quarantine>,
    /// Quarantines of devices that no node has, by UUID, with the devices' last places.
    away: BTreeMap<String, (accord_types::DeviceId, Quarantine)>,
    /// Devices that others than jobs use.
    used: BTreeSet<accord_types::DeviceId>,
    /// Jobs with memory of devices that they do not hold, because they are or were suspended.
    without_devices: BTreeSet<JobId>,
    /// Suspended jobs that wait for their devices, to be resumed.
    resuming: BTreeSet<JobId>,
    /// Jobs that gave way to others, from the order to their agents until they run again.
    preempted: BTreeSet<JobId>,
    /// The time before which no further job is asked to give way.
    preempts_from: Millis,
    /// The time of [`Timer::Preempt`].
    preempt_timer: Option<Millis>,
    /// Whether drains, reservations, quarantine or pause have changed since they were saved.
    site_changed: bool,
    /// Jobs whose hold on a node's devices has changed since it was saved; `None` if changes are not noted.
    changed_holds: Option<BTreeSet<(JobId, accord_types::NodeId)>>,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self::new(Policy::default())
    }
}

impl Scheduler {
    /// Creates a scheduler without nodes at time 0.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            now: Millis(0),
            accounts: Accounts::new(&policy),
            policy,
            pool: Pool::default(),
            shapes: Shapes::default(),
            jobs: NotingMap::default(),
            last_job: 0,
            waiting: 0,
            front: BTreeMap::new(),
            last_front: 0,
            paused: false,
            timers: BTreeSet::new(),
            settling: BTreeSet::new(),
            with_reserved_start: BTreeSet::new(),
            entitled: BTreeSet::new(),
            head: None,
            endless: BTreeSet::new(),
            ends: BTreeSet::new(),
            ready: BTreeSet::new(),
            candidates: BTreeSet::new(),
            passed: 0,
            replans: false,
            reservations: BTreeMap::new(),
            groups: Groups::default(),
            open_reservations: BTreeSet::new(),
            unfit: BTreeMap::new(),
            drains: BTreeMap::new(),
            quarantined: BTreeMap::new(),
            away: BTreeMap::new(),
            used: BTreeSet::new(),
            without_devices: BTreeSet::new(),
            resuming: BTreeSet::new(),
            preempted: BTreeSet::new(),
            preempts_from: Millis(0),
            preempt_timer: None,
            site_changed: false,
            changed_holds: None,
        }
    }

    /// Processes an input at a time, and appends the effects. An earlier time than the last one counts as the last one.
    pub fn apply(&mut self, now: Millis, input: Input, effects: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        self.pass_time(effects);
        match input {
            Input::NodeJoined(description) => self.node_joined(&description, effects),
            Input::NodeReturned(description, jobs) => {
                self.node_joined(&description, effects);
                for job in jobs {
                    self.adopt(job);
                }
            }
            Input::NodeLost(node) => self.node_down(node, false, effects),
            Input::NodeLeft(node) => self.node_down(node, true, effects),
            Input::Ask { user, account, origin, request } => self.ask(user, &account, origin, request, effects),
            Input::Cancel { job, by } => self.cancel(job, by, effects),
            Input::Ended { job } => self.finish(job, EndCause::Done, effects),
            Input::Abandoned { job, seen } => {
                self.take_back(job, seen);
                self.finish(job, EndCause::Abandoned, effects);
            }
            Input::Hold { job, held } => self.hold(job, held, effects),
            Input::ToFront { job, by } => self.put_first(job, &by, effects),
            Input::SetLimit { job, limit_ms, by } => self.set_limit(job, limit_ms, &by, effects),
            Input::Suspend { job, by, reason } => self.suspend_for(job, by, reason, effects),
            Input::Suspended { job, node, outcome } => self.suspended(job, node, outcome, effects),
            Input::Resume { job, by } => self.resume(job, &by, effects),
            Input::Resumed { job, node, outcome } => self.resumed(job, node, outcome, effects),
            Input::Connected { job, connected } => self.connected(job, connected),
            Input::SessionOpened { job, .. } => self.count_session(job, true),
            Input::SessionClosed { job, .. } => self.count_session(job, false),
            Input::Released { job, node } => self.released(job, node),
            Input::PolicyApplied { policy, by } => self.apply_policy(*policy, &by, effects),
            Input::Used { account, device, milli_ms } => self.use_up(&account, device, milli_ms),
            Input::Idle { job } => {
                if self.jobs.get(&job).is_some_and(|job| job.phase == Phase::Running) {
                    self.end(job, EndCause::Idle, effects);
                }
            }
            Input::AccountAdded(account) => self.add_account(*account),
            Input::PathTimes(times) => self.pool.path_times = times,
            Input::MonthBegan => self.accounts.begin_month(self.now),
            Input::Reserve(reservation) => self.reserve(*reservation, effects),
            Input::Unreserve(id) => self.unreserve(id, effects),
            Input::Drain { target, by_time, end, reason, by } => {
                self.drain(target, Drain { by_time, end, reason }, &by, effects);
            }
            Input::Undrain { target, by } => self.undrain(target, &by, effects),
            Input::Quarantine { device, reason, by, charged, uuid } => {
                let since = self.now;
                self.quarantine(device, Quarantine { reason, since, by, charged, uuid }, effects);
            }
            Input::DeviceMoved { uuid, to } => self.device_moved(&uuid, to, effects),
            Input::Unquarantine { device, by } => self.unquarantine(device, &by, effects),
            Input::InUse { device, in_use } => self.note_use(device, in_use),
            Input::Pause { paused, by } => {
                self.paused = paused;
                self.site_changed = true;
                effects.push(Effect::Audit(format!("{by} {} all starts", if paused { "pauses" } else { "resumes" })));
            }
            Input::Tick => {}
        }
        self.pass(effects);
    }

    /// Returns when [`Input::Tick`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Returns the highest number of a job.
    #[must_use]
    pub fn last_job(&self) -> JobId {
        JobId(self.last_job)
    }

    /// Returns the policy in effect.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the number of loop steps since the start, for tests.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.pool.steps.get() + self.accounts.steps
    }

    /// Brings an account and its ancestors up to date, and recomputes their order.
    fn touch(&mut self, leaf: u32) {
        for at in 0..self.accounts.get(leaf).path.len() {
            let account = self.accounts.get(leaf).path[at];
            self.accounts.settle(self.now, account);
        }
        let first = self.accounts.get(leaf).queue.first().map(|turn| turn.job);
        let head = first.and_then(|job| self.jobs.get(&job)).map(|job| Head {
            submitted: job.submitted,
            priority: job.request.priority,
            demand: self.shapes.get(job.shape).first_demand.clone(),
        });
        self.accounts.rank(self.now, leaf, head.as_ref());
        let of = self.accounts.get(leaf);
        if of.running + of.waiting > 0 && self.settling.insert(leaf) {
            self.timers.insert((self.now.plus(SETTLE_MS), Timer::Settle(leaf)));
        }
    }

    fn search<'a>(&'a self, shape: &'a crate::shapes::Shape, origin: Option<u32>) -> Search<'a> {
        let lease = shape.key.limit_ms.unwrap_or(self.policy.quantum());
        Search {
            pool: &self.pool,
            now: self.now,
            until: self.now.plus(lease),
            origin,
            nodes: shape.nodes.as_ref(),
            layout: shape.layout,
            locality: shape.key.request.locality,
            sharers_max: self.policy.sharers_max,
        }
    }

    /// Adds a waiting job to the order.
    fn enqueue(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.phase == Phase::Waiting && !job.on_hold) else { return };
        if let Some(front) = job.front {
            self.front.insert(front, id);
        }
        self.shapes.enqueue(job.shape, job.account, job.turn);
        let shape = self.shapes.get(job.shape);
        let mut grown = classes_of(shape.classes).map(|class| self.pool.index[class].grown);
        if shape.tested.is_none_or(|tested| grown.any(|grown| grown > tested)) {
            self.candidates.insert(job.shape);
        }
        let (account, turn) = (job.account, job.turn);
        self.groups.insert(group_of(job), turn);
        let queued = if job.front.is_some() { Queued::PutFirst } else { Queued::InTurn };
        self.accounts.queue(account, turn, queued);
        self.touch(account);
    }

    /// Removes a waiting job from the order.
    fn dequeue(&mut self, id: JobId) {
        let Some(account) = self.jobs.get(&id).map(|job| job.account) else { return };
        self.leave_queues(id);
        self.touch(account);
    }

    /// Removes a waiting job from the order; the caller must touch its account.
    fn leave_queues(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if let Some(front) = job.front {
            self.front.remove(&front);
        }
        self.shapes.dequeue(job.shape, job.account, job.turn);
        self.groups.remove(&group_of(job), job.turn);
        let (account, turn) = (job.account, job.turn);
        self.accounts.queue(account, turn, Queued::No);
        self.drop_reserved_start(id);
        self.head = self.head.filter(|&head| head != id);
    }
}

fn group_of(job: &Job) -> Group {
    Group { account: job.account, shape: job.shape, user: job.user.clone() }
}
