//! The states of nodes and the demand of tasks, for placement.

/// Most devices of a node that placement considers.
pub const DEVICES_MAX: usize = 16;
/// A whole device, in milli.
pub const WHOLE: u16 = 1000;
/// Most host cores of a node, in milli, and most memory, in MiB; larger values are clamped.
const CORES_MAX: u32 = 1 << 22;
const MEMORY_MAX: u32 = 1 << 24;

/// The free resources of a node. Nodes with equal states are interchangeable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeState {
    cores: u32,
    memory: u32,
    model: u8,
    count: u8,
    /// The free share of each device in milli, in descending order; 0 beyond `count`.
    devices: [u16; DEVICES_MAX],
}

impl NodeState {
    /// Creates a state from free cores (milli), free memory (MiB) and the free share of each device of `model` (milli).
    ///
    /// Of more than [`DEVICES_MAX`] devices, those with the least free share are left out.
    #[must_use]
    pub fn new(cores: u32, memory: u32, model: u8, remainders: &[u16]) -> Self {
        let mut sorted: Vec<u16> = remainders.iter().map(|free| (*free).min(WHOLE)).collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        sorted.truncate(DEVICES_MAX);
        let mut devices = [0; DEVICES_MAX];
        devices[..sorted.len()].copy_from_slice(&sorted);
        Self { cores: cores.min(CORES_MAX), memory: memory.min(MEMORY_MAX), model, count: sorted.len() as u8, devices }
    }

    /// Returns the free host cores, in milli.
    #[must_use]
    pub const fn cores(&self) -> u32 {
        self.cores
    }

    /// Returns the free host memory, in MiB.
    #[must_use]
    pub const fn memory(&self) -> u32 {
        self.memory
    }

    /// Returns the model of the node's devices.
    #[must_use]
    pub const fn model(&self) -> u8 {
        self.model
    }

    /// Returns the number of devices, including busy ones.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// Returns the free share of each device, in descending order.
    #[must_use]
    pub fn remainders(&self) -> &[u16] {
        &self.devices[..self.count()]
    }

    pub(crate) const fn devices(&self) -> &[u16; DEVICES_MAX] {
        &self.devices
    }

    /// Returns the free share of all devices, in milli.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.devices.iter().map(|free| u32::from(*free)).sum()
    }

    /// Whether `task` may run on this model and fits into the free resources.
    #[must_use]
    pub fn fits(&self, task: &Task) -> bool {
        let devices = usize::from(task.devices);
        task.cores <= self.cores
            && task.memory <= self.memory
            && (devices == 0
                || devices <= self.count() && self.devices[devices - 1] >= task.share && task.models.allow(self.model))
    }

    /// Returns the ways to place `task` on this node's devices, the tightest first. Each is the index of the device
    /// with the least free share among those taken, which include the ones before it.
    pub(crate) fn ways(&self, task: &Task) -> impl Iterator<Item = usize> {
        let (first, share, devices) = (usize::from(task.devices).saturating_sub(1), task.share, self.devices);
        let (end, host_only) = (if task.devices == 0 { 0 } else { self.count() }, task.devices == 0);
        let last_of_run = move |at: &usize| {
            devices[*at] >= share && (*at + 1 == DEVICES_MAX || devices[*at + 1] != devices[*at] || *at + 1 == end)
        };
        (first..end).rev().filter(last_of_run).chain(host_only.then_some(0))
    }

    /// Returns the least free share that a device must have for each way to place `task`; none if it does not fit.
    pub fn choices(&self, task: &Task) -> impl Iterator<Item = u16> {
        let (devices, fits, host_only) = (self.devices, self.fits(task), task.devices == 0);
        self.ways(task).filter(move |_| fits).map(move |way| if host_only { 0 } else { devices[way] })
    }

    /// Returns the state after `task` is placed on the tightest devices with at least `from`, one of [`Self::choices`].
    #[must_use]
    pub fn with(&self, task: &Task, from: u16) -> Self {
        self.after(task, self.remainders().partition_point(|free| *free >= from).saturating_sub(1))
    }

    /// Returns the state after `task` is placed in the given way.
    pub(crate) fn after(&self, task: &Task, way: usize) -> Self {
        let mut after = *self;
        after.cores -= task.cores;
        after.memory -= task.memory;
        if task.devices > 0 {
            for device in &mut after.devices[way + 1 - usize::from(task.devices)..=way] {
                *device -= task.share;
            }
            after.devices[..usize::from(self.count)].sort_unstable_by(|a, b| b.cmp(a));
        }
        after
    }

    /// Returns the state with cores and memory rounded down to multiples of these.
    pub(crate) fn rounded(mut self, cores: u32, memory: u32) -> Self {
        self.cores -= self.cores % cores;
        self.memory -= self.memory % memory;
        self
    }

    /// Returns a hash that is the same on every machine and in every build.
    pub(crate) fn digest(&self) -> u64 {
        let mut digest = u64::from(self.cores) << 32 | u64::from(self.memory);
        let mut mix = |word: u64| {
            digest = (digest.rotate_left(26) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            digest ^= digest >> 29;
        };
        mix(u64::from(self.model) << 8 | u64::from(self.count));
        for four in self.devices.chunks_exact(4) {
            mix(four.iter().fold(0, |word, device| word << 16 | u64::from(*device)));
        }
        digest
    }
}

