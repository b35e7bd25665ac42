//! The usage of jobs, and the history of ended jobs.
//!
//! The driver passes each input and its effects to the ledger, in order, after the scheduler has processed the input:
//!
//! ```text
//! let touched = Touched::by(&input);
//! scheduler.apply(now, input, &mut effects);
//! ledger.observe(clock, touched, &effects, &scheduler);
//! ```
//!
//! A job is charged at [`Scheduler::rate`] from its start until its devices are free. Charges use the monotonic clock,
//! so that a jump of the wall clock charges no second twice. The wall clock only decides which day a second counts for.

mod activity;
mod clock;
mod history;
mod saving;
#[cfg(test)]
mod tests;
mod totals;
mod usage;

pub use activity::{Activity, JOB_EVENTS_MAX, JobEvent, JobUse};
pub use clock::Clock;
pub use history::{EndedJob, HISTORY_BYTES_MAX, HISTORY_JOBS_MAX, HistoryPage, Submission};
pub use saving::LedgerChanges;
pub use totals::Totals;
pub use usage::{DAY_MS, Owner, Row, USAGE_ROWS_MAX, UsageBy, UsageLine, UsageView, month_of};

use crate::charge::{Rate, Usage};
use crate::effect::{DevicesOnNode, Effect, EndCause};
use crate::ids::JobId;
use crate::input::Input;
use crate::noting::NotingMap;
use crate::scheduler::Scheduler;
use crate::time::Millis;
use accord_types::NodeId;
use history::History;
use std::collections::{BTreeMap, BTreeSet};
use usage::UsageTable;

/// Jobs whose charge an input may change, besides those in its effects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AffectedJobs {
    /// None.
    Nothing,
    /// One job.
    Job(JobId),
    /// The jobs with devices of a node.
    Node(NodeId),
    /// The same, and jobs of an earlier scheduler that have been adopted with devices of the node.
    Adopted(NodeId),
    /// Every job.
    All,
}

impl AffectedJobs {
    /// Returns the jobs that an input touches.
    #[must_use]
    pub fn by(input: &Input) -> Self {
        match input {
            Input::NodeJoined(description) => Self::Node(description.id),
            Input::NodeReturned(description, _) => Self::Adopted(description.id),
            Input::NodeLost(node) | Input::NodeLeft(node) => Self::Node(*node),
            Input::Released { job, .. } => Self::Job(*job),
            Input::Quarantine { device, .. } | Input::Unquarantine { device, .. } => Self::Node(device.node),
            Input::PolicyApplied { .. } | Input::DeviceMoved { .. } => Self::All,
            _ => Self::Nothing,
        }
    }
}

/// A job from its request until its devices are free.
#[derive(Clone, Debug)]
struct OpenJob {
    submission: Submission,
    asked: Millis,
    started: Option<(Millis, u64)>,
    devices: Vec<DevicesOnNode>,
    nodes: BTreeSet<NodeId>,
    rate: Rate,
    settled: Millis,
    used: Usage,
    did: JobUse,
    events: Vec<JobEvent>,
    /// Its number in the history, after its end.
    ended: Option<u64>,
}

/// The history of jobs, and the usage by user and day.
#[derive(Clone, Debug)]
pub struct Ledger {
    open: NotingMap<JobId, OpenJob>,
    /// Jobs whose use has changed since it was saved; `None` if changes are not noted.
    uses_changed: Option<BTreeSet<JobId>>,
    on_node: BTreeMap<NodeId, BTreeSet<JobId>>,
    usage: UsageTable,
    history: History,
    begun_unix_ms: u64,
    totals: Totals,
}

