//! Views for tools: the order of waiting jobs, the states of devices, charges.

use super::quarantine::is_charged;
use super::{ReservationState, Scheduler, WaitReason};
use crate::charge::Rate;
use crate::class::DeviceClass;
use crate::demand::host_memory_of;
use crate::effect::{DevicesOnNode, LeasedDevice};
use crate::ids::{AccountId, JobId};
use crate::input::DrainTarget;
use crate::path_class::ChosenPaths;
use crate::phase::Phase;
use crate::pool::HostResources;
use crate::request::{Request, Take};
use crate::time::Millis;
use crate::units::{milli_text, size_text};
use accord_types::{DeviceId, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// The state of a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeviceState {
    /// No job holds it.
    Free,
    /// Jobs hold a part of it.
    Shared,
    /// A job holds it exclusively, or jobs hold all of it together.
    Held,
    /// Its jobs have ended, but its agent has not confirmed yet that it is free.
    Releasing,
    /// No job starts on it, because it is drained.
    Drained,
    /// No job starts on it, because it is in quarantine.
    Quarantined,
    /// No job starts on it, because programs without a request use it.
    Used,
    /// Its node's agent is silent, or no longer describes it.
    Lost,
}

impl DeviceState {
    /// All states, in their order in tables.
    pub const ALL: [Self; 8] = [
        Self::Free,
        Self::Shared,
        Self::Held,
        Self::Releasing,
        Self::Drained,
        Self::Quarantined,
        Self::Used,
        Self::Lost,
    ];

    /// Returns the state's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Shared => "shared",
            Self::Held => "held",
            Self::Releasing => "releasing",
            Self::Drained => "drained",
            Self::Quarantined => "quarantined",
            Self::Used => "used",
            Self::Lost => "lost",
        }
    }
}

impl Scheduler {
    /// Returns what a job has of nodes beside each of its devices, beyond a CPU device's own processors and memory, without the devices
    /// beside which it has nothing.
    #[must_use]
    pub fn host_resources(&self, id: JobId) -> BTreeMap<DeviceId, HostResources> {
        let grants = self.jobs.get(&id).into_iter().flat_map(|job| &job.grants);
        let host_resources = grants.map(|grant| {
            let take = if grant.exclusive { Take::Exclusive } else { Take::Shared(grant.amount) };
            let own = host_memory_of(&self.pool.classes[grant.class.index()], take);
            let host_memory = grant.host_memory.saturating_sub(own);
            (grant.device, HostResources { cores: grant.cores, memory: host_memory })
        });
        host_resources.filter(|(_, host_resources)| *host_resources != HostResources::default()).collect()
    }

    /// Returns the request of a job.
    #[must_use]
    pub fn request(&self, id: JobId) -> Option<&Arc<Request>> {
        self.jobs.get(&id).map(|job| &job.request)
    }

