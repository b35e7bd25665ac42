//! What jobs take of a node beside its devices.

/// Host memory and cores of a node: what jobs take beside devices, or what is left for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostResources {
    /// Bytes.
    pub memory: u64,
    /// Thousandths of processors.
    pub cores: u64,
}

impl HostResources {
    /// Returns the sum of this and `count` times another one.
    pub(crate) fn plus(self, other: Self, count: u32) -> Self {
        let sum = |one: u64, other: u64| one.saturating_add(other.saturating_mul(u64::from(count)));
        Self { memory: sum(self.memory, other.memory), cores: sum(self.cores, other.cores) }
    }

    /// Returns what is left of this, 0 where the other one is more.
    pub(crate) fn less(self, other: Self) -> Self {
        Self { memory: self.memory.saturating_sub(other.memory), cores: self.cores.saturating_sub(other.cores) }
    }

    /// Whether there is at least this much of each.
    pub(crate) fn covers(self, needed: Self) -> bool {
        needed.memory <= self.memory && needed.cores <= self.cores
    }

    /// Returns the least of each.
    pub(crate) fn least(self, other: Self) -> Self {
        Self { memory: self.memory.min(other.memory), cores: self.cores.min(other.cores) }
    }

    /// Returns the most of each.
    pub(crate) fn most(self, other: Self) -> Self {
        Self { memory: self.memory.max(other.memory), cores: self.cores.max(other.cores) }
    }
}
