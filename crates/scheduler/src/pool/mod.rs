//! Nodes and devices, and their index: which nodes have how many free devices of a class, now and later.

mod around;
mod class_index;
mod device;

use crate::amount::Amount;
use crate::bitset::BitSet;
use crate::class::DeviceClass;
use crate::effect::SlipCause;
use crate::ids::{ClassId, JobId, ReservationId};
use crate::node::NodeDescription;
use crate::path_class::PathTimesByClass;
use crate::time::Millis;
use accord_types::{DeviceId, NodeId};
pub(crate) use around::Around;
pub(crate) use class_index::ClassIndex;
use device::Use;
pub(crate) use device::{Claim, Device, Holder, Spot, Vacancy, Window};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// Classes at one time: sets of classes are one word.
pub(crate) const CLASSES_MAX: usize = 128;

/// One class's devices on a node, as the index has them.
#[derive(Clone, Debug)]
pub(crate) struct OnNode {
    pub(crate) class: ClassId,
    /// Free devices without a time from which they are set aside.
    pub(crate) open: u32,
    /// The latest time from which a free device is set aside, among those that are.
    bounded: Option<Millis>,
    /// Whether a shared device has room.
    partial: bool,
    /// When devices are available, sorted: the first k are there at `available[k - 1]`.
    available: Vec<Millis>,
}

/// The place of a node, by its labels `rack` and `switch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Domain {
    pub(crate) rack: Option<u32>,
    pub(crate) switch: Option<u32>,
}

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) name: String,
    pub(crate) incarnation: u64,
    pub(crate) up: bool,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) domain: Domain,
    pub(crate) devices: Vec<Device>,
    pub(crate) cores: u64,
    pub(crate) host_memory: u64,
    pub(crate) cores_held: u64,
    pub(crate) host_memory_held: u64,
    pub(crate) drained: Option<Millis>,
    pub(crate) classes: Vec<OnNode>,
}

impl Node {
    /// Returns the cores that jobs have left; none are left of a node that has fewer than before.
    pub(crate) fn cores_free(&self) -> u64 {
        self.cores.saturating_sub(self.cores_held)
    }

    /// Returns the host memory that jobs have left.
    pub(crate) fn host_memory_free(&self) -> u64 {
        self.host_memory.saturating_sub(self.host_memory_held)
    }
}

/// The changes of a pool.
pub(crate) struct Changes {
    /// When each class had more than before, and a device that was to be available sooner.
    stamps: Vec<(u64, u64)>,
    grown_nodes: BTreeSet<u32>,
    touched: Vec<(JobId, Option<u32>)>,
}

/// All nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    pub(crate) nodes: Vec<Node>,
    by_id: BTreeMap<NodeId, u32>,
    /// Racks and switches of nodes that joined, in the order in which they appeared.
    domains: BTreeMap<String, u32>,
    /// The nodes of each rack and switch.
    members: BTreeMap<u32, BitSet>,
    pub(crate) path_times: PathTimesByClass,
    pub(crate) classes: Vec<DeviceClass>,
    pub(crate) index: Vec<ClassIndex>,
    /// Rises whenever a class has more than before.
    pub(crate) stamp: u64,
    /// Nodes that have more than before, since the last pass.
    pub(crate) grown_nodes: BTreeSet<u32>,
    /// Promises whose devices may be free or may be lost now: jobs whose claims are on changed devices, and the node of these; none: any of
    /// the devices may have changed.
    pub(crate) touched: Vec<(JobId, Option<u32>)>,
    /// Steps of loops, for tests that count them.
    pub(crate) steps: Steps,
}

/// A counter that may be read where the pool is shared: questions of several threads have one copy.
#[derive(Debug, Default)]
pub(crate) struct Steps(AtomicU64);

impl Steps {
    /// Counts a step. Of two at one time one may be lost, which is cheaper.
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

    /// Returns the class with this description, new or known; none if there are too many.
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

