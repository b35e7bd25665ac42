//! The saved state of the scheduler and its ledger, as plain data. Times are those of the scheduler's clock, which
//! continues after a restart.

use crate::charge::{Rate, Usage};
use crate::class::DeviceClass;
use crate::effect::{DevicesOnNode, EndCause};
use crate::ids::JobId;
use crate::input::{DrainTarget, ReservedDevices};
use crate::ledger::{Activity, JobEvent, JobUse, Totals};
use crate::request::Request;
use crate::suspension::SavedSuspension;
use accord_types::{DeviceId, DeviceType, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A request: its text, and the number of ranks from the program's launcher.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedRequest {
    text: String,
    ranks: u32,
}

impl From<&Request> for SavedRequest {
    fn from(request: &Request) -> Self {
        Self { text: request.to_string(), ranks: request.ranks }
    }
}

impl SavedRequest {
    /// Reads the request.
    ///
    /// # Errors
    /// Returns what is wrong with the text.
    pub fn read(&self) -> Result<Request, String> {
        let request: Request = self.text.parse().map_err(|error| format!("the request {:?}: {error}", self.text))?;
        Ok(Request { ranks: self.ranks, ..request })
    }
}

/// A device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct SavedDevice {
    node: u32,
    ordinal: u32,
}

impl From<DeviceId> for SavedDevice {
    fn from(device: DeviceId) -> Self {
        Self { node: device.node.0, ordinal: device.ordinal }
    }
}

impl From<SavedDevice> for DeviceId {
    fn from(device: SavedDevice) -> Self {
        Self { node: NodeId(device.node), ordinal: device.ordinal }
    }
}

/// A class of devices.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedClass {
    kind: i32,
    model: String,
    memory: u64,
    #[serde(default)]
    context: u64,
    compute: (u16, u16),
}

impl From<&DeviceClass> for SavedClass {
    fn from(class: &DeviceClass) -> Self {
        let DeviceClass { kind, model, memory, context, compute } = class.clone();
        Self { kind: kind as i32, model, memory, context, compute }
    }
}

impl SavedClass {
    pub(crate) fn read(&self) -> Result<DeviceClass, String> {
        let kind = DeviceType::from_raw(self.kind).ok_or_else(|| format!("there is no device type {}", self.kind))?;
        let (memory, context, compute) = (self.memory, self.context, self.compute);
        Ok(DeviceClass { kind, model: self.model.clone(), memory, context, compute })
    }
}

/// A device of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct SavedGrant {
    pub(crate) device: SavedDevice,
    pub(crate) class: u16,
    pub(crate) share: u32,
    pub(crate) memory: u64,
    pub(crate) exclusive: bool,
    pub(crate) milli: u64,
    /// 0 in files of releases that charged no cores.
    #[serde(default)]
    pub(crate) charged: u64,
    pub(crate) cores: u64,
    pub(crate) host_memory: u64,
    pub(crate) hold: crate::phase::Hold,
}

/// The reserved start of a waiting job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct SavedReservedStart {
    pub(crate) starts: u64,
    pub(crate) planned: u64,
    pub(crate) rank: crate::phase::Rank,
    /// The position among the request's choices of classes.
    pub(crate) choice: usize,
    /// The devices, by node.
    pub(crate) devices: BTreeMap<u32, Vec<u32>>,
}

/// A job of the scheduler.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedJob {
    pub(crate) id: u64,
    pub(crate) user: String,
    pub(crate) account: String,
    pub(crate) request: SavedRequest,
    pub(crate) origin: Option<u32>,
    pub(crate) submitted: u64,
    pub(crate) phase: crate::phase::Phase,
    pub(crate) front: Option<u64>,
    pub(crate) on_hold: bool,
    pub(crate) waits_until: Option<u64>,
    pub(crate) limit_ms: Option<u64>,
    pub(crate) started: u64,
    pub(crate) ends: u64,
    pub(crate) warned: u64,
    pub(crate) ending: Option<EndCause>,
    pub(crate) planned_end: u64,
    pub(crate) grants: Vec<SavedGrant>,
    #[serde(default)]
    pub(crate) reserved_start: Option<SavedReservedStart>,
    #[serde(default)]
    pub(crate) suspension: Option<SavedSuspension>,
    #[serde(default)]
    pub(crate) stood_still_ms: u64,
    #[serde(default)]
    pub(crate) went_on: Option<u64>,
}

