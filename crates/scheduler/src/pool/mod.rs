//! Nodes and devices with their index: how many devices of a class are free on each node, now and later.

mod class_index;
mod device;
mod filing;
mod firm_claims;
mod host_resources;
mod node_set;
mod vacancies;
mod within;

use crate::bitset::BitSet;
use crate::class::DeviceClass;
use crate::ids::{ClassId, JobId, ReservationId};
use crate::node::NodeDescription;
use crate::path_class::PathTimesByClass;
use crate::time::Millis;
use accord_types::{DeviceId, NodeId};
pub(crate) use class_index::{CHUNK_MAX, ClassIndex, Ends};
pub(crate) use device::{Claim, ClaimsWithin, Device, Holder, Spot, Vacancy, Window};
pub(crate) use firm_claims::FirmClaim;
pub use host_resources::HostResources;
pub(crate) use node_set::NodeSet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use within::ReservedFreeDevices;

/// Most classes: a set of classes is one word.
pub(crate) const CLASSES_MAX: usize = 128;

/// The devices of a class on a node, as indexed.
#[derive(Clone, Debug)]
pub(crate) struct OnNode {
    pub(crate) class: ClassId,
    /// The numbers of usable devices, by the ends of jobs that may use them.
    usable: Vec<(Ends, u32)>,
    /// What the node has left beside free devices, if it has any.
    host_resources: Option<HostResources>,
    /// Whether a shared device has room.
    partial: bool,
    /// The sorted times at which devices are available: the first k are at `available[k - 1]`.
    available: Vec<Millis>,
    /// The reservations of the available devices, if they are the same.
    windows: Option<Vec<Window>>,
}

impl OnNode {
    /// Returns the number of free devices for a job that lasts until a time.
    pub(crate) fn usable(&self, until: Millis) -> u32 {
        self.usable.iter().find(|(ends, _)| ends.covers(until)).map_or(0, |(_, count)| *count)
    }
}

/// The location of a node, from its labels `rack` and `switch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Domain {
    pub(crate) rack: Option<u32>,
    pub(crate) switch: Option<u32>,
}

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) name: String,
    pub(crate) incarnation: u64,
    pub(crate) up: bool,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) domain: Domain,
    pub(crate) devices: Vec<Device>,
    /// The host memory and cores that it has beside its devices.
    pub(crate) host: HostResources,
    /// The part of that which jobs hold.
    pub(crate) host_held: HostResources,
    pub(crate) drained: Option<Millis>,
    pub(crate) classes: Vec<OnNode>,
    /// The claims on its cores and host memory, at most one of a job.
    pub(crate) firm_claims: Vec<FirmClaim>,
}

impl Node {
    /// Returns the free cores; 0 if the node now has fewer cores than jobs hold.
    pub(crate) fn cores_free(&self) -> u64 {
        self.host_resources_free().cores
    }

    /// Returns the free host memory.
    pub(crate) fn host_memory_free(&self) -> u64 {
        self.host_resources_free().memory
    }

    /// Returns what the node has beside its devices.
    pub(crate) fn host_resources(&self) -> HostResources {
        self.host
    }

    /// Returns the time from which the node has this much beside its devices, by the ends of jobs and of reserved
    /// starts; `None` if it never has.
    fn host_resources_from(&self, needed: HostResources) -> Option<Millis> {
        let mut left = self.host_resources();
        if !left.covers(needed) {
            return None;
        }
        let holders =
            self.devices.iter().flat_map(|device| &device.holders).map(|holder| (holder.ends, holder.host_resources));
        let claims =
            self.devices.iter().flat_map(|device| &device.claims).map(|claim| (claim.ends, claim.host_resources));
        let mut taken: Vec<(Millis, HostResources)> =
            holders.chain(claims).filter(|(_, host_resources)| *host_resources != HostResources::default()).collect();
        taken.sort_unstable_by_key(|(ends, _)| std::cmp::Reverse(*ends));
        for (ends, host_resources) in taken {
            left = left.less(host_resources);
            if !left.covers(needed) {
                return (ends != Millis::NEVER).then_some(ends);
            }
        }
        Some(Millis(0))
    }
}

/// The noted changes of a pool.
pub(crate) struct Changes {
    /// For each class, the stamps at which it gained capacity, and at which a device became available sooner, or sooner or later.
    stamps: Vec<(u64, u64, u64)>,
    grown_nodes: BTreeSet<u32>,
    touched: Vec<(JobId, Option<u32>)>,
    /// The stamp at which each reservation gained capacity.
    within: Vec<(ReservationId, u64)>,
}

