//! The scheduler in its simplest form, which searches everything for each decision. It shares only types and the
//! policy's arithmetic with the fast scheduler.

mod accounts;
mod fit;
mod nodes;
mod preempting;
mod reserved_starts;
mod suspending;

use crate::naive_place::{At, NDevice, NNode, Picks, Vacancies, Want};
use accord_scheduler::amount::{Amount, WHOLE};
use accord_scheduler::arithmetic::{charge, charge_with_cores, decayed, share};
use accord_scheduler::class::{ClassFilter, DeviceClass};
use accord_scheduler::path_class::PathTimesByClass;
use accord_scheduler::policy::{Quota, RELEASE_MS};
use accord_scheduler::request::{Alternative, Locality, Part, Take};
use accord_scheduler::{
    DISPLACED_DEVICES_MAX, DrainTarget, Effect, EndCause, Input, JobId, LeasedDevice, Members, Millis, Policy,
    RELEASE_EXPECTED_MS, Refusal, Request, Reservation, ReservationId, ReservedDevices, SETTLE_MS, SlipCause,
    SuspensionCause, SuspensionStage,
};
use accord_types::{DeviceId, DeviceType, NodeId};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NPhase {
    Waiting,
    Running,
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NHold {
    Held,
    Releasing,
    Lost,
    /// Of a suspended job: other jobs may have it.
    Suspended,
    Freed,
}

impl NHold {
    /// Whether the device is not free for others.
    pub(crate) fn is_hold(self) -> bool {
        !matches!(self, Self::Suspended | Self::Freed)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct NSuspension {
    pub(crate) stage: SuspensionStage,
    pub(crate) awaited: BTreeSet<NodeId>,
    pub(crate) answer_by: Millis,
    pub(crate) left: u64,
    pub(crate) since: Millis,
    pub(crate) cause: SuspensionCause,
    pub(crate) resumes_from: Millis,
}

#[derive(Clone, Debug)]
pub(crate) struct NGrant {
    pub(crate) device: DeviceId,
    pub(crate) at: At,
    pub(crate) class: usize,
    pub(crate) amount: Amount,
    pub(crate) exclusive: bool,
    pub(crate) milli: u64,
    pub(crate) charged: u64,
    pub(crate) cores: u64,
    pub(crate) memory: u64,
    pub(crate) hold: NHold,
}

#[derive(Clone, Debug)]
pub(crate) struct NReservedStart {
    pub(crate) starts: Millis,
    pub(crate) ends: Millis,
    pub(crate) places: Vec<At>,
    pub(crate) choice: Vec<Want>,
    /// 0 yields to the others, 1 is the first job's, 2 is that of a job within a guarantee.
    pub(crate) rank: u8,
    pub(crate) planned: Millis,
}

#[derive(Clone, Debug)]
pub(crate) struct NJob {
    pub(crate) id: JobId,
    pub(crate) user: String,
    pub(crate) account: usize,
    pub(crate) request: Request,
    pub(crate) origin: Option<usize>,
    pub(crate) submitted: Millis,
    pub(crate) phase: NPhase,
    pub(crate) front: Option<u64>,
    pub(crate) on_hold: bool,
    pub(crate) waits_until: Option<Millis>,
    pub(crate) kept_until: Option<Millis>,
    pub(crate) limit: Option<u64>,
    pub(crate) started: Millis,
    pub(crate) ends: Millis,
    pub(crate) warned: Option<Millis>,
    pub(crate) ending: Option<EndCause>,
    pub(crate) planned_end: Millis,
    pub(crate) grants: Vec<NGrant>,
    pub(crate) reserved_start: Option<NReservedStart>,
    pub(crate) slipped: Option<(Millis, SlipCause)>,
    pub(crate) announced: Option<Millis>,
    pub(crate) suspension: Option<NSuspension>,
    pub(crate) went_on: Option<Millis>,
    pub(crate) stood_still: u64,
}

#[derive(Clone, Debug, Default)]
struct NAccount {
    used: Vec<u64>,
    total: u128,
    /// The billed part of this month, times thousandths of the weight.
    month: u128,
    settled: Millis,
    last_start: Millis,
    settle_at: Option<Millis>,
    account_rank: Option<(bool, i64, u64)>,
}

/// The classes and devices of a start.
type Fit = (Vec<Want>, Picks);

/// A start, its devices and their classes.
type Planned = (Millis, Vec<At>, Vec<Want>);

/// The naive scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Naive {
    now: Millis,
    policy: Policy,
    pub(crate) classes: Vec<DeviceClass>,
    pub(crate) nodes: Vec<NNode>,
    /// Racks and switches in the order of their appearance.
    domains: Vec<(String, String)>,
    pub(crate) jobs: BTreeMap<JobId, NJob>,
    accounts: Vec<NAccount>,
    last: u64,
    last_front: u64,
    paused: bool,
    /// The first job beyond all guarantees.
    head: Option<JobId>,
    reservations: BTreeMap<ReservationId, Reservation>,
    /// Reservations that have not begun.
    ahead: BTreeSet<ReservationId>,
    drains: BTreeMap<DrainTarget, (Millis, bool)>,
    due_drains: BTreeSet<DrainTarget>,
    /// Devices in quarantine, each with whether an administrator put it there and whether jobs are charged for it.
    quarantined: BTreeMap<DeviceId, (bool, bool)>,
    path_times: PathTimesByClass,
    /// The time before which no further job gives way.
    preempts_from: Millis,
    /// In a trial: jobs whose devices count as free, and jobs whose reserved starts don't count.
    lifted: BTreeSet<JobId>,
    aside: BTreeSet<JobId>,
}

impl Naive {
    pub(crate) fn new(policy: Policy) -> Self {
        let accounts = vec![NAccount::default(); policy.accounts.len()];
        Self {
            now: Millis(0),
            policy,
            classes: Vec::new(),
            nodes: Vec::new(),
            domains: Vec::new(),
            jobs: BTreeMap::new(),
            accounts,
            last: 0,
            last_front: 0,
            paused: false,
            head: None,
            reservations: BTreeMap::new(),
            ahead: BTreeSet::new(),
            drains: BTreeMap::new(),
            due_drains: BTreeSet::new(),
            quarantined: BTreeMap::new(),
            path_times: PathTimesByClass::default(),
            preempts_from: Millis(0),
            lifted: BTreeSet::new(),
            aside: BTreeSet::new(),
        }
    }

    pub(crate) fn apply(&mut self, now: Millis, input: Input, effects: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        self.time(effects);
        match input {
            Input::NodeJoined(description) => self.join(&description, effects),
            Input::NodeLost(node) => self.down(node, NHold::Lost, effects),
            Input::NodeLeft(node) => self.down(node, NHold::Freed, effects),
            Input::Ask { user, account, origin, request } => self.ask(user, &account, origin, request, effects),
            Input::Cancel { job, by } => self.finish(job, EndCause::Cancelled { by }, effects),
            Input::Ended { job } => self.finish(job, EndCause::Done, effects),
            // Histories have no charges that are taken back.
            Input::Abandoned { job, seen: _ } => self.finish(job, EndCause::Abandoned, effects),
            Input::Hold { job, held } => {
                if let Some(of) = self.jobs.get_mut(&job).filter(|of| of.phase == NPhase::Waiting && of.on_hold != held)
                {
                    of.on_hold = held;
                    if held {
                        of.reserved_start = None;
                    }
                    let account = of.account;
                    self.head = self.head.filter(|&head| !held || head != job);
                    self.touch(account);
                }
            }
            Input::ToFront { job, .. } => {
                if let Some(of) = self.jobs.get_mut(&job).filter(|of| of.phase == NPhase::Waiting && of.front.is_none())
                {
                    self.last_front += 1;
                    of.front = Some(self.last_front);
                }
            }
            Input::SetLimit { job, limit_ms, .. } => self.set_limit(job, limit_ms, effects),
            Input::Connected { job, connected } => {
                let until = self.now.plus(self.policy.keep_ms);
                if let Some(of) = self.jobs.get_mut(&job).filter(|of| of.phase == NPhase::Waiting) {
                    of.kept_until = (!connected).then_some(until);
                }
            }
            Input::Suspend { job, by, .. } => self.suspend_for(job, &by, effects),
            Input::Suspended { job, node, outcome } => self.suspended(job, node, outcome, effects),
            Input::Resume { job, by } => self.resume(job, &by),
            Input::Resumed { job, node, outcome } => self.resumed(job, node, outcome, effects),
            Input::SessionOpened { .. } | Input::SessionClosed { .. } | Input::Tick => {}
            Input::Released { job, node } => {
                let runs = self.jobs.get(&job).is_some_and(|job| job.phase == NPhase::Running);
                self.change(job, node, |_, hold| match hold {
                    NHold::Held => hold,
                    NHold::Suspended if runs => hold,
                    _ => NHold::Freed,
                });
                self.forget(job);
            }
            Input::PolicyApplied { policy, .. } => self.apply_policy(*policy, effects),
            Input::Used { account, device, milli_ms } => self.use_up(&account, device, milli_ms),
            Input::Idle { job } => {
                if self.jobs.get(&job).is_some_and(|job| job.phase == NPhase::Running) {
                    self.finish(job, EndCause::Idle, effects);
                }
            }
            Input::AccountAdded(account) => {
                if self.policy.account(&account.name).is_none() {
                    self.policy.accounts.push(*account);
                    let used = vec![0; self.classes.len()];
                    self.accounts.push(NAccount { used, settled: self.now, ..NAccount::default() });
                }
            }
            Input::PathTimes(times) => self.path_times = times,
            Input::MonthBegan => (0..self.accounts.len()).for_each(|account| {
                self.settle(account);
                self.accounts[account].month = 0;
            }),
            Input::Reserve(reservation) => {
                let id = reservation.id;
                let before = self.reservations.remove(&id);
                self.ahead.remove(&id);
                if reservation.ends > self.now && reservation.ends > reservation.starts {
                    let begun = reservation.starts <= self.now;
                    self.reservations.insert(id, *reservation);
                    if begun {
                        self.end_non_members(id, &ReservedDevices::All, effects);
                    } else {
                        self.ahead.insert(id);
                    }
                }
                if let Some(before) = before {
                    self.end_non_members_of_all(&before.devices, effects);
                    self.end_unreserved(&before.name, effects);
                }
            }
            Input::Unreserve(id) => self.unreserve(id, effects),
            Input::Drain { target, by_time, end, .. } => {
                self.drains.insert(target, (by_time, end));
                self.due_drains.insert(target);
            }
            Input::Undrain { target, .. } => {
                self.drains.remove(&target);
                self.due_drains.remove(&target);
            }
            Input::Quarantine { device, by, charged, .. } => self.quarantine(device, by.is_some(), charged, effects),
            Input::Unquarantine { device, .. } => {
                if self.quarantined.contains_key(&device) {
                    self.change_quarantine(device, None);
                    effects.push(Effect::Quarantine { device });
                }
            }
            // Histories begin with the scheduler, and all that they use are jobs' devices.
            Input::NodeReturned(..) | Input::InUse { .. } | Input::DeviceMoved { .. } => {}
            Input::Pause { paused, .. } => self.paused = paused,
        }
        self.pass(effects);
    }

    /// Whether a job is charged for a device.
    fn is_charged(&self, grant: &NGrant) -> bool {
        matches!(grant.hold, NHold::Held | NHold::Releasing) && self.charges(grant.device)
    }

    fn charges(&self, device: DeviceId) -> bool {
        self.quarantined.get(&device).is_none_or(|(_, charged)| *charged)
    }

    /// Changes a quarantine, and the charges of jobs from now on.
    fn change_quarantine(&mut self, device: DeviceId, to: Option<(bool, bool)>) {
        let changes = self.charges(device) != to.is_none_or(|(_, charged)| charged);
        let has = |job: &&NJob| job.grants.iter().any(|of| of.device == device && of.hold.is_hold());
        let accounts: BTreeSet<usize> =
            self.jobs.values().filter(|job| changes && has(job)).map(|job| job.account).collect();
        for account in accounts.iter().flat_map(|account| self.path(*account)).collect::<Vec<_>>() {
            self.settle(account);
        }
        match to {
            Some(to) => self.quarantined.insert(device, to),
            None => self.quarantined.remove(&device),
        };
        accounts.into_iter().for_each(|account| self.touch(account));
    }

    /// Begins a quarantine. Faults put at most a tenth of a class's devices, or one, into quarantine.
    fn quarantine(&mut self, device: DeviceId, by_administrator: bool, charged: bool, effects: &mut Vec<Effect>) {
        let charged = charged && !by_administrator && self.charges(device);
        if self.quarantined.contains_key(&device) {
            // A further fault can only end the charge.
            if by_administrator || charged != self.charges(device) {
                self.change_quarantine(device, Some((by_administrator, charged)));
                effects.push(Effect::Quarantine { device });
            }
            return;
        }
        let all: Vec<(DeviceId, usize, bool)> = self
            .places()
            .into_iter()
            .map(|at| (self.device_id(at), self.nodes[at.0].devices[at.1].class, self.nodes[at.0].devices[at.1].absent))
            .collect();
        if let Some((_, class, _)) = all.iter().find(|(known, ..)| *known == device && !by_administrator) {
            let is_faulty =
                |known: &DeviceId| self.quarantined.get(known).is_some_and(|(by_administrator, _)| !by_administrator);
            let there = all.iter().filter(|(known, of, absent)| of == class && (!absent || is_faulty(known)));
            let out = there.clone().filter(|(known, ..)| is_faulty(known)).count();
            if out + 1 > (there.count() / 10).max(1) {
                return;
            }
        }
        self.change_quarantine(device, Some((by_administrator, charged)));
        effects.push(Effect::Quarantine { device });
    }

    fn due(&self) -> Option<(Millis, u8, u64)> {
        let mut all = Vec::new();
        for (at, account) in self.accounts.iter().enumerate() {
            all.extend(account.settle_at.map(|time| (time, 0, at as u64)));
        }
        all.extend(self.reservations.values().map(|reservation| (reservation.ends, 1, reservation.id.0)));
        all.extend(self.ahead.iter().map(|id| (self.reservations[id].starts, 1, id.0)));
        for (at, target) in self.drains.keys().enumerate() {
            if self.due_drains.contains(target) {
                all.push((self.drains[target].0, 2, at as u64));
            }
        }
        for job in self.jobs.values() {
            if job.phase == NPhase::Running {
                all.push((job.ends, 3, job.id.0));
                all.extend(job.warned.map(|time| (time, 4, job.id.0)));
                all.extend(job.suspension.as_ref().map(|suspension| (suspension.answer_by, 8, job.id.0)));
            }
            if job.phase == NPhase::Waiting {
                all.extend(job.waits_until.map(|time| (time, 5, job.id.0)));
                all.extend(job.kept_until.map(|time| (time, 6, job.id.0)));
                all.extend(
                    job.reserved_start
                        .as_ref()
                        .map(|reserved_start| (reserved_start.starts.plus(RELEASE_EXPECTED_MS), 7, job.id.0)),
                );
            }
        }
        all.into_iter().filter(|due| due.0 <= self.now).min()
    }

    fn time(&mut self, effects: &mut Vec<Effect>) {
        while let Some((_, kind, id)) = self.due() {
            let job = JobId(id);
            match kind {
                0 => {
                    self.accounts[id as usize].settle_at = None;
                    self.touch(id as usize);
                }
                1 => {
                    let id = ReservationId(id);
                    if self.ahead.remove(&id) && self.reservations[&id].ends > self.now {
                        self.end_non_members(id, &ReservedDevices::All, effects);
                    } else {
                        self.unreserve(id, effects);
                    }
                }
                2 => {
                    let target = *self.drains.keys().nth(id as usize).unwrap();
                    self.due_drains.remove(&target);
                    if self.drains[&target].1 {
                        let hit = |grant: &NGrant| match target {
                            DrainTarget::Node(node) => grant.device.node == node,
                            DrainTarget::Device(device) => grant.device == device,
                        };
                        let jobs = self.jobs.values().filter(|job| job.phase == NPhase::Running);
                        let there = |job: &&NJob| job.grants.iter().any(|grant| grant.hold.is_hold() && hit(grant));
                        for job in jobs.filter(there).map(|job| job.id).collect::<Vec<_>>() {
                            self.end(job, EndCause::Drained, effects);
                        }
                    }
                }
                3 => {
                    let of = &self.jobs[&job];
                    let renewed = of.ends.plus(self.policy.quantum());
                    let stays = self.spent(of.account).is_none() && !self.wanted(of, renewed);
                    match of.ending.clone().unwrap_or(EndCause::Limit) {
                        EndCause::Spent if stays => self.move_end(job, renewed, effects),
                        cause => self.end(job, cause, effects),
                    }
                }
                4 => self.warn(job, effects),
                5 => self.finish(job, EndCause::WaitOver, effects),
                6 => self.finish(job, EndCause::Abandoned, effects),
                7 => self.reserved_start_is_due(job, effects),
                _ => self.suspension_is_due(job, effects),
            }
        }
    }

    /// Removes a reservation. Jobs that it protected end if another reservation ends jobs, and so do those that wait for it.
    fn unreserve(&mut self, id: ReservationId, effects: &mut Vec<Effect>) {
        self.ahead.remove(&id);
        if let Some(removed) = self.reservations.remove(&id) {
            self.end_non_members_of_all(&removed.devices, effects);
            self.end_unreserved(&removed.name, effects);
        }
    }

    /// Ends the jobs that wait for a reservation of a name if there is none.
    fn end_unreserved(&mut self, name: &String, effects: &mut Vec<Effect>) {
        let is_over = self.reservations.values().all(|of| of.name != *name);
        let waits = |job: &&NJob| job.phase == NPhase::Waiting && job.request.reservation.as_ref() == Some(name);
        let over: Vec<JobId> = self.jobs.values().filter(|job| is_over && waits(job)).map(|job| job.id).collect();
        for id in over {
            self.finish(id, EndCause::ReservationOver { name: name.clone() }, effects);
        }
    }

    /// Ends jobs on some devices if reservations that have begun do not admit them.
    fn end_non_members_of_all(&mut self, among: &ReservedDevices, effects: &mut Vec<Effect>) {
        let begun = self.reservations.values().filter(|of| of.starts <= self.now && self.now < of.ends);
        for id in begun.map(|of| of.id).collect::<Vec<_>>() {
            self.end_non_members(id, among, effects);
        }
    }

    /// Ends other jobs on a reservation's devices that are among some devices, if it ends jobs.
    fn end_non_members(&mut self, id: ReservationId, among: &ReservedDevices, effects: &mut Vec<Effect>) {
        let reservation = self.reservations[&id].clone();
        if !reservation.end_jobs {
            return;
        }
        let there = |job: &&NJob| {
            let held = job.grants.iter().filter(|grant| grant.hold.is_hold());
            let mut reserved =
                held.filter(|grant| Self::is_reserved(&reservation, grant.device) && among.covers(grant.device));
            let may_stay = |grant: &NGrant| {
                self.reservations.values().any(|other| {
                    let is_open = other.starts <= self.now && self.now < other.ends;
                    let is_first = is_open && Self::has_precedence(other, &reservation);
                    (other.id == id || is_first && Self::is_reserved(other, grant.device))
                        && self.is_for(other, &job.user, job.account)
                })
            };
            job.phase == NPhase::Running && reserved.any(|grant| !may_stay(grant))
        };
        for job in self.jobs.values().filter(there).map(|job| job.id).collect::<Vec<_>>() {
            self.end(job, EndCause::Reserved { name: reservation.name.clone() }, effects);
        }
    }

    fn warn(&mut self, id: JobId, effects: &mut Vec<Effect>) {
        let job = &self.jobs[&id];
        let renewed = job.ends.plus(self.policy.quantum());
        let cause = match job.limit {
            Some(_) => EndCause::Limit,
            None if self.spent(job.account).is_some() => EndCause::Spent,
            None if self.wanted(job, renewed) => EndCause::Quantum,
            None => return self.move_end(id, renewed, effects),
        };
        let job = self.jobs.get_mut(&id).unwrap();
        job.warned = None;
        job.ending = Some(cause.clone());
        job.planned_end = job.ends;
        effects.push(Effect::Warning { job: id, ends: job.ends, cause });
    }

    fn wanted(&self, job: &NJob, renewed: Millis) -> bool {
        let held = || job.grants.iter().filter(|grant| grant.hold == NHold::Held);
        let is_set_aside = |grant: &NGrant| {
            let there =
                self.reservations.values().filter(|of| of.ends > self.now && Self::is_reserved(of, grant.device));
            let (own, others): (Vec<_>, Vec<_>) = there.partition(|of| self.is_for(of, &job.user, job.account));
            let mut own: Vec<&Reservation> = own.into_iter().filter(|of| of.starts <= self.now).collect();
            own.sort_by_key(|of| (of.created, of.id));
            let reserved = others
                .into_iter()
                .any(|other| own.first().map_or(other.starts, |own| Self::preempts_at(other, own)) < renewed);
            let claims = self.jobs.values().filter_map(|job| job.reserved_start.as_ref());
            let claimed =
                claims.filter(|reserved_start| reserved_start.starts < renewed).any(|of| of.places.contains(&grant.at));
            let takes = self.beside_of(grant) != (0, 0);
            reserved
                || claimed
                || self.deadline(grant.device) < renewed
                || takes && self.is_short(grant.at.0, renewed, job.id)
        };
        if held().any(is_set_aside) {
            return true;
        }
        let mine: BTreeSet<usize> = held().map(|grant| grant.class).collect();
        if self.is_within_guarantee(job, &mine) {
            return false;
        }
        self.jobs.values().filter(|other| other.phase == NPhase::Waiting && !other.on_hold).any(|other| {
            let demand = self.first_demand(other);
            demand.keys().any(|class| mine.contains(class))
                && self.entitled(other.account, &demand)
                && self.spent(other.account).is_none()
        })
    }

    fn ask(
        &mut self,
        user: String,
        account: &str,
        origin: Option<NodeId>,
        request: Request,
        effects: &mut Vec<Effect>,
    ) {
        let origin = origin.and_then(|own| self.nodes.iter().position(|node| node.id == own));
        if request.locality == Locality::Local && origin.is_none() {
            let why = "`local` is for a program on a node of the cluster";
            return effects.push(Effect::Refused(Refusal::Malformed(why)));
        }
        let Some(at) = self.policy.accounts.iter().position(|known| known.name == account) else {
            return effects.push(Effect::Refused(Refusal::NoAccount(account.to_owned())));
        };
        if !self.is_leaf(at) {
            return effects.push(Effect::Refused(Refusal::HasAccounts(account.to_owned())));
        }
        let limit = request.limit_ms.or(self.policy.default_limit_ms);
        for above in self.path(at) {
            let described = &self.policy.accounts[above];
            let waiting = self.below(above).filter(|job| job.phase == NPhase::Waiting).count();
            if let Some(max) = described.waiting_max
                && waiting >= max as usize
            {
                let account = Some(described.name.clone());
                return effects.push(Effect::Refused(Refusal::Waiting { account, max: max as usize }));
            }
            if let Some(longest_ms) = described.longest_ms
                && limit.is_none_or(|limit| limit > longest_ms)
            {
                let account = described.name.clone();
                return effects.push(Effect::Refused(Refusal::TooLong { account, longest_ms }));
            }
        }
        if let Some(account) = self.spent(at) {
            let account = self.policy.accounts[account].name.clone();
            return effects.push(Effect::Refused(Refusal::Spent { account }));
        }
        let allowed = self.policy.accounts[at].priorities;
        if !(allowed.0..=allowed.1).contains(&request.priority) {
            return effects.push(Effect::Refused(Refusal::Priority { account: account.to_owned(), allowed }));
        }
        if let Some(name) = &request.reservation {
            let named: Vec<&Reservation> = self.reservations.values().filter(|of| of.name == *name).collect();
            if !named.iter().any(|of| self.is_for(of, &user, at)) {
                let refusal = Refusal::Reservation { name: name.clone(), is_known: !named.is_empty() };
                return effects.push(Effect::Refused(refusal));
            }
        }
        let never: Vec<_> =
            request.alternatives.iter().map(|alternative| self.never(at, &alternative.parts, &request)).collect();
        if never.iter().all(Option::is_some)
            && let Some(Some((above, devices))) = never.last()
        {
            let account = self.policy.accounts[*above].name.clone();
            return effects.push(Effect::Refused(Refusal::MoreThanMost { account, devices: *devices }));
        }
        self.last += 1;
        let id = JobId(self.last);
        let wait = [request.wait_ms, self.policy.longest_wait_ms].into_iter().flatten().min();
        self.jobs.insert(
            id,
            NJob {
                id,
                user,
                account: at,
                request,
                origin,
                submitted: self.now,
                phase: NPhase::Waiting,
                front: None,
                on_hold: false,
                waits_until: wait.map(|wait| self.now.plus(wait)),
                kept_until: None,
                limit,
                started: Millis(0),
                ends: Millis::NEVER,
                warned: None,
                ending: None,
                planned_end: Millis::NEVER,
                grants: Vec::new(),
                reserved_start: None,
                slipped: None,
                announced: None,
                suspension: None,
                went_on: None,
                stood_still: 0,
            },
        );
        self.touch(at);
        effects.push(Effect::Queued { job: id });
    }

    /// Returns the account and quota that all alternatives exceed.
    fn never(&self, account: usize, parts: &[Part], request: &Request) -> Option<(usize, u32)> {
        let ranks = if request.per_rank { request.ranks } else { 1 };
        for above in self.path(account) {
            for quota in &self.policy.accounts[above].most {
                let only = |filter: &ClassFilter| {
                    self.classes.iter().filter(|class| filter.matches(class)).all(|class| quota.class.matches(class))
                };
                let each = |part: &Part| match part.take {
                    Take::Exclusive => 1_000,
                    Take::Shared(amount) => {
                        let classes = self.classes.iter().filter(|class| part.class.matches(class));
                        classes.map(|class| charge(amount, false, class)).min().unwrap_or(amount.milli)
                    }
                };
                let counted = parts.iter().filter(|part| only(&part.class));
                let least: u32 = counted.map(|part| part.count.least * each(part)).sum();
                if least * ranks > quota.devices * 1_000 {
                    return Some((above, quota.devices));
                }
            }
        }
        None
    }

    fn finish(&mut self, id: JobId, cause: EndCause, effects: &mut Vec<Effect>) {
        match self.jobs.get(&id).map(|job| job.phase) {
            Some(NPhase::Waiting) => {
                let account = self.jobs.remove(&id).unwrap().account;
                self.head = self.head.filter(|&head| head != id);
                self.touch(account);
                effects.push(Effect::Ended { job: id, cause });
            }
            Some(NPhase::Running) => self.end(id, cause, effects),
            _ => {}
        }
    }

    fn end(&mut self, id: JobId, cause: EndCause, effects: &mut Vec<Effect>) {
        effects.push(Effect::Ended { job: id, cause });
        let job = self.jobs.get_mut(&id).unwrap();
        job.phase = NPhase::Over;
        job.planned_end = self.now.plus(RELEASE_EXPECTED_MS);
        let mut nodes = BTreeSet::new();
        job.suspension = None;
        for grant in job.grants.iter_mut().filter(|grant| matches!(grant.hold, NHold::Held | NHold::Suspended)) {
            if grant.hold == NHold::Held {
                grant.hold = NHold::Releasing;
            }
            nodes.insert(grant.device.node);
        }
        let account = job.account;
        effects.extend(nodes.into_iter().map(|node| Effect::Release { job: id, node }));
        self.forget(id);
        self.touch(account);
    }

    fn forget(&mut self, id: JobId) {
        let free = |job: &NJob| job.grants.iter().all(|grant| grant.hold == NHold::Freed);
        if self.jobs.get(&id).is_some_and(|job| job.phase == NPhase::Over && free(job)) {
            self.jobs.remove(&id);
        }
    }

    fn move_end(&mut self, id: JobId, ends: Millis, effects: &mut Vec<Effect>) {
        let warned = Millis(ends.0.saturating_sub(self.policy.grace_ms)).max(self.now);
        let job = self.jobs.get_mut(&id).unwrap();
        (job.ends, job.warned, job.ending) = (ends, Some(warned), None);
        job.planned_end = if job.limit.is_some() { ends } else { Millis::NEVER };
        effects.push(Effect::LeaseEnds { job: id, ends });
    }

    fn set_limit(&mut self, id: JobId, limit: u64, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match job.phase {
            NPhase::Waiting => {
                job.limit = Some(limit);
                job.reserved_start = None;
                let account = job.account;
                self.head = self.head.filter(|&head| head != id);
                self.touch(account);
            }
            NPhase::Running => {
                job.limit = Some(limit);
                let ends = job.started.plus(limit).plus(job.stood_still);
                match &mut job.suspension {
                    Some(suspension) => suspension.left = ends.since(suspension.since),
                    None => {
                        let ends = ends.max(self.now);
                        self.move_end(id, ends, effects);
                    }
                }
            }
            NPhase::Over => {}
        }
    }

    fn change(&mut self, id: JobId, node: NodeId, to: impl Fn(DeviceId, NHold) -> NHold) {
        let Some(job) = self.jobs.get(&id) else { return };
        let (account, mut changed) = (job.account, false);
        for at in 0..job.grants.len() {
            let grant = &self.jobs[&id].grants[at];
            if grant.device.node != node || grant.hold == NHold::Freed {
                continue;
            }
            let new = to(grant.device, grant.hold);
            if new != grant.hold {
                changed = true;
                self.path(account).into_iter().for_each(|account| self.settle(account));
                self.jobs.get_mut(&id).unwrap().grants[at].hold = new;
            }
        }
        if changed {
            self.touch(account);
        }
    }
}