    /// Whether a waiting job is on hold.
    #[must_use]
    pub fn is_on_hold(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|job| job.phase == Phase::Waiting && job.on_hold)
    }

    /// Returns the time of the last input.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.now
    }

    /// Returns a job's time limit; `None` if its lease is renewed by quantum.
    #[must_use]
    pub fn limit_ms(&self, id: JobId) -> Option<u64> {
        self.jobs.get(&id)?.limit_ms
    }

    /// Whether all starts are paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns the drained nodes and devices, each with the reason.
    pub fn drains(&self) -> impl Iterator<Item = (DrainTarget, &str)> {
        self.drains.iter().map(|(target, drain)| (*target, drain.reason.as_str()))
    }

    /// Returns why a node or a device is drained by itself; `None` if it is not.
    #[must_use]
    pub fn drain_reason(&self, target: DrainTarget) -> Option<&str> {
        self.drains.get(&target).map(|drain| drain.reason.as_str())
    }

    /// Returns how many jobs wait, those on hold included.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of running jobs.
    #[must_use]
    pub fn running(&self) -> usize {
        self.accounts.get(AccountId::SITE.0).running as usize
    }

    /// Returns the present charge of a job; 0 for a waiting or unknown job.
    #[must_use]
    pub fn rate(&self, id: JobId) -> Rate {
        let mut rate = Rate::default();
        for grant in self.jobs.get(&id).into_iter().flat_map(|job| &job.grants) {
            if is_charged(&self.quarantined, grant) {
                let weight = self.policy.billing_of(&self.pool.classes[grant.class.index()]);
                rate.milli += grant.charged;
                rate.billed += grant.charged * u64::from(weight);
            }
        }
        rate
    }

    /// Returns a node's name.
    #[must_use]
    pub fn node_name(&self, id: NodeId) -> Option<&str> {
        self.pool.node_at(id).map(|at| self.pool.node(at).name.as_str())
    }

    /// Returns the node of the program that requested a job, if it is in the cluster.
    #[must_use]
    pub fn origin(&self, id: JobId) -> Option<NodeId> {
        self.jobs.get(&id)?.origin.map(|at| self.pool.node(at).id)
    }

    /// Returns the paths by which a job's nodes were chosen; `None` if paths did not matter, or an earlier coordinator
    /// started the job.
    #[must_use]
    pub fn chosen_paths(&self, id: JobId) -> Option<&ChosenPaths> {
        self.jobs.get(&id)?.paths.as_ref()
    }

    /// Returns the class of a device.
    #[must_use]
    pub fn class_of(&self, device: DeviceId) -> Option<&DeviceClass> {
        self.pool.spot(device).map(|spot| &self.pool.classes[self.pool.device(spot).class.index()])
    }

    /// Returns the devices of a lease by node, with equal devices together, in their order.
    #[must_use]
    pub fn by_node(&self, devices: &[LeasedDevice]) -> Vec<DevicesOnNode> {
        let mut found: Vec<DevicesOnNode> = Vec::new();
        for leased in devices {
            let model = self.class_of(leased.device).map_or_else(String::new, DeviceClass::name);
            let node = self.node_name(leased.device.node).unwrap_or_default();
            let (milli, memory) =
                if leased.exclusive { (crate::amount::WHOLE, 0) } else { (leased.amount.milli, leased.amount.memory) };
            let alike = found.last_mut().filter(|last| {
                last.node == node
                    && last.model == model
                    && (last.milli, last.memory, last.exclusive) == (milli, memory, leased.exclusive)
            });
            match alike {
                Some(last) => last.ordinals.push(leased.device.ordinal),
                None => found.push(DevicesOnNode {
                    node: node.to_owned(),
                    model,
                    ordinals: vec![leased.device.ordinal],
                    milli,
                    memory,
                    exclusive: leased.exclusive,
                }),
            }
        }
        found
    }

    /// Returns a waiting job's reserved start with its devices.
    #[must_use]
    pub fn reserved_start(&self, id: JobId) -> Option<(Millis, Vec<DeviceId>)> {
        let reserved_start = self.jobs.get(&id)?.reserved_start.as_ref()?;
        Some((reserved_start.starts, reserved_start.spots.iter().map(|&spot| self.pool.device_id(spot)).collect()))
    }

    /// Returns the jobs that hold any of these devices, including ended jobs whose devices are not free yet.
    #[must_use]
    pub fn holders(&self, devices: impl IntoIterator<Item = DeviceId>) -> BTreeSet<JobId> {
        let spots = devices.into_iter().filter_map(|device| self.pool.spot(device));
        spots.flat_map(|spot| self.pool.device(spot).holders.iter().map(|holder| holder.job)).collect()
    }

    /// Returns the number of devices of each class in each state. A drained device that is still held counts as held.
    #[must_use]
    pub fn device_states(&self) -> Vec<(DeviceClass, BTreeMap<DeviceState, u64>)> {
        let mut states = vec![BTreeMap::new(); self.pool.classes.len()];
        for node in &self.pool.nodes {
            for device in &node.devices {
                let is_releasing = |job: JobId| self.jobs.get(&job).is_none_or(|job| job.phase == Phase::Releasing);
                let id = DeviceId { node: node.id, ordinal: device.ordinal };
                let is_drained = device.drained.is_some() || node.drained.is_some();
                let state = if !node.up || device.absent {
                    DeviceState::Lost
                } else if self.quarantined.contains_key(&id) {
                    DeviceState::Quarantined
                } else if self.used.contains(&id) {
                    DeviceState::Used
                } else if device.holders.is_empty() {
                    if is_drained { DeviceState::Drained } else { DeviceState::Free }
                } else if device.holders.iter().all(|holder| is_releasing(holder.job)) {
                    DeviceState::Releasing
                } else if device.left().is_some() {
                    DeviceState::Shared
                } else {
                    DeviceState::Held
                };
                *states[device.class.index()].entry(state).or_default() += 1;
            }
        }
        self.pool.classes.iter().cloned().zip(states).collect()
    }
}

