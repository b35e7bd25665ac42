//! The records of the state file: keys, each with its last value.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// All values by key.
pub type Records = BTreeMap<String, Vec<u8>>;

/// A change of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The key: a table and a name in it.
    pub key: String,
    /// The new value; `None` removes the key.
    pub value: Option<Vec<u8>>,
}

impl Record {
    /// Applies the change.
    pub fn apply(self, records: &mut Records) {
        match self.value {
            Some(value) => drop(records.insert(self.key, value)),
            None => drop(records.remove(&self.key)),
        }
    }
}

/// The changes of the records by one input.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// The records. Effects of the same input are carried out once the records are durable.
    pub records: Vec<Record>,
    /// Whether effects concern jobs, so that earlier records of jobs must be durable as well.
    pub concerns_jobs: bool,
}

/// Returns a value as JSON.
pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    // Plain data can always be written as JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Reads a value that [`json`] has written.
pub(super) fn read<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, String> {
    serde_json::from_slice(value).map_err(|error| format!("the value of {key} is damaged: {error}"))
}

/// Returns the values of a table.
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

/// Tables and single keys.
pub(super) mod keys {
    /// Jobs whose devices are not free yet, by number.
    pub(in super::super) const JOBS: &str = "job/";
    /// Jobs' holds of a node's devices, where they differ from the jobs' records.
    pub(in super::super) const HOLDS: &str = "hold/";
    /// Charges of jobs, by number.
    pub(in super::super) const CHARGES: &str = "charge/";
    /// The parts of jobs' devices that ranks have.
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
    /// Reports on the use of devices by sessions.
    pub(in super::super) const REPORTS: &str = "use-report/";
    /// Use of devices by open jobs.
    pub(in super::super) const JOB_USES: &str = "job-use/";
    /// Users that have requested devices.
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
