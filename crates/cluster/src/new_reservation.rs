//! A reservation as requested by an administrator.

/// The devices that an administrator names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReservedTarget {
    /// All devices of the cluster, also of nodes that register later.
    All,
    /// Nodes by name, and single devices of nodes.
    Listed(Vec<(String, Option<u32>)>),
    /// As many devices as a request asks for.
    Request(String),
}

/// A reservation that is to be created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewReservation {
    /// Its name.
    pub name: String,
    /// The administrator who creates it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// Its devices. `Cluster::check_reservation` chooses those of a request.
    pub devices: ReservedTarget,
    /// Accounts that may use it.
    pub accounts: Vec<String>,
    /// Users that may use it.
    pub users: Vec<String>,
    /// Whether other jobs are ended at its start.
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
