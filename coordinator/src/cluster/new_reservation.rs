//! A reservation as an administrator asks for it.

/// The devices that an administrator names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReservedTarget {
    /// All of the cluster, also those that join later.
    All,
    /// Nodes by name, and single devices of nodes.
    Listed(Vec<(String, Option<u32>)>),
    /// As many as a request asks for.
    Request(String),
}

/// A reservation that is to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewReservation {
    /// Its name.
    pub name: String,
    /// The administrator who makes it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// Its devices. Those of a request are chosen by `Cluster::check_reservation`.
    pub devices: ReservedTarget,
    /// Accounts that it is for.
    pub accounts: Vec<String>,
    /// Users that it is for.
    pub users: Vec<String>,
    /// Whether other jobs that are left at its start are ended.
    pub end_jobs: bool,
    /// Its first start by the clock of `zone`: `2026-12-01T08:00`.
    pub first: String,
    /// The time zone's name: `Europe/Berlin`.
    pub zone: String,
    /// Its duration in milliseconds.
    pub lasts_ms: u64,
    /// Whether it is repeated each week at the same time of day.
    pub weekly: bool,
}