impl SavedJob {
    /// Returns the state of the job.
    #[must_use]
    pub fn phase(&self) -> crate::phase::Phase {
        self.phase
    }

    /// Returns the job's number.
    #[must_use]
    pub fn id(&self) -> JobId {
        JobId(self.id)
    }

    /// Returns the nodes of all devices that the job has held.
    #[must_use]
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.grants.iter().map(|grant| NodeId(grant.device.node)).collect()
    }

    /// Updates the holds of the job on a node's devices.
    pub fn apply(&mut self, saved: &SavedHolds) {
        for grant in self.grants.iter_mut().filter(|grant| grant.device.node == saved.node) {
            if let Some(hold) = saved.holds.get(&grant.device.ordinal) {
                grant.hold = *hold;
            }
        }
    }

    /// Whether the job has devices on a node that are not free yet.
    #[must_use]
    pub fn holds_some(&self, node: u32) -> bool {
        self.grants.iter().any(|grant| grant.device.node == node && grant.hold != crate::phase::Hold::Freed)
    }

    /// Returns the job's exclusive devices that are not free yet.
    pub fn exclusive_devices(&self) -> impl Iterator<Item = DeviceId> {
        let kept = self.grants.iter().filter(|grant| grant.exclusive && grant.hold.is_hold());
        kept.map(|grant| grant.device.into())
    }
}

/// The state of a job's devices on one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedHolds {
    pub(crate) job: u64,
    pub(crate) node: u32,
    pub(crate) holds: BTreeMap<u32, crate::phase::Hold>,
}

impl SavedHolds {
    /// Returns the job's number.
    #[must_use]
    pub fn job(&self) -> JobId {
        JobId(self.job)
    }
}

/// The usage of an account.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SavedAccount {
    /// Decayed usage by class.
    pub(crate) used: Vec<u64>,
    pub(crate) total: Usage,
    pub(crate) month: u128,
    pub(crate) settled: u64,
    pub(crate) last_start: u64,
}

/// Counters, which only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SavedCounters {
    pub(crate) last_job: u64,
    pub(crate) last_front: u64,
}

/// A drain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct SavedDrain {
    pub(crate) node: u32,
    /// A device of the node; `None` for the whole node.
    pub(crate) ordinal: Option<u32>,
    pub(crate) by_time: u64,
    pub(crate) end: bool,
    pub(crate) reason: String,
}

impl SavedDrain {
    pub(crate) fn target(&self) -> DrainTarget {
        SavedTarget { node: self.node, ordinal: self.ordinal }.into()
    }
}

/// A node, or one device of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedTarget {
    pub(crate) node: u32,
    /// A device of the node; `None` for the whole node.
    pub(crate) ordinal: Option<u32>,
}

impl From<DrainTarget> for SavedTarget {
    fn from(target: DrainTarget) -> Self {
        match target {
            DrainTarget::Node(node) => Self { node: node.0, ordinal: None },
            DrainTarget::Device(device) => Self { node: device.node.0, ordinal: Some(device.ordinal) },
        }
    }
}

impl From<SavedTarget> for DrainTarget {
    fn from(saved: SavedTarget) -> Self {
        let node = NodeId(saved.node);
        saved.ordinal.map_or(Self::Node(node), |ordinal| Self::Device(DeviceId { node, ordinal }))
    }
}

/// The devices of a reservation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SavedTargets {
    /// All devices of the cluster.
    All,
    /// Nodes and devices.
    Listed(Vec<SavedTarget>),
}

impl From<&ReservedDevices> for SavedTargets {
    fn from(devices: &ReservedDevices) -> Self {
        match devices {
            ReservedDevices::All => Self::All,
            ReservedDevices::Listed(targets) => Self::Listed(targets.iter().map(|target| (*target).into()).collect()),
        }
    }
}

impl From<SavedTargets> for ReservedDevices {
    fn from(saved: SavedTargets) -> Self {
        match saved {
            SavedTargets::All => Self::All,
            SavedTargets::Listed(targets) => Self::Listed(targets.into_iter().map(Into::into).collect()),
        }
    }
}