impl std::hash::Hash for NodeState {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.digest());
    }
}

/// Passes a digest through, because the digests of [`NodeState`]s are mixed already.
#[derive(Clone, Copy, Default)]
pub(crate) struct DigestHasher(u64);

impl std::hash::Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0.rotate_left(8) ^ u64::from(*byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    fn write_u64(&mut self, digest: u64) {
        self.0 = digest;
    }
}

pub(crate) type StateMap<V> = std::collections::HashMap<NodeState, V, std::hash::BuildHasherDefault<DigestHasher>>;

/// A set of models that a task may run on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Models(u64);

impl Models {
    /// Most models of a cluster.
    pub const MAX: usize = 64;
    /// All models.
    pub const ANY: Self = Self(0);

    /// Creates the set of these models. An empty list allows all; models beyond [`Self::MAX`] are ignored.
    #[must_use]
    pub fn only(models: impl IntoIterator<Item = u8>) -> Self {
        let within = models.into_iter().filter(|model| usize::from(*model) < Self::MAX);
        Self(within.fold(0, |set, model| set | 1 << model))
    }

    /// Whether every model is allowed.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.0 == 0
    }

    /// Whether a model is allowed.
    #[must_use]
    pub const fn allow(self, model: u8) -> bool {
        self.0 == 0 || (model as usize) < Self::MAX && self.0 >> model & 1 == 1
    }
}

/// The demand of a task on a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Task {
    /// Number of devices; 0 for a task with host cores and memory only.
    pub devices: u8,
    /// The share of each device, in milli.
    pub share: u16,
    /// Host cores, in milli.
    pub cores: u32,
    /// Host memory, in MiB.
    pub memory: u32,
    /// The models that the task may run on.
    pub models: Models,
}

impl Task {
    /// Returns the milli of devices that the task takes.
    #[must_use]
    pub const fn volume(&self) -> u32 {
        self.devices as u32 * self.share as u32
    }

    /// Returns the canonical form: without devices no share and no models, cores and memory within bounds.
    #[must_use]
    pub fn normal(mut self) -> Self {
        self.cores = self.cores.min(CORES_MAX);
        self.memory = self.memory.min(MEMORY_MAX);
        self.share = self.share.min(WHOLE);
        if self.devices == 0 || self.share == 0 {
            (self.devices, self.share, self.models) = (0, 0, Models::ANY);
        }
        self
    }
}
