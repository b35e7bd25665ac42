//! What outlasts the coordinator: keys and values, for a store that keeps the last value of each key.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// All values by key.
pub type Records = BTreeMap<String, Vec<u8>>;

/// One change of what is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The key: a table and a name in it.
    pub key: String,
    /// The value; none: the key is kept no longer.
    pub value: Option<Vec<u8>>,
}

impl Record {
    /// Changes what is kept.
    pub fn apply(self, records: &mut Records) {
        match self.value {
            Some(value) => drop(records.insert(self.key, value)),
            None => drop(records.remove(&self.key)),
        }
    }
}

/// The changes of one input to what is kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// The records. Effects of the same input are carried out once these are durable.
    pub records: Vec<Record>,
    /// Whether effects are about jobs, whose earlier records have to be durable, too.
    pub concerns_jobs: bool,
}

/// A value as JSON.
pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    // Plain data always has a form in JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Reads a value that [`json`] has written.
pub(super) fn read<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, String> {
    serde_json::from_slice(value).map_err(|error| format!("the value of {key} is damaged: {error}"))
}

/// Values of a table.
pub(super) fn table<'a>(records: &'a Records, table: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    let of = records.range(table.to_owned()..).take_while(move |(key, _)| key.starts_with(table));
    of.map(|(key, value)| (key.as_str(), value.as_slice()))
}

/// Reads the values of a table.
pub(super) fn read_table<T: DeserializeOwned>(records: &Records, name: &str) -> Result<Vec<T>, String> {
    table(records, name).map(|(key, value)| read(key, value)).collect()
}

/// Reads one value.
pub(super) fn read_one<T: DeserializeOwned>(records: &Records, key: &str) -> Result<Option<T>, String> {
    records.get(key).map(|value| read(key, value)).transpose()
}

/// Tables and single values.
pub(super) mod keys {
    /// Jobs whose devices are not free yet, by number.
    pub(in super::super) const JOBS: &str = "job/";
    /// Jobs' holds of a node's devices, where they differ from the jobs' records.
    pub(in super::super) const HOLDS: &str = "hold/";
    /// Charges of jobs, by number.
    pub(in super::super) const CHARGES: &str = "charge/";
    /// The parts of a job's devices that its ranks have.
    pub(in super::super) const RANKS: &str = "rank/";
    /// Usage of accounts, by name.
    pub(in super::super) const ACCOUNTS: &str = "account/";
    /// Ended jobs, by number.
    pub(in super::super) const ENDED: &str = "ended/";
    /// Usage of accounts' users, by day.
    pub(in super::super) const ROWS: &str = "used/";
    /// Present charges of accounts' users.
    pub(in super::super) const RATES: &str = "rate/";
    /// Use of devices by sessions.
    pub(in super::super) const USES: &str = "use/";
    /// Its reports.
    pub(in super::super) const REPORTS: &str = "use-report/";
    /// Use of devices by jobs that are not over.
    pub(in super::super) const JOB_USES: &str = "job-use/";
    /// Users that have asked for devices.
    pub(in super::super) const USERS: &str = "user/";
    /// Registrations of agents, by node.
    pub(in super::super) const NODES: &str = "node/";
    /// Nodes that are not up.
    pub(in super::super) const DOWN: &str = "node-down/";
    /// The policy in effect.
    pub(in super::super) const POLICY: &str = "policy";
    /// The policy that the coordinator was last started with.
    pub(in super::super) const START_POLICY: &str = "policy-at-start";
    /// Classes of devices.
    pub(in super::super) const CLASSES: &str = "classes";
    /// The scheduler's counters.
    pub(in super::super) const COUNTERS: &str = "counters";
    /// Drains, reservations, quarantine and pause.
    pub(in super::super) const SITE: &str = "site";
    /// Reservations, by name.
    pub(in super::super) const RESERVATIONS: &str = "reservation/";
    /// The ledger's counters and times.
    pub(in super::super) const TOTALS: &str = "totals";
    /// The month of monthly budgets.
    pub(in super::super) const MONTH: &str = "month";
}
