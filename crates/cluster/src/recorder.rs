//! Records the changes of an input for the state file.

use super::allocations::Allocations;
use super::node_table::NodeTable;
use super::record::{Record, Records, Step, json, keys, table};
use super::saved_nodes::{down_key, node_key, saved_down, saved_node};
use super::session_uses::Reporter;
use super::use_table::{DeviceUses, ReportKey};
use accord_scheduler::JobId;
use accord_scheduler::ledger::{LedgerChanges, Owner};
use accord_types::{DeviceId, NodeId, SessionId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The policy in a record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct PolicyRecord {
    pub(super) version: u64,
    pub(super) text: String,
}

/// An account and one of its users that has requested devices.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct UserRecord {
    pub(super) account: String,
    pub(super) user: String,
}

/// The part of a job's devices that a rank has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct RankRecord {
    pub(super) job: u64,
    pub(super) rank: u32,
    pub(super) part: u32,
}

/// The records of inputs since the last [`Recorder::take`].
#[derive(Debug, Default)]
pub(super) struct Recorder {
    /// The last value of each key. Tables whose values never repeat are left out: usage, use of devices, ended jobs and
    /// ranks.
    recorded: Records,
    policy_version: u64,
    /// The month of budgets that was last recorded.
    month: Option<u64>,
    step: Step,
}

impl Recorder {
    /// Creates a recorder that starts from the given records.
    pub(super) fn new(records: &Records, policy_version: u64) -> Self {
        let uncompared = [keys::ENDED, keys::ROWS, keys::RATES, keys::RANKS, keys::USES, keys::REPORTS, keys::JOB_USES];
        let is_compared = |key: &str| !uncompared.iter().any(|table| key.starts_with(table));
        let recorded = records.iter().filter(|(key, _)| is_compared(key));
        let recorded = recorded.map(|(key, value)| (key.clone(), value.clone())).collect();
        Self { recorded, policy_version, ..Self::default() }
    }

    /// Returns the changes since the last call.
    pub(super) fn take(&mut self) -> Step {
        std::mem::take(&mut self.step)
    }

    /// Records a value if it differs from the last one.
    fn compare(&mut self, key: String, value: Option<Vec<u8>>) {
        if self.recorded.get(&key) == value.as_ref() {
            return;
        }
        match value.clone() {
            Some(value) => self.recorded.insert(key.clone(), value),
            None => self.recorded.remove(&key),
        };
        self.record(key, value);
    }

    fn record(&mut self, key: String, value: Option<Vec<u8>>) {
        self.step.records.push(Record { key, value });
    }

    /// Records the changes of an input.
    pub(super) fn collect(&mut self, allocations: &mut Allocations, nodes: &mut NodeTable, uses: &mut DeviceUses) {
        let mut jobs = allocations.jobs.take_changed();
        let scheduler = allocations.books_mut().scheduler_mut();
        jobs.extend(scheduler.take_changed_jobs());
        let holds = scheduler.take_changed_holds();
        let (accounts, site) = (scheduler.take_changed_accounts(), scheduler.take_site_changed());
        let ledger = allocations.books_mut().ledger_mut().take_changes();
        let (users, ranks) = (std::mem::take(&mut allocations.new_users), std::mem::take(&mut allocations.new_ranks));
        let is_of_jobs = !jobs.is_empty() || !ranks.is_empty() || !holds.is_empty() || !ledger.jobs.is_empty();
        self.step.concerns_jobs |= is_of_jobs;
        let changed_nodes = nodes.take_changed();
        let is_idle = !is_of_jobs && accounts.is_empty() && changed_nodes.is_empty() && ledger.is_empty() && !site;
        for node in changed_nodes {
            self.node(nodes, node);
        }
        for user in &users {
            self.user(user);
        }
        if allocations.in_effect.version != self.policy_version {
            self.policy(allocations);
        }
        for job in &jobs {
            self.job(allocations, *job);
        }
        for (job, node) in holds.into_iter().filter(|(job, _)| !jobs.contains(job)) {
            let saved = allocations.scheduler().saved_holds(job, node);
            self.compare(format!("{}{node}", holds_of(job)), saved.map(|holds| json(&holds)));
        }
        let changed_uses = uses.take_changed();
        self.device_uses(uses, changed_uses);
        for (job, rank) in ranks {
            let part = allocations.job(job).and_then(|known| known.part_number(rank));
            self.record(rank_key(job, rank), part.map(|part| json(&RankRecord { job: job.0, rank, part })));
        }
        for account in accounts {
            self.account(allocations, &account);
        }
        for name in allocations.reservations.take_changed() {
            self.reservation(allocations, &name);
        }
        self.ledger(allocations, ledger);
        if !is_idle || self.month != Some(allocations.books().month()) {
            self.rest(allocations, site);
        }
    }

    /// Returns all records of the state.
    pub(super) fn all(allocations: &Allocations, nodes: &NodeTable, uses: &DeviceUses) -> Records {
        let mut recorder = Self::default();
        for id in allocations.jobs.keys() {
            recorder.job(allocations, *id);
        }
        for (id, job) in allocations.jobs.iter() {
            for (rank, part) in job.part_numbers() {
                recorder.record(rank_key(*id, rank), Some(json(&RankRecord { job: id.0, rank, part })));
            }
        }
        for node in nodes.values() {
            recorder.node(nodes, node.id);
        }
        for account in allocations.scheduler().account_names() {
            recorder.account(allocations, account);
        }
        recorder.device_uses(uses, uses.all());
        for record in allocations.reservations.records() {
            recorder.reservation(allocations, &record.name);
        }
        for user in &allocations.users {
            recorder.user(user);
        }
        if allocations.in_effect.version > 0 {
            recorder.policy(allocations);
        }
        recorder.ledger(allocations, allocations.books().ledger().all());
        recorder.rest(allocations, true);
        let mut records = Records::new();
        for record in recorder.step.records {
            record.apply(&mut records);
        }
        records
    }