impl Ledger {
    /// Creates an empty ledger that counts from now on.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            open: NotingMap::default(),
            uses_changed: None,
            on_node: BTreeMap::new(),
            usage: UsageTable::new(clock),
            history: History::default(),
            begun_unix_ms: clock.unix_ms,
            totals: Totals::default(),
        }
    }

    /// Updates the ledger for an input and its effects.
    pub fn observe(&mut self, clock: Clock, touched: AffectedJobs, effects: &[Effect], scheduler: &Scheduler) {
        let (mut changed, mut adopted) = (BTreeSet::new(), Vec::new());
        match touched {
            AffectedJobs::Nothing => {}
            AffectedJobs::Job(job) => drop(changed.insert(job)),
            AffectedJobs::Node(node) => changed.extend(self.on_node.get(&node).into_iter().flatten()),
            AffectedJobs::Adopted(node) => {
                adopted = self.adopted(node, scheduler);
                changed.extend(self.on_node.get(&node).into_iter().flatten());
            }
            AffectedJobs::All => changed.extend(self.open.keys()),
        }
        for effect in adopted.iter().chain(effects) {
            match effect {
                Effect::Queued { job } => self.asked(clock, *job, scheduler),
                Effect::Started { job, devices, .. } => {
                    self.totals.started += 1;
                    self.asked(clock, *job, scheduler);
                    if let Some(open) = self.open.get_mut(job) {
                        open.started = Some((clock.now, clock.unix_ms));
                        open.devices = scheduler.by_node(devices);
                        open.nodes = devices.iter().map(|leased| leased.device.node).collect();
                        for node in &open.nodes {
                            self.on_node.entry(*node).or_default().insert(*job);
                        }
                        self.usage.started(clock, &open.submission.account, &open.submission.user);
                    }
                    changed.insert(*job);
                }
                Effect::Ended { job, cause } => {
                    self.totals.ended[cause.index()] += 1;
                    self.ended(clock, *job, cause);
                    changed.insert(*job);
                }
                Effect::DevicesLost { job, .. } | Effect::Suspended { job } | Effect::DevicesHeldAgain { job } => {
                    changed.insert(*job);
                }
                _ => {}
            }
        }
        for job in changed {
            self.charge(clock, job, scheduler);
        }
    }

    /// Sets the name of the program that made a job's request, for display only.
    pub fn name_program(&mut self, job: JobId, program: &str) {
        if let Some(open) = self.open.get_mut(&job) {
            program.clone_into(&mut open.submission.program);
        }
    }

    /// Returns the program that made the request, and the wall clock time of the request.
    #[must_use]
    pub fn program(&self, job: JobId) -> Option<(&str, u64)> {
        self.open.get(&job).map(|open| (open.submission.program.as_str(), open.submission.asked_unix_ms))
    }

    /// Adds to a job's use of its devices.
    pub fn job_did(&mut self, clock: Clock, job: JobId, activity: Activity) {
        let Some(open) = self.open.get_mut_unnoted(&job).filter(|_| !activity.is_none()) else { return };
        open.did.activity.add(activity);
        self.uses_changed.as_mut().map(|changed| changed.insert(job));
        self.usage.did(clock, &open.submission.account, &open.submission.user, activity);
        if let Some(number) = open.ended {
            self.history.set_did(number, open.did);
        }
    }

    /// Marks the busy time of a job's devices as unknown.
    pub fn job_use_unknown(&mut self, job: JobId) {
        let Some(open) = self.open.get_mut_unnoted(&job).filter(|open| !open.did.is_unknown) else { return };
        open.did.is_unknown = true;
        self.uses_changed.as_mut().map(|changed| changed.insert(job));
        if let Some(number) = open.ended {
            self.history.set_did(number, open.did);
        }
    }

    /// Takes back a running job's charges since its last sign of life.
    pub fn take_back(&mut self, clock: Clock, job: JobId, seen: Millis) {
        let Some(open) = self.open.get_mut(&job).filter(|open| open.ended.is_none()) else { return };
        let Some((started, _)) = open.started else { return };
        (open.used, open.settled) = (used_until(open, clock.now), clock.now);
        let mut charged = Usage::default();
        charged.add(open.rate, clock.now.since(seen.max(started)));
        open.used.subtract(charged);
        self.usage.take_back(clock, &open.submission.account, &open.submission.user, charged);
    }

    /// Keeps a message to a job's program.
    pub fn job_event(&mut self, clock: Clock, job: JobId, text: &str) {
        if let Some(open) = self.open.get_mut(&job).filter(|open| open.events.len() < JOB_EVENTS_MAX) {
            open.events.push(JobEvent { unix_ms: clock.unix_ms, text: text.to_owned() });
        }
    }

    /// Counts and charges the use of a device by a program without a request.
    pub fn program_did(&mut self, clock: Clock, account: &str, user: &str, charged: Usage, activity: Activity) {
        self.usage.charge_at_once(clock, account, user, charged);
        self.usage.did(clock, account, user, activity);
    }

    /// Returns the device time that an open job has been charged, and its use of devices.
    #[must_use]
    pub fn job_use(&self, clock: Clock, job: JobId) -> Option<(Usage, JobUse)> {
        self.open.get(&job).map(|open| (used_until(open, clock.now), open.did))
    }

    /// Returns the usage until now by day, account and user. The view is not affected by later inputs.
    #[must_use]
    pub fn usage(&mut self, clock: Clock) -> UsageView {
        let mut view = self.usage.view(clock);
        // The table counts this time as unknown only after the jobs' ends.
        for open in self.open.values().filter(|open| open.did.is_unknown) {
            view.unknown(clock, &open.submission.account, &open.submission.user, used_until(open, clock.now));
        }
        view
    }

    /// Returns the numbers of started and ended jobs.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the wall clock time since which all ended jobs are kept.
    #[must_use]
    pub fn since_unix_ms(&self) -> u64 {
        self.begun_unix_ms.max(self.history.gone_unix_ms())
    }

    /// Returns ended jobs of one user, or of all users, the latest first. They precede number `before`, or are the
    /// latest ones.
    #[must_use]
    pub fn history(&self, clock: Clock, user: Option<&str>, before: Option<u64>) -> HistoryPage {
        let mut page = self.history.page(user, before);
        for ended in &mut page.jobs {
            let open = self.open.get(&ended.job).filter(|open| open.ended == Some(ended.number));
            ended.used = open.map_or(ended.used, |open| used_until(open, clock.now));
        }
        page
    }

    fn asked(&mut self, clock: Clock, id: JobId, scheduler: &Scheduler) {
        let (Some(view), Some(request)) = (scheduler.job(id), scheduler.request(id)) else { return };
        if self.open.contains_key(&id) {
            return;
        }
        let job = OpenJob {
            submission: Submission {
                account: account_of(&view.account, &view.user),
                user: view.user,
                request: request.clone(),
                program: String::new(),
                asked_unix_ms: clock.unix_ms.saturating_sub(clock.now.since(view.submitted)),
            },
            asked: view.submitted,
            started: None,
            devices: Vec::new(),
            nodes: BTreeSet::new(),
            rate: Rate::default(),
            settled: clock.now,
            used: Usage::default(),
            did: JobUse::default(),
            events: Vec::new(),
            ended: None,
        };
        self.open.insert(id, job);
    }

    /// Returns the starts of jobs that the scheduler has adopted with devices of a node and that have no record: when they
    /// started is not known, so they count from now on. Adds the devices to records of jobs that were adopted before.
    fn adopted(&mut self, node: NodeId, scheduler: &Scheduler) -> Vec<Effect> {
        let mut starts = Vec::new();
        for view in scheduler.job_ids().filter_map(|id| scheduler.job(id)) {
            if view.phase != crate::phase::Phase::Running {
                continue;
            }
            match self.open.get(&view.job).map(|open| open.nodes.contains(&node)) {
                None => {
                    let (job, ends) = (view.job, view.ends.unwrap_or(Millis::NEVER));
                    starts.push(Effect::Started { job, devices: view.devices, ends });
                }
                Some(false) if view.devices.iter().any(|leased| leased.device.node == node) => {
                    if let Some(open) = self.open.get_mut(&view.job) {
                        open.devices = scheduler.by_node(&view.devices);
                        open.nodes.insert(node);
                        self.on_node.entry(node).or_default().insert(view.job);
                    }
                }
                Some(_) => {}
            }
        }
        starts
    }

    fn ended(&mut self, clock: Clock, job: JobId, cause: &EndCause) {
        let Some(open) = self.open.get_mut(&job) else { return };
        let (started, started_unix_ms) = open.started.map_or((clock.now, None), |(at, unix)| (at, Some(unix)));
        open.ended = Some(self.history.add(EndedJob {
            number: 0,
            job,
            submission: open.submission.clone(),
            started_unix_ms,
            ended_unix_ms: clock.unix_ms,
            waited_ms: started.since(open.asked),
            ran_ms: clock.now.since(started),
            devices: std::mem::take(&mut open.devices),
            used: Usage::default(),
            did: open.did,
            events: open.events.clone(),
            cause: cause.clone(),
        }));
    }

    /// Charges a job until now, and sets its rate from now on. Removes a job whose devices are free.
    fn charge(&mut self, clock: Clock, id: JobId, scheduler: &Scheduler) {
        let Some(open) = self.open.get_mut(&id) else { return };
        open.used = used_until(open, clock.now);
        open.settled = clock.now;
        self.usage.charge(clock, &open.submission.account, &open.submission.user, open.rate, false);
        let view = scheduler.job(id);
        if let Some(view) = &view {
            open.submission.account = account_of(&view.account, &view.user);
        }
        open.rate = scheduler.rate(id);
        self.usage.charge(clock, &open.submission.account, &open.submission.user, open.rate, true);
        if let Some(number) = open.ended {
            self.history.set_used(number, open.used);
        }
        if view.is_some() || open.ended.is_none() {
            return;
        }
        if open.did.is_unknown {
            self.usage.unknown(clock, &open.submission.account, &open.submission.user, open.used);
        }
        for node in std::mem::take(&mut open.nodes) {
            if let Some(jobs) = self.on_node.get_mut(&node) {
                jobs.remove(&id);
                if jobs.is_empty() {
                    self.on_node.remove(&node);
                }
            }
        }
        if let Some(closed) = self.open.remove(&id)
            && let Some(number) = closed.ended
        {
            self.history.note(number);
        }
    }
}

/// Returns an account's name without the user's part of the leaf.
fn account_of(leaf: &str, user: &str) -> String {
    leaf.strip_suffix(user).and_then(|account| account.strip_suffix('/')).unwrap_or(leaf).to_owned()
}

fn used_until(open: &OpenJob, now: Millis) -> Usage {
    let mut used = open.used;
    used.add(open.rate, now.since(open.settled));
    used
}