/// A reservation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct SavedReservation {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) devices: SavedTargets,
    pub(crate) starts: u64,
    pub(crate) ends: u64,
    #[serde(default)]
    pub(crate) created: u64,
    pub(crate) accounts: Vec<String>,
    pub(crate) users: Vec<String>,
    pub(crate) end_jobs: bool,
}

/// A device in quarantine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedQuarantine {
    pub(crate) device: SavedDevice,
    pub(crate) reason: String,
    pub(crate) since: u64,
    pub(crate) by: Option<String>,
    #[serde(default)]
    pub(crate) charged: bool,
    #[serde(default)]
    pub(crate) uuid: String,
}

/// Drains, reservations, quarantine and pause.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SavedSite {
    pub(crate) paused: bool,
    pub(crate) drains: Vec<SavedDrain>,
    pub(crate) reservations: Vec<SavedReservation>,
    pub(crate) quarantined: Vec<SavedQuarantine>,
    /// Quarantines of devices that no node has.
    #[serde(default)]
    pub(crate) away: Vec<SavedQuarantine>,
}

/// The state of the scheduler, without its policy and nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SavedScheduler {
    /// Classes of devices in the order of their numbers.
    pub classes: Vec<SavedClass>,
    /// Accounts with usage, by name.
    pub accounts: BTreeMap<String, SavedAccount>,
    /// Jobs.
    pub jobs: Vec<SavedJob>,
    /// Counters.
    pub counters: SavedCounters,
    /// The rest.
    pub site: SavedSite,
}

/// The ledger's entry of a job with devices that are not free yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedCharge {
    pub(crate) account: String,
    pub(crate) program: String,
    pub(crate) asked_unix_ms: u64,
    pub(crate) asked: u64,
    pub(crate) started: Option<(u64, u64)>,
    pub(crate) devices: Vec<DevicesOnNode>,
    pub(crate) rate: Rate,
    pub(crate) settled: u64,
    pub(crate) used: Usage,
    pub(crate) events: Vec<JobEvent>,
    pub(crate) ended: Option<u64>,
}

/// A job's use of its devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedUse {
    pub(crate) job: u64,
    pub(crate) did: JobUse,
}

/// An ended job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedEnd {
    pub(crate) number: u64,
    pub(crate) job: u64,
    pub(crate) user: String,
    pub(crate) account: String,
    pub(crate) request: SavedRequest,
    pub(crate) program: String,
    pub(crate) asked_unix_ms: u64,
    pub(crate) started_unix_ms: Option<u64>,
    pub(crate) ended_unix_ms: u64,
    pub(crate) waited_ms: u64,
    pub(crate) ran_ms: u64,
    pub(crate) devices: Vec<DevicesOnNode>,
    pub(crate) used: Usage,
    pub(crate) did: JobUse,
    pub(crate) events: Vec<JobEvent>,
    pub(crate) cause: EndCause,
}

/// The usage of an account's user on a day.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedRow {
    pub(crate) day: u64,
    pub(crate) account: String,
    pub(crate) user: String,
    pub(crate) usage: Usage,
    pub(crate) jobs: u64,
    pub(crate) activity: Activity,
    pub(crate) unknown_milli_ms: u128,
}

/// The rate of an account's user, and the time until which it is included in the rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedRate {
    pub(crate) account: String,
    pub(crate) user: String,
    pub(crate) rate: Rate,
    pub(crate) settled: u64,
}

/// The ledger's counters, and the times at which they began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SavedTotals {
    pub(crate) begun_unix_ms: u64,
    pub(crate) usage_since_unix_ms: u64,
    pub(crate) history_gone_unix_ms: u64,
    pub(crate) last_ended: u64,
    pub(crate) totals: Totals,
}

/// The state of the ledger.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SavedLedger {
    /// Open jobs by number.
    pub jobs: BTreeMap<u64, SavedCharge>,
    /// Use of devices by open jobs.
    pub uses: Vec<SavedUse>,
    /// Ended jobs.
    pub ended: Vec<SavedEnd>,
    /// Usage by day.
    pub rows: Vec<SavedRow>,
    /// Present charges.
    pub rates: Vec<SavedRate>,
    /// The rest.
    pub totals: SavedTotals,
}
