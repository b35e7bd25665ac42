//! Saves the ledger's state for a restart, and restores it.

use super::activity::JobUse;
use super::history::{EndedJob, History, Submission};
use super::usage::{Owner, UsageChanges, UsageTable};
use super::{Ledger, OpenJob};
use crate::charge::Usage;
use crate::ids::JobId;
use crate::noting::NotingMap;
use crate::saved::{SavedCharge, SavedEnd, SavedLedger, SavedRate, SavedRow, SavedTotals, SavedUse};
use crate::scheduler::Scheduler;
use crate::time::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Changed entries of a ledger. An entry that no longer exists must be removed from the saved state.
#[derive(Clone, Debug, Default)]
pub struct LedgerChanges {
    /// Jobs whose devices are not free yet.
    pub jobs: BTreeSet<JobId>,
    /// Jobs whose use of devices has changed.
    pub uses: BTreeSet<JobId>,
    /// Numbers of ended jobs.
    pub ended: BTreeSet<u64>,
    /// Days with owners.
    pub rows: BTreeSet<(u64, Owner)>,
    /// Owners that are charged.
    pub rates: BTreeSet<Owner>,
}

impl LedgerChanges {
    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { jobs, uses, ended, rows, rates } = self;
        jobs.is_empty() && uses.is_empty() && ended.is_empty() && rows.is_empty() && rates.is_empty()
    }
}

impl Ledger {
    /// Begins to note changes, for [`Self::take_changes`].
    pub fn note_changes(&mut self) {
        self.open.note_changes();
        self.uses_changed.get_or_insert_default();
        self.history.changed.get_or_insert_default();
        self.usage.changes.get_or_insert_default();
    }

    /// Returns the entries that may have changed since the last call.
    pub fn take_changes(&mut self) -> LedgerChanges {
        let UsageChanges { rows, rates } = self.usage.changes.as_mut().map(std::mem::take).unwrap_or_default();
        let ended = self.history.changed.as_mut().map(std::mem::take).unwrap_or_default();
        let jobs = self.open.take_changed();
        let mut uses = self.uses_changed.as_mut().map(std::mem::take).unwrap_or_default();
        // The record of the use by an ended job is removed.
        uses.extend(jobs.iter().filter(|job| !self.open.contains_key(job)));
        LedgerChanges { jobs, uses, ended, rows, rates }
    }

    /// Returns all entries, as if they had changed.
    #[must_use]
    pub fn all(&self) -> LedgerChanges {
        let UsageChanges { rows, rates } = self.usage.all();
        LedgerChanges {
            jobs: self.open.keys().copied().collect(),
            uses: self.open.keys().copied().collect(),
            ended: self.history.numbers().collect(),
            rows,
            rates,
        }
    }

    /// Returns the record of a job's charge.
    #[must_use]
    pub fn saved_job(&self, id: JobId) -> Option<SavedCharge> {
        let open = self.open.get(&id)?;
        Some(SavedCharge {
            account: open.submission.account.clone(),
            program: open.submission.program.clone(),
            asked_unix_ms: open.submission.asked_unix_ms,
            asked: open.asked.0,
            started: open.started.map(|(at, unix_ms)| (at.0, unix_ms)),
            devices: open.devices.clone(),
            rate: open.rate,
            settled: open.settled.0,
            used: open.used,
            events: open.events.clone(),
            ended: open.ended,
        })
    }

    /// Returns the record of a job's use of its devices; `None` if there is none.
    #[must_use]
    pub fn saved_use(&self, id: JobId) -> Option<SavedUse> {
        let did = self.open.get(&id)?.did;
        (did != JobUse::default()).then_some(SavedUse { job: id.0, did })
    }

    /// Returns the record of an ended job.
    #[must_use]
    pub fn saved_end(&self, number: u64) -> Option<SavedEnd> {
        let job = self.history.job(number)?.clone();
        let is_charged = self.open.get(&job.job).is_some_and(|open| open.ended == Some(number));
        Some(SavedEnd {
            number,
            job: job.job.0,
            user: job.submission.user,
            account: job.submission.account,
            request: job.submission.request.as_ref().into(),
            program: job.submission.program,
            asked_unix_ms: job.submission.asked_unix_ms,
            started_unix_ms: job.started_unix_ms,
            ended_unix_ms: job.ended_unix_ms,
            waited_ms: job.waited_ms,
            ran_ms: job.ran_ms,
            devices: job.devices,
            // Until its devices are free, this part is in the record of its charge.
            used: if is_charged { Usage::default() } else { job.used },
            did: job.did,
            events: job.events,
            cause: job.cause,
        })
    }

