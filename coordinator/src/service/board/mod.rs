//! Boards: nodes, devices, users and jobs at one moment, for Cluster.Watch. At most about one board a second is made,
//! only while there are watchers, which share it.

mod boards;
mod job_facts;
mod lines;
mod observe;
mod tables;
#[cfg(test)]
mod tests;
mod watcher;

pub(super) use boards::Boards;
pub(super) use tables::Visibility;
pub(super) use watcher::Watcher;

use accord_proto::v1;
use accord_scheduler::policy::OthersJobs;
use accord_scheduler::{JobId, Phase, WaitingPlace};
use accord_types::{DeviceLoad, NodeId};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The cluster at one moment. All times are wall clock times.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) unix_ms: u64,
    started_unix_ms: u64,
    paused: bool,
    pub(super) others_jobs: OthersJobs,
    users: Vec<UserSeen>,
    by_name: HashMap<String, u32>,
    nodes: Vec<NodeSeen>,
    devices: Vec<DeviceSeen>,
    sessions: Vec<SessionSeen>,
    /// Jobs in the order of the queue.
    jobs: Vec<JobSeen>,
    /// Indices of nodes in the order of their names.
    by_node_name: Arc<Vec<u32>>,
    orders: Orders,
}

/// Indices of rows in each requested order, computed on first use.
#[derive(Debug, Default)]
struct Orders {
    devices: [OnceLock<Vec<u32>>; 3],
    nodes: [OnceLock<Vec<u32>>; 2],
    jobs: [OnceLock<Vec<u32>>; 3],
}

#[derive(Debug, Default)]
struct UserSeen {
    name: String,
    running: u32,
    waiting: u32,
    sessions: u32,
    devices: u32,
    /// Number of devices whose utilization is known, and its sum in percent.
    known: u32,
    percent: u32,
    unknown: u32,
    idle: u32,
    held: u64,
}

#[derive(Debug)]
struct NodeSeen {
    id: NodeId,
    name: String,
    state: v1::NodeState,
    reason: String,
    heard_unix_ms: u64,
    /// Indices of its devices.
    devices: Range<u32>,
    sessions: u32,
}

#[derive(Debug)]
struct DeviceSeen {
    node: u32,
    ordinal: u32,
    name: String,
    memory: u64,
    condition: v1::DeviceCondition,
    reason: String,
    activity: DeviceActivity,
    /// Its quarantine, unless it is lost.
    quarantine: Option<QuarantineSeen>,
    uses: Vec<UseSeen>,
    /// Indices of the jobs that hold it.
    jobs: Vec<u32>,
    /// Users of its jobs and sessions, without duplicates.
    users: Vec<u32>,
}

/// The use of a device by all programs.
#[derive(Debug)]
struct DeviceActivity {
    /// Bytes of its memory that are in use.
    held: u64,
    /// Utilization; `None` if it is unknown.
    percent: Option<u32>,
    /// The load by all programs of the machine, where its agent knows it.
    load: DeviceLoad,
    /// Whether programs outside of Accord use it.
    by_others: bool,
    /// Set if a single job holds the device and leaves it idle.
    idle_since_unix_ms: Option<u64>,
}

/// The quarantine of a device.
#[derive(Debug)]
struct QuarantineSeen {
    since_unix_ms: u64,
    /// Whether jobs that hold the device are charged for it.
    is_charged: bool,
}

/// The use of a device by a session.
#[derive(Debug)]
struct UseSeen {
    session: u32,
    percent: Option<u32>,
    held: u64,
    idle_since_unix_ms: u64,
}

#[derive(Debug)]
struct SessionSeen {
    user: u32,
    job: Option<JobId>,
    program: String,
}

#[derive(Debug)]
struct JobSeen {
    id: JobId,
    user: u32,
    phase: Phase,
    /// Its place in the queue, if it waits and is not on hold.
    place: Option<WaitingPlace>,
    is_exclusive: bool,
    /// Time of its start, if it is known.
    started_unix_ms: Option<u64>,
    /// Time of the last use of its devices.
    active_unix_ms: u64,
    devices: Vec<u32>,
    /// The job's message, computed once a watcher has the job among its rows.
    words: OnceLock<v1::Job>,
}

impl JobSeen {
    fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting
    }
}

impl DeviceSeen {
    fn is_out(&self) -> bool {
        use v1::DeviceCondition::{Drained, Lost, Quarantined};
        matches!(self.condition, Drained | Lost | Quarantined)
    }
}

impl Board {
    /// Returns the number of a user.
    fn user(&mut self, name: &str) -> u32 {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let number = index(self.users.len());
        self.users.push(UserSeen { name: name.to_owned(), ..UserSeen::default() });
        self.by_name.insert(name.to_owned(), number);
        number
    }
}

/// Converts an index of a list, which has fewer than 2^32 items.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