fn free_text(free: u64) -> String {
    match free {
        0 => "none is".to_owned(),
        1 => "1 is".to_owned(),
        more => format!("{more} are"),
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnHold => f.write_str("it is on hold"),
            Self::Paused => f.write_str("all starts are paused"),
            Self::NoSuchDevices => f.write_str("the cluster has no such devices now"),
            Self::Never(lack) => write!(f, "it can never start on the nodes that there are: {lack}"),
            Self::Running { account } => write!(f, "account {account} has as many running jobs as it may"),
            Self::Spent { account } => write!(
                f,
                "account {account} has spent its device-hours of this month; its jobs start again on the first day of the next one (UTC)"
            ),
            Self::Most { account } => write!(f, "account {account} has as many devices as it may"),
            Self::Guarantee => f.write_str(
                "devices that it needs are guaranteed to other accounts, and its limit is longer than a quantum",
            ),
            Self::First { by } => {
                write!(
                    f,
                    "beside guarantees, job {by} needs the free devices before its limit ends, and is the first job"
                )
            }
            Self::Reservation { name, state: ReservationState::Ahead } => {
                write!(f, "its reservation {name} has not begun")
            }
            Self::Reservation { name, state: ReservationState::Full } => {
                write!(f, "too few devices of its reservation {name} are free")
            }
            Self::Reservation { name, state: ReservationState::Gone } => {
                write!(f, "its reservation {name} is over; cancel the job, or name another one")
            }
            Self::Reserved { name, model, needed, free } => {
                let model = if model.is_empty() { "such devices" } else { model };
                let free_text = free_text(*free);
                write!(f, "it needs {needed} of {model}, and {free_text} free for as long as its limit: ")?;
                write!(f, "the reservation {name} has others")
            }
            Self::Devices { model, needed, free } => {
                let model = if model.is_empty() { "such devices" } else { model };
                let free_text = free_text(*free);
                write!(f, "it needs {needed} of {model}, and {free_text} free for as long as its limit")?;
                if free >= needed { f.write_str(", elsewhere or kept for other jobs") } else { Ok(()) }
            }
            Self::HostMemory { model, needed, free } => {
                let (needed, free) = (size_text(needed.next_multiple_of(MIB)), size_text(free / MIB * MIB));
                write!(f, "it takes {needed} of the memory of one node, and of the nodes with free ")?;
                write!(f, "{} none has more than {free} left", if model.is_empty() { "devices" } else { model })
            }
            Self::Cores { model, needed, free } => {
                let (needed, free) = (milli_text(*needed), milli_text(*free));
                write!(f, "it takes {needed} cores of one node, and of the nodes with free ")?;
                write!(f, "{} none has more than {free} left", if model.is_empty() { "devices" } else { model })
            }
            Self::Claimed { model, by } => {
                let devices = if model.is_empty() { "devices" } else { model };
                write!(
                    f,
                    "the nodes with free {devices} have enough cores and memory now, and the reserved start of job "
                )?;
                write!(f, "{by} needs these before its limit would end")
            }
        }
    }
}