    fn job(&mut self, allocations: &Allocations, id: JobId) {
        self.compare(format!("{}{id}", keys::JOBS), allocations.saved_job(id).map(|job| json(&job)));
        // The job's record includes all that it holds.
        let holds: Vec<String> = table(&self.recorded, &holds_of(id)).map(|(key, _)| key.to_owned()).collect();
        for key in holds {
            self.compare(key, None);
        }
    }

    fn node(&mut self, nodes: &NodeTable, id: NodeId) {
        self.compare(node_key(id), nodes.get(&id).map(saved_node));
        self.compare(down_key(id), nodes.get(&id).and_then(saved_down));
    }

    fn device_uses(&mut self, uses: &DeviceUses, (sessions, reports): (BTreeSet<SessionId>, BTreeSet<ReportKey>)) {
        for session in sessions {
            let saved = uses.saved(session);
            self.record(format!("{}{}", keys::USES, session.0), saved.map(|saved| json(&saved)));
        }
        for key in reports {
            let saved = uses.saved_report(key);
            self.record(report_key(key), saved.map(|saved| json(&saved)));
        }
    }

    fn account(&mut self, allocations: &Allocations, name: &str) {
        let saved = allocations.scheduler().saved_account(name);
        self.compare(account_key(name), saved.map(|saved| json(&saved)));
    }

    fn reservation(&mut self, allocations: &Allocations, name: &str) {
        let record = allocations.reservations.record(name).map(json);
        self.compare(format!("{}{name}", keys::RESERVATIONS), record);
    }

    fn user(&mut self, user: &(String, String)) {
        let (account, name) = user.clone();
        self.compare(user_key(user), Some(json(&UserRecord { account, user: name })));
    }

    /// Records a new policy, and removes the accounts and users that it lacks.
    fn policy(&mut self, allocations: &Allocations) {
        let in_effect = &allocations.in_effect;
        self.policy_version = in_effect.version;
        let record = PolicyRecord { version: in_effect.version, text: in_effect.policy.to_string() };
        self.compare(keys::POLICY.to_owned(), Some(json(&record)));
        self.compare(keys::START_POLICY.to_owned(), in_effect.at_start.as_ref().map(json));
        let accounts = allocations.scheduler().account_names().map(account_key);
        let kept: BTreeSet<String> = accounts.chain(allocations.users.iter().map(user_key)).collect();
        let known = [keys::ACCOUNTS, keys::USERS].into_iter().flat_map(|name| table(&self.recorded, name));
        let gone: Vec<String> =
            known.map(|(key, _)| key).filter(|key| !kept.contains(*key)).map(str::to_owned).collect();
        for key in gone {
            self.compare(key, None);
        }
    }

    fn ledger(&mut self, allocations: &Allocations, changes: LedgerChanges) {
        let ledger = allocations.books().ledger();
        for id in changes.jobs {
            self.compare(format!("{}{id}", keys::CHARGES), ledger.saved_job(id).map(|charge| json(&charge)));
        }
        for number in changes.ended {
            self.record(format!("{}{number}", keys::ENDED), ledger.saved_end(number).map(|end| json(&end)));
        }
        for job in changes.uses {
            let used = ledger.saved_use(job).map(|used| json(&used));
            self.record(format!("{}{job}", keys::JOB_USES), used);
        }
        for (day, owner) in changes.rows {
            let row = ledger.saved_row(day, &owner).map(|row| json(&row));
            self.record(format!("{}{day}/{}", keys::ROWS, owner_name(&owner)), row);
        }
        for owner in changes.rates {
            let rate = ledger.saved_rate(&owner).map(|rate| json(&rate));
            self.record(format!("{}{}", keys::RATES, owner_name(&owner)), rate);
        }
    }

    fn rest(&mut self, allocations: &Allocations, site: bool) {
        let (scheduler, books) = (allocations.scheduler(), allocations.books());
        self.compare(keys::COUNTERS.to_owned(), Some(json(&scheduler.saved_counters())));
        self.compare(keys::CLASSES.to_owned(), Some(json(&scheduler.saved_classes())));
        self.compare(keys::TOTALS.to_owned(), Some(json(&books.ledger().saved_totals())));
        self.month = Some(books.month());
        self.compare(keys::MONTH.to_owned(), Some(json(&books.month())));
        if site || !self.recorded.contains_key(keys::SITE) {
            self.compare(keys::SITE.to_owned(), Some(json(&scheduler.saved_site())));
        }
    }
}

/// Returns the prefix of the records of a job's holds.
fn holds_of(id: JobId) -> String {
    format!("{}{id}/", keys::HOLDS)
}

fn report_key((session, DeviceId { node, ordinal }, by): ReportKey) -> String {
    let by = if by == Reporter::Agent { "agent" } else { "program" };
    format!("{}{}/{}/{ordinal}/{by}", keys::REPORTS, session.0, node.0)
}

fn rank_key(id: JobId, rank: u32) -> String {
    format!("{}{id}/{rank}", keys::RANKS)
}

fn account_key(name: &str) -> String {
    format!("{}{name}", keys::ACCOUNTS)
}

fn user_key((account, user): &(String, String)) -> String {
    format!("{}{account}\0{user}", keys::USERS)
}

fn owner_name(owner: &Owner) -> String {
    format!("{}\0{}", owner.account, owner.user)
}