    /// Adds a node, or describes one anew. Returns its position.
    ///
    /// Devices keep their positions, holders, claims, drains and quarantine, also those that are not described any more.
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
                cores: 0,
                host_memory: 0,
                cores_held: 0,
                host_memory_held: 0,
                drained: None,
                classes: Vec::new(),
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
        (node.cores, node.host_memory) = (description.cores, description.host_memory);
        node.up = true;
        let mut classes: Vec<OnNode> = Vec::new();
        for device in &node.devices {
            if !classes.iter().any(|on| on.class == device.class) {
                let class = device.class;
                classes.push(OnNode { class, open: 0, bounded: None, partial: false, available: Vec::new() });
            }
        }
        node.classes = classes;
        self.refresh(now, at);
        at
    }

    /// Takes a node's devices out of the index and out of the installed numbers, before it is described anew.
    fn withdraw(&mut self, at: u32) {
        let up = std::mem::replace(&mut self.nodes[at as usize].up, false);
        if up {
            self.refresh(Millis(0), at);
        }
        for device in self.nodes[at as usize].devices.iter().filter(|device| !device.absent) {
            self.index[device.class.index()].installed -= 1;
        }
    }

    /// Says whether a node's agent lives.
    pub(crate) fn set_up(&mut self, now: Millis, at: u32, up: bool) {
        self.nodes[at as usize].up = up;
        self.refresh(now, at);
        self.touch_claims(at);
    }

    /// Files a node anew after a change of its devices.
    pub(crate) fn refresh(&mut self, now: Millis, at: u32) {
        let node = &mut self.nodes[at as usize];
        let (up, drained) = (node.up, node.drained);
        for on in &mut node.classes {
            let index = &mut self.index[on.class.index()];
            let (mut open, mut bounded, mut partial) = (0, None, false);
            let (mut grown, mut sooner) = (false, false);
            let mut available = Vec::with_capacity(on.available.len());
            for (position, device) in node.devices.iter_mut().enumerate() {
                if device.class != on.class {
                    continue;
                }
                self.steps.count();
                let vacancy = if up { device.vacancy(now, drained) } else { Vacancy::None };
                let from = if up { device.available(drained) } else { Millis::NEVER };
                match vacancy {
                    Vacancy::Whole(Millis::NEVER) => open += 1,
                    Vacancy::Whole(until) => bounded = bounded.max(Some(until)),
                    Vacancy::Part(..) => partial = true,
                    Vacancy::None => {}
                }
                let spot = Spot { node: at, device: u32::try_from(position).unwrap_or(u32::MAX) };
                let in_use = if up { device.usage(drained) } else { Use::default() };
                if in_use != device.filed_use {
                    index.count_use(device.filed_use, in_use);
                    device.filed_use = in_use;
                }
                if vacancy != device.filed {
                    grown |= class_index::grows(device.filed, vacancy);
                    index.refile(spot, device.filed, vacancy);
                    device.filed = vacancy;
                    self.touched.extend(device.claims.iter().map(|claim| (claim.job, Some(at))));
                }
                if from != device.filed_available {
                    sooner |= from < device.filed_available;
                    self.touched.extend(device.claims.iter().map(|claim| (claim.job, Some(at))));
                    index.reschedule(spot, device.filed_available, from);
                    device.filed_available = from;
                }
                available.push(from);
            }
            available.sort_unstable();
            if grown {
                self.stamp += 1;
                index.grown = self.stamp;
                self.grown_nodes.insert(at);
            }
            if sooner {
                self.stamp += 1;
                index.sooner = self.stamp;
            }
            if on.available != available {
                index.note(at);
                on.available = available;
            }
            index.file_node(at, on.open, open);
            index.file_bounded(at, on.bounded, bounded);
            index.file_partial(at, partial);
            (on.open, on.bounded, on.partial) = (open, bounded, partial);
        }
    }

    /// Returns what the pool has noted of changes since the last pass, for [`Self::forget_changes`].
    pub(crate) fn changes(&mut self) -> Changes {
        let stamps = self.index.iter().map(|index| (index.grown, index.sooner)).collect();
        Changes { stamps, grown_nodes: self.grown_nodes.clone(), touched: self.touched.clone() }
    }

    /// Forgets changes that were taken back since.
    pub(crate) fn forget_changes(&mut self, before: Changes) {
        for (index, stamps) in self.index.iter_mut().zip(before.stamps) {
            (index.grown, index.sooner) = stamps;
        }
        (self.grown_nodes, self.touched) = (before.grown_nodes, before.touched);
    }

    /// Says that starts on devices of a set of classes may be planned sooner, because a reserved start gives way to more others.
    pub(crate) fn note_sooner(&mut self, classes: u128) {
        self.stamp += 1;
        for (_, index) in self.index.iter_mut().enumerate().filter(|(at, _)| classes >> at & 1 == 1) {
            index.sooner = self.stamp;
        }
    }

    /// Has the reserved starts on a node's devices looked at.
    pub(crate) fn touch_claims(&mut self, at: u32) {
        let claims = self.nodes[at as usize].devices.iter().flat_map(|device| &device.claims);
        self.touched.extend(claims.map(|claim| (claim.job, Some(at))));
    }

    /// Says that a node has more cores or host memory than before: all that failed there is tried again.
    fn has_grown(&mut self, at: u32) {
        self.stamp += 1;
        self.grown_nodes.insert(at);
        for on in &self.nodes[at as usize].classes {
            self.index[on.class.index()].grown = self.stamp;
        }
    }

    /// Returns the devices of known nodes, up or not, by class.
    pub(crate) fn installed(&self) -> Vec<u32> {
        self.index.iter().map(|index| index.installed).collect()
    }

    /// Brings the index by which chunks are planned up to date.
    pub(crate) fn settle_chunks(&mut self) {
        let nodes = &self.nodes;
        for (at, index) in self.index.iter_mut().enumerate() {
            index.settle_chunks(|node| {
                let mut classes = nodes[node as usize].classes.iter();
                classes.find(|on| on.class.index() == at).map_or(&[], |on| &on.available)
            });
        }
    }

    /// Gives a part of a device to a job. The caller refreshes the node.
    pub(crate) fn hold(&mut self, spot: Spot, holder: Holder, cores: u64, host_memory: u64) {
        let node = &mut self.nodes[spot.node as usize];
        node.cores_held += cores;
        node.host_memory_held += host_memory;
        node.devices[spot.device as usize].holders.push(holder);
    }

    /// Takes a job's part of a device back. The caller refreshes the node.
    pub(crate) fn free(&mut self, spot: Spot, job: JobId, cores: u64, host_memory: u64) {
        let node = &mut self.nodes[spot.node as usize];
        node.cores_held -= cores;
        node.host_memory_held -= host_memory;
        node.devices[spot.device as usize].holders.retain(|holder| holder.job != job);
        if cores + host_memory > 0 {
            self.has_grown(spot.node);
            self.touch_claims(spot.node);
        }
    }

    /// Sets by when planning counts on a job's part of a device.
    pub(crate) fn set_end(&mut self, spot: Spot, job: JobId, ends: Millis) {
        for holder in &mut self.device_mut(spot).holders {
            if holder.job == job {
                holder.ends = ends;
            }
        }
    }

    /// Returns the devices of a set of classes that work, and those of them that long jobs hold.
    pub(crate) fn in_use(&self, classes: u128) -> (u64, u64) {
        let members = self.index.iter().enumerate().filter(|(at, _)| classes >> at & 1 == 1);
        members.fold((0, 0), |(sound, long), (_, index)| (sound + index.sound, long + index.long))
    }

    /// Says whether a job's limit is longer than the quantum. The caller refreshes the node.
    pub(crate) fn set_long(&mut self, spot: Spot, job: JobId, long: bool) {
        for holder in self.device_mut(spot).holders.iter_mut().filter(|holder| holder.job == job) {
            holder.long = long;
        }
    }

    /// Returns how many devices of a class are free on a node, set aside later or not.
    pub(crate) fn free_on(&self, node: u32, class: ClassId) -> u64 {
        let devices = self.node(node).devices.iter().filter(|device| device.class == class);
        devices.filter(|device| matches!(device.filed, Vacancy::Whole(_))).count() as u64
    }

    /// Returns how many devices of a class are free until a time.
    pub(crate) fn free_until(&self, class: ClassId, until: Millis) -> u64 {
        let index = &self.index[class.index()];
        let bounded = index.bounded_devices.range((until, Spot { node: 0, device: 0 })..).count();
        index.open + bounded as u64
    }

    /// Returns what a device has for a job that lasts until `until`; none if it may not stay so long.
    pub(crate) fn room(&self, spot: Spot, until: Millis, with_bounded: bool) -> Option<(Amount, bool)> {
        let device = self.device(spot);
        match device.filed {
            Vacancy::Whole(free_until) if free_until == Millis::NEVER || with_bounded && until <= free_until => {
                Some((Amount { milli: crate::amount::WHOLE, memory: device.memory }, true))
            }
            Vacancy::Part(left, free_until) if until <= free_until => Some((left, false)),
            _ => None,
        }
    }

    /// Whether a device is free for a job from now until a time. Of reserved starts those count that are before its own.
    pub(crate) fn is_free_for(&self, spot: Spot, job: JobId, now: Millis, until: Millis) -> bool {
        let node = self.node(spot.node);
        let device = &node.devices[spot.device as usize];
        let own = device.claims.iter().find(|claim| claim.job == job).map_or(Millis::NEVER, |claim| claim.starts);
        let before = device.claims.iter().filter(|claim| claim.job != job && claim.starts <= own);
        let claims = before.map(|claim| claim.starts);
        let windows = device.windows.iter().filter(|window| window.ends > now).map(|window| window.starts);
        node.up
            && device.holders.is_empty()
            && matches!(device.filed, Vacancy::Whole(_))
            && claims.chain(windows).chain(device.drained).chain(node.drained).all(|from| until <= from)
    }

    /// Whether a device is set aside before a time, reservations left out that `own` says are for its holder.
    pub(crate) fn is_set_aside(
        &self,
        spot: Spot,
        now: Millis,
        until: Millis,
        own: impl Fn(ReservationId) -> bool,
    ) -> bool {
        let node = self.node(spot.node);
        let device = &node.devices[spot.device as usize];
        let windows = device.windows.iter().filter(|window| window.ends > now && !own(window.id));
        let limits = device.claims.iter().map(|claim| claim.starts).chain(windows.map(|window| window.starts));
        limits.chain(device.drained).chain(node.drained).any(|from| from < until)
    }

    /// Whether a job holds a device.
    pub(crate) fn is_held(&self, spot: Spot) -> bool {
        !self.device(spot).holders.is_empty()
    }

    /// Whether a device is free for a job from now until a time, one reservation's window and the job's own claim left out.
    pub(crate) fn is_free_within(
        &self,
        spot: Spot,
        reservation: ReservationId,
        job: JobId,
        now: Millis,
        until: Millis,
    ) -> bool {
        let node = self.node(spot.node);
        let device = &node.devices[spot.device as usize];
        let claims = device.claims.iter().filter(|claim| claim.job != job).map(|claim| claim.starts);
        let windows = device.windows.iter().filter(|window| window.id != reservation && window.ends > now);
        let mut limits = claims.chain(windows.map(|window| window.starts)).chain(device.drained).chain(node.drained);
        matches!(device.filed, Vacancy::Whole(_)) && limits.all(|from| until <= from)
    }

    /// Returns why a claim of `job` on a device can't be kept, if so.
    pub(crate) fn breaks(&self, spot: Spot, job: JobId) -> Option<SlipCause> {
        let node = self.node(spot.node);
        if !node.up {
            return Some(SlipCause::Devices);
        }
        let device = &node.devices[spot.device as usize];
        let own = device.claims.iter().find(|claim| claim.job == job)?;
        device.breaks(own, node.drained)
    }
}