    /// Returns the record of an owner's usage on a day.
    #[must_use]
    pub fn saved_row(&self, day: u64, owner: &Owner) -> Option<SavedRow> {
        self.usage.saved_row(day, owner)
    }

    /// Returns the record of an owner's rate.
    #[must_use]
    pub fn saved_rate(&self, owner: &Owner) -> Option<SavedRate> {
        self.usage.saved_rate(owner)
    }

    /// Returns the record of counters and times.
    #[must_use]
    pub fn saved_totals(&self) -> SavedTotals {
        SavedTotals {
            begun_unix_ms: self.begun_unix_ms,
            usage_since_unix_ms: self.usage.since_unix_ms(),
            history_gone_unix_ms: self.history.gone_unix_ms(),
            last_ended: self.history.last(),
            totals: self.totals,
        }
    }

    /// Restores a ledger from records, for a restored scheduler.
    ///
    /// # Errors
    /// Returns the contradiction in the records.
    pub fn restore(saved: SavedLedger, scheduler: &Scheduler) -> Result<Self, String> {
        let uses: BTreeMap<u64, JobUse> = saved.uses.into_iter().map(|saved| (saved.job, saved.did)).collect();
        let (mut open, mut on_node) = (NotingMap::default(), BTreeMap::<_, BTreeSet<JobId>>::new());
        // Usage of ended jobs whose devices are not free yet.
        let mut used = BTreeMap::new();
        for (id, charge) in saved.jobs {
            let id = JobId(id);
            let (Some(view), Some(request)) = (scheduler.job(id), scheduler.request(id)) else {
                return Err(format!("job {id} is charged, and there is no such job"));
            };
            let nodes = scheduler.saved_job(id).map(|job| job.nodes()).unwrap_or_default();
            if let Some(number) = charge.ended {
                used.insert(number, charge.used);
            }
            for node in &nodes {
                on_node.entry(*node).or_default().insert(id);
            }
            open.insert(
                id,
                OpenJob {
                    submission: Submission {
                        user: view.user,
                        account: charge.account,
                        request: request.clone(),
                        program: charge.program,
                        asked_unix_ms: charge.asked_unix_ms,
                    },
                    asked: Millis(charge.asked),
                    started: charge.started.map(|(at, unix_ms)| (Millis(at), unix_ms)),
                    devices: charge.devices,
                    nodes,
                    rate: charge.rate,
                    settled: Millis(charge.settled),
                    used: charge.used,
                    did: uses.get(&id.0).copied().unwrap_or_default(),
                    events: charge.events,
                    ended: charge.ended,
                },
            );
        }
        let mut ended = BTreeMap::new();
        for job in saved.ended {
            let request = job.request.read().map_err(|error| format!("ended job {}: {error}", job.job))?;
            ended.insert(
                job.number,
                EndedJob {
                    number: job.number,
                    job: JobId(job.job),
                    submission: Submission {
                        user: job.user,
                        account: job.account,
                        request: Arc::new(request),
                        program: job.program,
                        asked_unix_ms: job.asked_unix_ms,
                    },
                    started_unix_ms: job.started_unix_ms,
                    ended_unix_ms: job.ended_unix_ms,
                    waited_ms: job.waited_ms,
                    ran_ms: job.ran_ms,
                    devices: job.devices,
                    used: used.get(&job.number).copied().unwrap_or(job.used),
                    did: job.did,
                    events: job.events,
                    cause: job.cause,
                },
            );
        }
        let totals = saved.totals;
        Ok(Self {
            open,
            uses_changed: None,
            on_node,
            usage: UsageTable::restore(totals.usage_since_unix_ms, saved.rows, saved.rates),
            history: History::restore(ended, totals.last_ended, totals.history_gone_unix_ms),
            begun_unix_ms: totals.begun_unix_ms,
            totals: totals.totals,
        })
    }
}