/// The nodes and devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    pub(crate) nodes: Vec<Node>,
    by_id: BTreeMap<NodeId, u32>,
    /// Racks and switches of known nodes, in the order of their appearance.
    domains: BTreeMap<String, u32>,
    /// The nodes of each rack and switch.
    members: BTreeMap<u32, BitSet>,
    pub(crate) path_times: PathTimesByClass,
    pub(crate) classes: Vec<DeviceClass>,
    pub(crate) index: Vec<ClassIndex>,
    /// Free devices of reservations that have begun.
    pub(crate) within: BTreeMap<ReservationId, ReservedFreeDevices>,
    /// Increases whenever a class gains capacity.
    pub(crate) stamp: u64,
    /// Nodes that have gained capacity since the last pass.
    pub(crate) grown_nodes: BTreeSet<u32>,
    /// Reserved starts to check, because their devices may have become free or lost: the job, and the node of the
    /// changed devices. `None` if devices on any node may have changed.
    pub(crate) touched: Vec<(JobId, Option<u32>)>,
    /// Steps of loops, counted for tests.
    pub(crate) steps: Steps,
}

/// A counter that threads may share, because several queries use one copy of the pool.
#[derive(Debug, Default)]
pub(crate) struct Steps(AtomicU64);

impl Steps {
    /// Counts a step. Of two concurrent steps one may be lost, which is cheaper than an atomic addition.
    fn count(&self) {
        self.0.store(self.get() + 1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clone for Steps {
    fn clone(&self) -> Self {
        Self(self.get().into())
    }
}

impl Pool {
    pub(crate) fn step(&self) {
        self.steps.count();
    }

    pub(crate) fn node_at(&self, id: NodeId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    /// Returns what a node has left beside free devices of a class, if it has any.
    pub(crate) fn host_resources(&self, node: u32, class: ClassId) -> Option<HostResources> {
        self.node(node).classes.iter().find(|on| on.class == class)?.host_resources
    }

    pub(crate) fn device(&self, spot: Spot) -> &Device {
        &self.nodes[spot.node as usize].devices[spot.device as usize]
    }

    pub(crate) fn device_mut(&mut self, spot: Spot) -> &mut Device {
        &mut self.nodes[spot.node as usize].devices[spot.device as usize]
    }

    /// Returns the positions of a node's devices.
    pub(crate) fn spots_on(&self, node: u32) -> impl Iterator<Item = Spot> {
        let count = u32::try_from(self.node(node).devices.len()).unwrap_or(u32::MAX);
        (0..count).map(move |device| Spot { node, device })
    }

    pub(crate) fn device_id(&self, spot: Spot) -> DeviceId {
        let node = self.node(spot.node);
        DeviceId { node: node.id, ordinal: node.devices[spot.device as usize].ordinal }
    }

    pub(crate) fn spot(&self, id: DeviceId) -> Option<Spot> {
        let node = self.node_at(id.node)?;
        let device = self.node(node).devices.iter().position(|device| device.ordinal == id.ordinal)?;
        Some(Spot { node, device: u32::try_from(device).ok()? })
    }

    /// Returns the class with this description, which is added if necessary; `None` if there are too many.
    pub(crate) fn class(&mut self, class: &DeviceClass) -> Option<ClassId> {
        let at = self.classes.iter().position(|known| known == class).or_else(|| {
            if self.classes.len() == CLASSES_MAX {
                return None;
            }
            self.classes.push(class.clone());
            self.index.push(ClassIndex::default());
            Some(self.classes.len() - 1)
        })?;
        u16::try_from(at).ok().map(ClassId)
    }

    /// Adds a node, or replaces its description. Returns its position.
    ///
    /// Devices keep their positions, holders, claims, drains and quarantine, even if they are no longer described.
    pub(crate) fn put(&mut self, now: Millis, description: &NodeDescription) -> u32 {
        let at = self.node_at(description.id).unwrap_or_else(|| {
            let at = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
            self.nodes.push(Node {
                id: description.id,
                name: String::new(),
                incarnation: description.incarnation,
                up: false,
                labels: BTreeMap::new(),
                domain: Domain::default(),
                devices: Vec::new(),
                host: HostResources::default(),
                host_held: HostResources::default(),
                drained: None,
                classes: Vec::new(),
                firm_claims: Vec::new(),
            });
            self.by_id.insert(description.id, at);
            at
        });
        self.withdraw(at);
        for device in &mut self.nodes[at as usize].devices {
            device.absent = true;
        }
        let mut described: Vec<_> = description.devices.iter().collect();
        described.sort_by_key(|device| device.ordinal);
        for described in described {
            let Some(class) = self.class(&described.class) else { continue };
            self.index[class.index()].installed += 1;
            let devices = &mut self.nodes[at as usize].devices;
            if let Some(device) = devices.iter_mut().find(|device| device.ordinal == described.ordinal) {
                (device.class, device.absent) = (class, false);
                (device.memory, device.context) = (described.class.memory, described.class.context);
            } else {
                devices.push(Device::new(described.ordinal, class, &described.class));
            }
        }
        let mut number = |label: &str| {
            let (named, numbers) = (description.labels.get(label)?, &mut self.domains);
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            Some(*numbers.entry(format!("{label} {named}")).or_insert(next))
        };
        let domain = Domain { rack: number("rack"), switch: number("switch") };
        let node = &mut self.nodes[at as usize];
        let before = std::mem::replace(&mut node.domain, domain);
        for of in [before.rack, before.switch].into_iter().flatten() {
            self.members.entry(of).or_default().remove(at);
        }
        for of in [domain.rack, domain.switch].into_iter().flatten() {
            self.members.entry(of).or_default().insert(at);
        }
        node.name.clone_from(&description.name);
        node.incarnation = description.incarnation;
        node.labels.clone_from(&description.labels);
        node.host = HostResources { cores: description.cores, memory: description.host_memory };
        node.up = true;
        let mut classes: Vec<OnNode> = Vec::new();
        for device in &node.devices {
            if !classes.iter().any(|on| on.class == device.class) {
                let class = device.class;
                classes.push(OnNode {
                    class,
                    usable: Vec::new(),
                    host_resources: None,
                    partial: false,
                    available: Vec::new(),
                    windows: None,
                });
            }
        }
        node.classes = classes;
        self.refresh(now, at);
        at
    }

    /// Sets whether a node's agent is alive.
    pub(crate) fn set_up(&mut self, now: Millis, at: u32, up: bool) {
        self.nodes[at as usize].up = up;
        self.refresh(now, at);
        self.touch_claims(at);
    }

    /// Returns the number of devices of known nodes by class, whether the nodes are up or not.
    pub(crate) fn installed(&self) -> Vec<u32> {
        self.index.iter().map(|index| index.installed).collect()
    }

    /// Adds a job to a device. The caller must refresh the node.
    pub(crate) fn hold(&mut self, spot: Spot, holder: Holder) {
        let node = &mut self.nodes[spot.node as usize];
        node.host_held.cores += holder.host_resources.cores;
        node.host_held.memory += holder.host_resources.memory;
        node.devices[spot.device as usize].holders.push(holder);
    }

    /// Removes a job from a device. The caller must refresh the node.
    pub(crate) fn free(&mut self, spot: Spot, job: JobId, cores: u64, host_memory: u64) {
        let node = &mut self.nodes[spot.node as usize];
        node.host_held.cores -= cores;
        node.host_held.memory -= host_memory;
        node.devices[spot.device as usize].holders.retain(|holder| holder.job != job);
        if cores + host_memory > 0 {
            self.has_grown(spot.node);
            self.touch_claims(spot.node);
        }
    }

    /// Sets the end of a job on a device for planning.
    pub(crate) fn set_end(&mut self, spot: Spot, job: JobId, ends: Millis) {
        let mut is_sooner = false;
        for holder in self.device_mut(spot).holders.iter_mut().filter(|holder| holder.job == job) {
            is_sooner |= ends < holder.ends && holder.host_resources != HostResources::default();
            holder.ends = ends;
        }
        if is_sooner {
            self.ends_are_sooner(spot.node);
        }
    }

    /// Returns the time from which a node has this much beside its devices; `None` if it never has.
    pub(crate) fn host_resources_from(&self, node: u32, needed: HostResources) -> Option<Millis> {
        if needed == HostResources::default() {
            return Some(Millis(0));
        }
        self.step();
        self.node(node).host_resources_from(needed)
    }

    /// Sets whether a job's limit is longer than the quantum. The caller must refresh the node.
    pub(crate) fn set_long(&mut self, spot: Spot, job: JobId, long: bool) {
        for holder in self.device_mut(spot).holders.iter_mut().filter(|holder| holder.job == job) {
            holder.long = long;
        }
    }
}
