//! Saves the scheduler's state for a restart, and restores it.

use super::quarantine::charges;
use super::{Drain, Quarantine, Scheduler, Timer};
use crate::accounts::Accounts;
use crate::amount::Amount;
use crate::ids::{ClassId, JobId, ReservationId};
use crate::input::{Members, Reservation};
use crate::job::{Grant, Job};
use crate::node::NodeDescription;
use crate::phase::{Hold, Phase};
use crate::policy::Policy;
use crate::pool::{Holder, HostResources};
use crate::saved::{
    SavedAccount, SavedClass, SavedCounters, SavedDrain, SavedGrant, SavedHolds, SavedJob, SavedQuarantine,
    SavedReservation, SavedScheduler, SavedSite, SavedTarget,
};
use crate::suspension::SuspensionStage;
use crate::time::Millis;
use accord_types::{DeviceId, NodeId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Scheduler {
    /// Begins to note changes, for [`Self::take_changed_jobs`] and its siblings.
    pub fn note_changes(&mut self) {
        self.jobs.note_changes();
        self.changed_holds.get_or_insert_default();
        self.accounts.note_changes();
    }

    /// Stops noting changes, because this is a copy that is not saved.
    pub(crate) fn forget_changes(&mut self) {
        self.jobs.forget_changes();
        self.changed_holds = None;
        self.accounts.forget_changes();
    }

    /// Returns the jobs that may have changed since the last call.
    pub fn take_changed_jobs(&mut self) -> BTreeSet<JobId> {
        self.jobs.take_changed()
    }

    /// Returns the jobs and nodes for which [`Self::saved_holds`] may have changed since the last call, besides
    /// [`Self::take_changed_jobs`].
    pub fn take_changed_holds(&mut self) -> BTreeSet<(JobId, NodeId)> {
        self.changed_holds.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the record of a job's holds on a node's devices. [`SavedJob::apply`] merges it into the job's record.
    #[must_use]
    pub fn saved_holds(&self, id: JobId, node: NodeId) -> Option<SavedHolds> {
        let grants = self.jobs.get(&id)?.grants.iter().filter(|grant| grant.device.node == node);
        Some(SavedHolds {
            job: id.0,
            node: node.0,
            holds: grants.map(|grant| (grant.device.ordinal, grant.hold)).collect(),
        })
    }

    /// Returns the names of the accounts whose usage has changed since the last call.
    pub fn take_changed_accounts(&mut self) -> Vec<String> {
        let changed = self.accounts.take_changed();
        changed.into_iter().filter_map(|at| Some(self.policy.accounts.get(at as usize)?.name.clone())).collect()
    }

    /// Whether [`Self::saved_site`] has changed since the last call.
    pub fn take_site_changed(&mut self) -> bool {
        std::mem::take(&mut self.site_changed)
    }

    /// Returns the record of a job.
    #[must_use]
    pub fn saved_job(&self, id: JobId) -> Option<SavedJob> {
        let job = self.jobs.get(&id)?;
        let grants = job.grants.iter().map(|grant| SavedGrant {
            device: grant.device.into(),
            class: grant.class.0,
            share: grant.amount.milli,
            memory: grant.amount.memory,
            exclusive: grant.exclusive,
            milli: grant.milli,
            charged: grant.charged,
            cores: grant.cores,
            host_memory: grant.host_memory,
            hold: grant.hold,
        });
        Some(SavedJob {
            id: id.0,
            user: job.user.clone(),
            account: self.policy.accounts.get(job.account as usize)?.name.clone(),
            request: job.request.as_ref().into(),
            origin: job.origin.map(|at| self.pool.node(at).id.0),
            submitted: job.submitted.0,
            phase: job.phase,
            front: job.front,
            on_hold: job.on_hold,
            waits_until: job.waits_until.map(|until| until.0),
            limit_ms: job.limit_ms,
            started: job.started.0,
            ends: job.ends.0,
            warned: job.warned.0,
            ending: job.ending.clone(),
            planned_end: job.planned_end.0,
            grants: grants.collect(),
            reserved_start: job
                .reserved_start
                .as_ref()
                .and_then(|reserved_start| self.saved_reserved_start(job, reserved_start)),
            suspension: job.suspension.as_ref().map(Into::into),
            stood_still_ms: job.stood_still_ms,
            went_on: job.went_on.map(|at| at.0),
        })
    }

    /// Returns the numbers of all jobs.
    pub fn job_ids(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }

    /// Returns the names of all accounts.
    pub fn account_names(&self) -> impl Iterator<Item = &str> {
        self.policy.accounts.iter().map(|account| account.name.as_str())
    }

    /// Returns the record of an account's usage; `None` without usage, or if the account does not exist.
    #[must_use]
    pub fn saved_account(&self, name: &str) -> Option<SavedAccount> {
        let saved = self.accounts.saved(self.accounts.named(name)?);
        (saved != SavedAccount::default()).then_some(saved)
    }

    /// Returns the records of the device classes.
    #[must_use]
    pub fn saved_classes(&self) -> Vec<SavedClass> {
        self.pool.classes.iter().map(SavedClass::from).collect()
    }

    /// Returns the record of the counters.
    #[must_use]
    pub fn saved_counters(&self) -> SavedCounters {
        SavedCounters { last_job: self.last_job, last_front: self.last_front }
    }

    /// Returns the record of drains, reservations, quarantine and pause.
    #[must_use]
    pub fn saved_site(&self) -> SavedSite {
        let drains = self.drains.iter().map(|(target, drain)| {
            let SavedTarget { node, ordinal } = (*target).into();
            SavedDrain { node, ordinal, by_time: drain.by_time.0, end: drain.end, reason: drain.reason.clone() }
        });
        let reservations = self.reservations.values().map(|(reservation, _)| SavedReservation {
            id: reservation.id.0,
            name: reservation.name.clone(),
            devices: (&reservation.devices).into(),
            starts: reservation.starts.0,
            ends: reservation.ends.0,
            created: reservation.created,
            accounts: reservation.members.accounts.clone(),
            users: reservation.members.users.clone(),
            end_jobs: reservation.end_jobs,
        });
        let saved = |device: DeviceId, quarantine: &Quarantine| {
            let Quarantine { reason, since, by, charged, uuid } = quarantine.clone();
            SavedQuarantine { device: device.into(), reason, since: since.0, by, charged, uuid }
        };
        let quarantined = self.quarantined.iter().map(|(device, quarantine)| saved(*device, quarantine));
        let away = self.away.values().map(|(device, quarantine)| saved(*device, quarantine));
        SavedSite {
            paused: self.paused,
            drains: drains.collect(),
            reservations: reservations.collect(),
            quarantined: quarantined.collect(),
            away: away.collect(),
        }
    }

    /// Restores a scheduler from records. `nodes` are the known nodes, each with whether it was up.
    ///
    /// # Errors
    /// Returns the contradiction in the records.
    pub fn restore(
        now: Millis,
        policy: Policy,
        nodes: &[(NodeDescription, bool)],
        saved: SavedScheduler,
    ) -> Result<Self, String> {
        let mut scheduler = Self::new(policy);
        scheduler.now = now;
        for class in &saved.classes {
            scheduler.pool.class(&class.read()?);
        }
        scheduler.shapes.note_classes(&scheduler.pool.classes);
        let installed = scheduler.pool.installed();
        scheduler.accounts = Accounts::new(&scheduler.policy);
        scheduler.accounts.set_classes(&scheduler.policy, &scheduler.pool.classes, installed);
        scheduler.restore_site(saved.site);
        for (node, is_up) in nodes {
            scheduler.node_joined(node, &mut Vec::new());
            if let Some(at) = scheduler.pool.node_at(node.id).filter(|_| !is_up) {
                scheduler.pool.set_up(now, at, false);
            }
        }
        for (name, account) in saved.accounts {
            if let Some(at) = scheduler.accounts.named(&name) {
                scheduler.accounts.restore(at, account);
            }
        }
        SavedCounters { last_job: scheduler.last_job, last_front: scheduler.last_front } = saved.counters;
        // Accounts are charged for all that they hold before any of them is settled.
        let (mut waiting, others): (Vec<_>, Vec<_>) =
            saved.jobs.into_iter().partition(|job| job.phase == Phase::Waiting);
        let reserved_starts = waiting.iter_mut().filter_map(|job| Some((job.id(), job.reserved_start.take()?)));
        let reserved_starts: Vec<_> = reserved_starts.collect();
        for job in others {
            scheduler.restore_started(job)?;
        }
        for job in waiting {
            scheduler.restore_waiting(job)?;
        }
        for leaf in scheduler.accounts.leaves() {
            scheduler.touch(leaf);
        }
        // An earlier release saved none.
        scheduler.replans = reserved_starts.is_empty();
        for (id, reserved_start) in reserved_starts {
            scheduler.restore_reserved_start(id, reserved_start);
        }
        Ok(scheduler)
    }

    fn restore_site(&mut self, saved: SavedSite) {
        let mut effects = Vec::new();
        self.paused = saved.paused;
        for drain in saved.drains {
            let target = drain.target();
            let drain = Drain { by_time: Millis(drain.by_time), end: drain.end, reason: drain.reason };
            self.drain(target, drain, "", &mut effects);
        }
        let reservations = saved.reservations.len();
        for saved in saved.reservations {
            let reservation = Reservation {
                id: ReservationId(saved.id),
                name: saved.name,
                devices: saved.devices.into(),
                starts: Millis(saved.starts),
                ends: Millis(saved.ends),
                created: saved.created,
                members: Members { accounts: saved.accounts, users: saved.users },
                end_jobs: saved.end_jobs,
            };
            if reservation.end_jobs {
                // Jobs are not restored yet. If the reservation has begun meanwhile, the next input ends other jobs.
                self.timers.insert((reservation.starts.max(self.now), Timer::Window(reservation.id)));
            }
            self.reserve(reservation, &mut effects);
        }
        let read = |saved: SavedQuarantine| {
            let SavedQuarantine { device, reason, since, by, charged, uuid } = saved;
            (DeviceId::from(device), Quarantine { reason, since: Millis(since), by, charged, uuid })
        };
        self.quarantined = saved.quarantined.into_iter().map(read).collect();
        self.away = saved.away.into_iter().map(|saved| (saved.uuid.clone(), read(saved))).collect();
        // Those that were over meanwhile are gone.
        self.site_changed = self.reservations.len() < reservations;
    }

    fn restore_waiting(&mut self, saved: SavedJob) -> Result<(), String> {
        let job = self.restored(saved)?;
        if !self.accounts.get(job.account).is_leaf {
            let account = &self.policy.accounts[job.account as usize].name;
            return Err(format!("job {} waits, and its account {account} has accounts below it", job.id));
        }
        let (id, account, on_hold) = (job.id, job.account, job.on_hold);
        if let Some(until) = job.waits_until {
            self.timers.insert((until, Timer::Wait(id)));
        }
        self.jobs.insert(id, job);
        self.waiting += 1;
        self.accounts.count(account, 0, 1);
        if !on_hold {
            self.enqueue(id);
        }
        Ok(())
    }

    fn restore_started(&mut self, saved: SavedJob) -> Result<(), String> {
        let grants = saved.grants.clone();
        let mut job = self.restored(saved)?;
        self.shapes.leave(job.shape);
        job.long = job.is_long(self.policy.quantum());
        let mut nodes = BTreeSet::new();
        for saved in grants {
            let (class, device) = (ClassId(saved.class), saved.device.into());
            if class.index() >= self.pool.classes.len() {
                return Err(format!("job {} has a device of class {}, which there is not", job.id, saved.class));
            }
            let Some(spot) = self.pool.spot(device) else {
                match saved.hold {
                    Hold::Freed => continue,
                    _ => return Err(format!("job {} has {device}, which there is not", job.id)),
                }
            };
            let (amount, exclusive) = (Amount { milli: saved.share, memory: saved.memory }, saved.exclusive);
            if saved.hold.is_hold() {
                let host_resources = HostResources { memory: saved.host_memory, cores: saved.cores };
                let (long, ends) = (job.long, job.planned_end);
                self.pool.hold(spot, Holder { job: job.id, amount, exclusive, long, ends, host_resources });
                nodes.insert(spot.node);
            }
            let grant = Grant {
                device,
                spot,
                class,
                amount,
                exclusive,
                milli: saved.milli,
                charged: saved.charged.max(saved.milli),
                cores: saved.cores,
                host_memory: saved.host_memory,
                hold: saved.hold,
            };
            if matches!(saved.hold, Hold::Held | Hold::Releasing) && charges(&self.quarantined, device) {
                self.accounts.restore_hold(job.account, grant.holding(job.long));
            }
            job.grants.push(grant);
        }
        match job.planned_end {
            Millis::NEVER => self.endless.insert(job.id),
            end => self.ends.insert((end, job.id)),
        };
        if job.phase == Phase::Running {
            self.accounts.count(job.account, 1, 0);
            if let Some(suspension) = &mut job.suspension {
                suspension.answer_by = self.now.plus(super::suspending::ANSWER_MS);
                self.timers.insert((suspension.answer_by, Timer::Suspension(job.id)));
            }
            if job.suspension.is_none() {
                self.timers.insert((job.ends, Timer::Lease(job.id)));
            }
            if job.suspension.is_none() && job.ending.is_none() {
                self.timers.insert((job.warned, Timer::Warn(job.id)));
            }
        }
        let id = job.id;
        if job.grants.iter().any(|grant| grant.hold == Hold::Suspended) {
            self.without_devices.insert(id);
        }
        if job.suspension.as_ref().is_some_and(|suspension| suspension.stage == SuspensionStage::Waiting) {
            self.resuming.insert(id);
        }
        if job.suspension.as_ref().is_some_and(|suspension| suspension.cause.preempted_by().is_some()) {
            self.preempted.insert(id);
        }
        self.jobs.insert(id, job);
        for node in nodes {
            self.pool.refresh(self.now, node);
        }
        self.mark_awaited(id);
        Ok(())
    }

    /// Returns a job from its record, without devices and outside of any queue.
    fn restored(&mut self, saved: SavedJob) -> Result<Job, String> {
        let id = JobId(saved.id);
        let account = self.accounts.named(&saved.account);
        let account = account.ok_or_else(|| format!("job {id} is of account {}, which there is not", saved.account))?;
        let request = saved.request.read().map_err(|error| format!("job {id}: {error}"))?;
        let origin = saved.origin.and_then(|own| self.pool.node_at(NodeId(own)));
        let key = self.shape_key(account, origin, &request, saved.limit_ms);
        let submitted = Millis(saved.submitted);
        Ok(Job {
            id,
            user: saved.user,
            account,
            shape: self.shapes.of(&key, &self.pool),
            origin,
            submitted,
            phase: saved.phase,
            turn: self.accounts.turn(id, submitted, request.priority),
            request: Arc::new(request),
            front: saved.front,
            on_hold: saved.on_hold,
            waits_until: saved.waits_until.map(Millis),
            kept_until: None,
            limit_ms: saved.limit_ms,
            started: Millis(saved.started),
            ends: Millis(saved.ends),
            warned: Millis(saved.warned),
            ending: saved.ending,
            grants: Vec::new(),
            paths: None,
            beyond_guarantees: Vec::new(),
            reserved_start: None,
            slipped: None,
            unplanned: [None; 3],
            announced: None,
            long: false,
            planned_end: Millis(saved.planned_end),
            sessions: 0,
            suspension: saved.suspension.map(Into::into),
            suspension_refused: None,
            stood_still_ms: saved.stood_still_ms,
            went_on: saved.went_on.map(Millis),
        })
    }
}
