//! The potential of a node's state: the likely waste of its free resources. Lower is better.
//!
//! `Phi = Frag + b * Pool - k * scarcity * free`, in integers, so that two coordinators decide alike.

use crate::placement::draw::DrawnPools;
use crate::placement::fragments::Fragments;
use crate::placement::mix::Mix;
use crate::placement::pools::Pools;
use crate::placement::reserve::{SCARCITY_BITS, Scarcities};
use crate::placement::state::{Models, NodeState};
use std::collections::BTreeMap;

pub(crate) use crate::placement::fragments::POINT;

/// `b` and `k`: weights relative to the fragments, in 1/256.
const POOL_WEIGHT: i64 = 800;
const SCARCITY_WEIGHT: u64 = 640;
/// Free cores and memory are rounded down to this part of the average device task's demand, so that more states share a
/// potential.
const GRAIN: u64 = 4;

/// The terms of a potential, weighted, in 1/1,024 milli.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// Capacity that the average task can't use.
    pub fragments: i64,
    /// Capacity that stays free when the node is filled from a pool.
    pub pool: i64,
    /// Capacity kept for tasks that need this model; it is subtracted.
    pub scarcity: i64,
}

impl Terms {
    /// Returns the potential.
    #[must_use]
    pub const fn sum(&self) -> i64 {
        self.fragments + self.pool - self.scarcity
    }
}

/// A mix prepared to judge states. Tables for a number of devices and a model are computed on first use.
#[derive(Clone, Debug)]
pub(crate) struct Potential {
    mix: Mix,
    scarcities: Scarcities,
    grain: (u32, u32),
    fragments: BTreeMap<u8, Fragments>,
    drawn: BTreeMap<usize, DrawnPools>,
    pools: BTreeMap<(usize, u8), Pools>,
}

impl Potential {
    /// Prepares a mix. `capacities` are the milli of each model's devices, including busy ones.
    pub(crate) fn new(mix: Mix, capacities: &[u64; Models::MAX]) -> Self {
        Self {
            scarcities: Scarcities::new(&mix, capacities),
            grain: grain(&mix),
            mix,
            fragments: BTreeMap::new(),
            drawn: BTreeMap::new(),
            pools: BTreeMap::new(),
        }
    }

    /// Returns the rounded state. States with equal rounded states have equal potentials.
    pub(crate) fn rounded(&self, state: &NodeState) -> NodeState {
        state.rounded(self.grain.0, self.grain.1)
    }

    /// Returns the terms of the potential of a [`rounded`](Self::rounded) state.
    pub(crate) fn terms(&mut self, state: &NodeState) -> Terms {
        let (model, count, free) = (state.model(), state.count(), state.free());
        if free == 0 {
            return Terms::default();
        }
        let fragments = self.fragments.entry(model).or_insert_with(|| Fragments::new(&self.mix, model));
        let pools = self.pools.entry((count, model)).or_insert_with(|| {
            let drawn = self.drawn.entry(count).or_insert_with(|| DrawnPools::new(&self.mix, count));
            Pools::new(drawn, model)
        });
        let scarce = self.scarcities.of(model) * u64::from(free) * SCARCITY_WEIGHT;
        Terms {
            fragments: fragments.of(state),
            pool: (pools.left(state) * POOL_WEIGHT) >> 8,
            scarcity: (scarce >> (8 + SCARCITY_BITS - POINT)) as i64,
        }
    }
}

/// Returns the grains of cores and memory.
fn grain(mix: &Mix) -> (u32, u32) {
    let (mut tasks, mut cores, mut memory) = (0, 0, 0);
    for (task, count) in mix.device_kinds() {
        tasks += count;
        cores += count * u64::from(task.cores);
        memory += count * u64::from(task.memory);
    }
    let grain = |sum: u64| (sum / (tasks * GRAIN).max(1)).max(1) as u32;
    (grain(cores), grain(memory))
}
