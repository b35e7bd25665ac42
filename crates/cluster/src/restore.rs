//! Restores a cluster from an earlier coordinator's records, as if all agents and programs had just disconnected.

use super::allocations::Allocations;
use super::described::description;
use super::job::{Keeper, Stage};
use super::keepers::BACK_MS;
use super::record::{Records, keys, read_one, read_table, table};
use super::recorder::{PolicyRecord, RankRecord, Recorder, UserRecord};
use super::reservation_table::ReservationTable;
use super::saved_job::read_jobs;
use super::saved_nodes::restored_nodes;
use super::scheduling_state::SchedulingState;
use super::state::{Cluster, Limits};
use super::time::Millis;
use accord_scheduler::ledger::{Clock, Ledger};
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::saved::{SavedLedger, SavedScheduler};
use accord_scheduler::{Input, JobId, Scheduler};
use std::collections::BTreeMap;

/// The time and epoch with which a cluster continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restart {
    /// The time now. It continues from the end of the earlier coordinator, plus the time since then.
    pub now: Millis,
    /// The time of the earlier coordinator's last commit.
    pub committed: Millis,
    /// The wall clock now.
    pub unix_ms: u64,
    /// The number of coordinators that have used this state, including this one, or more.
    pub epoch: u64,
}

impl Cluster {
    /// Creates a cluster from records, and records its changes. Without records it is empty.
    ///
    /// # Errors
    /// Returns which record is damaged, or the contradiction.
    pub fn restore(limits: Limits, records: &Records, restart: Restart) -> Result<Self, String> {
        let Restart { now, committed, unix_ms, epoch } = restart;
        let mut cluster = Self::new(limits, unix_ms.saturating_sub(now.0));
        cluster.file_epoch = epoch;
        cluster.epoch = (epoch & Self::EPOCH_MASK) << Self::SESSION_BITS;
        (cluster.began, cluster.ticked) = (now, now);
        cluster.allocations.now = now;
        cluster.allocations.set_clock(now, unix_ms);
        if !records.is_empty() {
            cluster.restore_policy(records)?;
            for node in restored_nodes(records, now)? {
                cluster.nodes.insert(node);
            }
            cluster.restore_jobs(records, Clock { now: accord_scheduler::Millis(now.0), unix_ms })?;
        }
        cluster.allocations.reservations = ReservationTable::restore(read_table(records, keys::RESERVATIONS)?)?;
        cluster.allocations.plan_reservations();
        cluster.device_uses.restore(read_table(records, keys::USES)?, read_table(records, keys::REPORTS)?);
        cluster.hold_earlier_uses();
        cluster.allocations.note_changes();
        cluster.recorder = Some(Recorder::new(records, cluster.allocations.in_effect.version));
        if !records.is_empty() {
            cluster.allocations.without_connections(committed);
            cluster.restore_tests(now);
            // No agent or program is connected, so the effects have no recipient.
            cluster.schedule(now, &mut Vec::new());
        }
        cluster.record();
        Ok(cluster)
    }

    fn restore_policy(&mut self, records: &Records) -> Result<(), String> {
        let in_effect = &mut self.allocations.in_effect;
        if let Some(PolicyRecord { version, text }) = read_one(records, keys::POLICY)? {
            let wrong = |findings: Vec<_>| format!("the policy is damaged: {} findings", findings.len());
            in_effect.policy = SitePolicy::read(&text, None).map_err(wrong)?;
            in_effect.version = version;
            let policy = in_effect.policy.clone();
            self.set_limits(&policy);
        }
        self.allocations.in_effect.at_start = read_one(records, keys::START_POLICY)?;
        let users = read_table(records, keys::USERS)?.into_iter();
        self.allocations.users = users.map(|UserRecord { account, user }| (account, user)).collect();
        Ok(())
    }

    fn restore_jobs(&mut self, records: &Records, clock: Clock) -> Result<(), String> {
        let jobs = read_jobs(records)?;
        let mut accounts = BTreeMap::new();
        for (key, value) in table(records, keys::ACCOUNTS) {
            let name = key.strip_prefix(keys::ACCOUNTS).unwrap_or(key).to_owned();
            accounts.insert(name, super::record::read(key, value)?);
        }
        let saved = SavedScheduler {
            classes: read_one(records, keys::CLASSES)?.unwrap_or_default(),
            accounts,
            jobs: jobs.iter().map(|job| job.scheduler.clone()).collect(),
            counters: read_one(records, keys::COUNTERS)?.unwrap_or_default(),
            site: read_one(records, keys::SITE)?.unwrap_or_default(),
        };
        let nodes: Vec<_> = self.nodes.values().map(|node| (description(node), node.is_up())).collect();
        let scheduler = Scheduler::restore(clock.now, self.allocations.tree(), &nodes, saved)?;
        let mut charges = BTreeMap::new();
        for (key, value) in table(records, keys::CHARGES) {
            let number = key.strip_prefix(keys::CHARGES).and_then(|number| number.parse().ok());
            charges.insert(number.ok_or_else(|| format!("{key} names no job"))?, super::record::read(key, value)?);
        }
        let ledger = SavedLedger {
            jobs: charges,
            uses: read_table(records, keys::JOB_USES)?,
            ended: read_table(records, keys::ENDED)?,
            rows: read_table(records, keys::ROWS)?,
            rates: read_table(records, keys::RATES)?,
            totals: read_one(records, keys::TOTALS)?.unwrap_or_default(),
        };
        let ledger = Ledger::restore(ledger, &scheduler)?;
        let month = read_one(records, keys::MONTH)?.unwrap_or_default();
        self.allocations.restore_books(SchedulingState::restored(scheduler, ledger, clock, month));
        for job in jobs {
            self.allocations.restore_job(&job.scheduler, job.allocation);
        }
        for RankRecord { job, rank, part } in read_table(records, keys::RANKS)? {
            if let Some(job) = self.allocations.jobs.get_mut(&JobId(job)) {
                job.restore_part(rank, part);
            }
        }
        Ok(())
    }
}

impl Allocations {
    /// Begins to note changes.
    fn note_changes(&mut self) {
        self.jobs.note_changes();
        let books = self.books_mut();
        books.scheduler_mut().note_changes();
        books.ledger_mut().note_changes();
    }

    /// Keeps the places of waiting requests, and the jobs of commands and programs, until their connections should be
    /// back. A job's sessions have [`BACK_MS`] to be named by agents and programs, even if jobs linger for less.
    fn without_connections(&mut self, committed: Millis) {
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in jobs {
            let Some(job) = self.jobs.get_mut_unnoted(&id) else { continue };
            job.seen = Some(committed);
            match (&job.stage, job.keeper) {
                (Stage::Waiting, _) => self.push(Input::Connected { job: id, connected: false }),
                (Stage::Running(_), Keeper::Command(_)) => self.check_keeper(id, BACK_MS),
                (Stage::Running(_), Keeper::Sessions) => {
                    self.check_keeper(id, self.linger_ms().max(BACK_MS));
                }
                (Stage::Ended, _) => {}
            }
            self.use_begins(id);
        }
    }
}
