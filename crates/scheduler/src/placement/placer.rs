//! The incremental placer: nodes change, tasks arrive, and each task gets the node whose potential grows least.

use crate::placement::memo::{MEMO_MAX, Memo};
use crate::placement::mix::{HALF_LIFE, Mix};
use crate::placement::potential::{POINT, Potential, Terms};
use crate::placement::ranking::{Ranked, Ranking, Score};
use crate::placement::state::{Models, NodeState, Task, WHOLE};
use crate::placement::states::States;
use std::collections::HashMap;

/// Most kinds of tasks with a cached ranking of states.
const RANKINGS_MAX: usize = 512;
/// Entries of all rankings together.
const RANKED_MAX: usize = 1 << 20;

/// The sizes of a placer's caches. Smaller caches cost time and change no decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Most potentials in each of two generations.
    pub memo: usize,
    /// Most kinds of tasks with a ranking of states.
    pub rankings: usize,
    /// Most entries of all rankings.
    pub ranked: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { memo: MEMO_MAX, rankings: RANKINGS_MAX, ranked: RANKED_MAX }
    }
}

/// The placement of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The node.
    pub node: u32,
    /// The least free share of a usable device, in milli. Among devices with at least this much, the task takes those
    /// with the least.
    pub from: u16,
    /// The score of this placement.
    pub score: Score,
}

impl Placement {
    /// Returns the indices of the devices that the task takes, given the free share of each device of the node.
    #[must_use]
    pub fn devices(&self, task: &Task, remainders: &[u16]) -> Vec<usize> {
        let mut fitting: Vec<(u16, usize)> = remainders.iter().copied().zip(0..).collect();
        fitting.retain(|(free, _)| *free >= self.from);
        fitting.sort_unstable();
        fitting.into_iter().take(usize::from(task.normal().devices)).map(|(_, at)| at).collect()
    }
}

/// A placement that was considered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The placement.
    pub placement: Placement,
    /// Number of nodes in the same state, for which the placement is equal.
    pub alike: usize,
    /// The change of each term of the node's potential.
    pub change: Terms,
}

/// Numbers of nodes that lack a resource, each counted for the first one in the order of the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shortage {
    /// Nodes without devices of an allowed model.
    pub model: usize,
    /// Nodes with too few devices that have enough free share.
    pub devices: usize,
    /// Nodes with too few free host cores.
    pub cores: usize,
    /// Nodes with too little free host memory.
    pub memory: usize,
}

/// The states of nodes, and the mix of tasks.
///
/// A node with devices of several models is a separate node of the placer for each model. All of them change when the
/// host's cores do.
#[derive(Debug)]
pub struct Placer {
    bounds: Bounds,
    states: States,
    /// The milli of each model's devices, including busy ones.
    capacities: Box<[u64; Models::MAX]>,
    /// The most devices that a node has ever had.
    largest: u8,
    mix: Mix,
    arrivals: u64,
    /// The number of arrivals at which the mix is applied again.
    next_mix: u64,
    potential: Option<Potential>,
    memo: Memo,
    rankings: HashMap<Task, Ranking>,
    /// Number of entries of all rankings.
    ranked: usize,
    /// Number of uses of rankings.
    uses: u64,
}

impl Default for Placer {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl Placer {
    /// Creates a placer without nodes and tasks.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            states: States::default(),
            capacities: Box::new([0; Models::MAX]),
            largest: 0,
            mix: Mix::default(),
            arrivals: 0,
            next_mix: 1,
            potential: None,
            memo: Memo::new(bounds.memo),
            rankings: HashMap::new(),
            ranked: 0,
            uses: 0,
        }
    }

    /// Sets the free resources of a node; `None` removes a node that is lost or drained.
    pub fn set(&mut self, node: u32, state: Option<NodeState>) {
        let capacity = |state: &NodeState| (usize::from(state.model()), state.count() as u64 * u64::from(WHOLE));
        let (before, after) = (self.states.of(node).map(capacity), state.as_ref().map(capacity));
        if before != after {
            if let Some(of) = before.and_then(|(model, milli)| Some((self.capacities.get_mut(model)?, milli))) {
                *of.0 -= of.1;
            }
            if let Some(of) = after.and_then(|(model, milli)| Some((self.capacities.get_mut(model)?, milli))) {
                *of.0 += of.1;
            }
        }
        self.largest = self.largest.max(state.map_or(0, |state| state.count() as u8));
        self.states.set(node, state);
    }

    /// Returns the free resources of a node.
    #[must_use]
    pub fn state(&self, node: u32) -> Option<&NodeState> {
        self.states.of(node)
    }

    /// Returns the number of distinct states.
    #[must_use]
    pub fn distinct(&self) -> usize {
        self.states.len()
    }

    /// Returns the number of kinds of tasks with a ranking.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.rankings.len()
    }

    /// Returns the sum of all nodes' potentials, in 1/1,024 milli; 0 before the first device task has arrived.
    pub fn potential(&mut self) -> i64 {
        let Some(potential) = &mut self.potential else { return 0 };
        let (memo, states) = (&mut self.memo, &self.states);
        states.all().map(|(_, state, nodes)| nodes.len() as i64 * of(state, potential, memo)).sum()
    }

    /// Counts an arrived task, whether it can be placed or not.
    ///
    /// States are judged by a snapshot of the mix. It is renewed after a tenth more tasks, at the latest after half of
    /// the mix's half-life.
    pub fn arrived(&mut self, task: &Task) {
        self.mix.arrived(&task.normal());
        self.arrivals += 1;
        if self.arrivals < self.next_mix || self.mix.device_kinds().next().is_none() {
            return;
        }
        self.next_mix = self.arrivals + (self.arrivals / 10).clamp(1, HALF_LIFE / 2);
        let mix = self.mix.with_whole_nodes(self.largest);
        self.potential = Some(Potential::new(mix, &self.capacities));
        self.memo.clear();
        self.rankings.values_mut().for_each(Ranking::clear);
        self.ranked = 0;
    }

    /// Whether states are already ranked for a task by the present mix, so that a decision visits only new states.
    #[must_use]
    pub fn is_ranked(&self, task: &Task) -> bool {
        self.rankings.get(&task.normal()).is_some_and(|ranking| ranking.seen.is_some())
    }

    /// Returns the best placement; `None` if the task fits nowhere.
    pub fn place(&mut self, task: &Task) -> Option<Placement> {
        self.place_where(task, |_| true)
    }

    /// Returns the best placement on a node that `allowed` accepts.
    pub fn place_where(&mut self, task: &Task, mut allowed: impl FnMut(u32) -> bool) -> Option<Placement> {
        let task = task.normal();
        let mut ranking = self.ranking(&task);
        let states = &self.states;
        let best = ranking.best(states, |ranked| {
            let (state, nodes) = states.get(ranked.state)?;
            let node = nodes.iter().copied().find(|node| allowed(*node))?;
            Some(placement(node, state, &task, ranked))
        });
        self.keep(task, ranking);
        best
    }

    /// Returns the best `most` states, each with its first node, to explain the choice of [`Self::place`].
    pub fn candidates(&mut self, task: &Task, most: usize) -> Vec<Candidate> {
        let task = task.normal();
        let mut ranking = self.ranking(&task);
        let (states, mut best) = (&self.states, Vec::<Ranked>::new());
        let _: Option<()> = ranking.best(states, |ranked| {
            if best.last() != Some(ranked) {
                best.push(*ranked);
            }
            (best.len() >= most).then_some(())
        });
        self.keep(task, ranking);
        best.truncate(most);
        best.iter().filter_map(|ranked| self.candidate(&task, ranked)).collect()
    }

    fn candidate(&mut self, task: &Task, ranked: &Ranked) -> Option<Candidate> {
        let (state, nodes) = self.states.get(ranked.state)?;
        let mut change = Terms::default();
        if let Some(potential) = &mut self.potential {
            let (before, after) = (potential.rounded(state), state.after(task, usize::from(ranked.way)));
            let (before, after) = (potential.terms(&before), potential.terms(&potential.rounded(&after)));
            change = Terms {
                fragments: after.fragments - before.fragments,
                pool: after.pool - before.pool,
                scarcity: after.scarcity - before.scarcity,
            };
        }
        Some(Candidate { placement: placement(*nodes.first()?, state, task, ranked), alike: nodes.len(), change })
    }

    /// Counts the nodes that the task does not fit into, by the lacking resource.
    #[must_use]
    pub fn shortage(&self, task: &Task) -> Shortage {
        let (task, mut shortage) = (task.normal(), Shortage::default());
        for (_, state, nodes) in self.states.all().filter(|(_, state, _)| !state.fits(&task)) {
            let devices = Task { cores: 0, memory: 0, ..task };
            let lacking = if task.devices > 0 && (state.count() == 0 || !task.models.allow(state.model())) {
                &mut shortage.model
            } else if !state.fits(&devices) {
                &mut shortage.devices
            } else if state.cores() < task.cores {
                &mut shortage.cores
            } else {
                &mut shortage.memory
            };
            *lacking += nodes.len();
        }
        shortage
    }

    /// Removes the ranking for a task from the cache, and updates it with states that appeared since its last use.
    fn ranking(&mut self, task: &Task) -> Ranking {
        let mut ranking = self.rankings.remove(task).unwrap_or_default();
        self.ranked -= ranking.len();
        let (states, memo, potential) = (&self.states, &mut self.memo, &mut self.potential);
        let mut rank = |reference, state: &NodeState| {
            state.fits(task).then(|| {
                let (score, way) = score(state, task, memo, potential.as_mut());
                Ranked { score, state: reference, way }
            })
        };
        match ranking.seen {
            Some(seen) if states.reaches_back_to(seen) => {
                let appeared = states.appeared_since(seen);
                ranking.extend(appeared.filter_map(|(reference, state)| rank(reference, state)));
            }
            _ => {
                ranking.clear();
                ranking.extend(states.all().filter_map(|(reference, state, _)| rank(reference, state)));
            }
        }
        ranking.seen = Some(states.appearances());
        ranking.compact(states);
        ranking
    }

    /// Returns a ranking to the cache, and drops the least recently used ones beyond the limit.
    fn keep(&mut self, task: Task, mut ranking: Ranking) {
        self.uses += 1;
        ranking.used = self.uses;
        self.ranked += ranking.len();
        self.rankings.insert(task, ranking);
        while self.rankings.len() > self.bounds.rankings || self.ranked > self.bounds.ranked {
            let oldest = self.rankings.iter().min_by_key(|(_, ranking)| ranking.used).map(|(task, _)| *task);
            let Some(forgotten) = oldest.and_then(|task| self.rankings.remove(&task)) else { break };
            self.ranked -= forgotten.len();
        }
    }
}

fn placement(node: u32, state: &NodeState, task: &Task, ranked: &Ranked) -> Placement {
    let from = if task.devices == 0 { 0 } else { state.remainders()[usize::from(ranked.way)] };
    Placement { node, from, score: ranked.score }
}

/// Returns the potential of a state.
fn of(state: &NodeState, potential: &mut Potential, memo: &mut Memo) -> i64 {
    let rounded = potential.rounded(state);
    memo.get(&rounded, || potential.terms(&rounded).sum())
}

/// Returns the score of a state that the task fits into, with the best way of placing it; the tightest one among
/// equals.
fn score(state: &NodeState, task: &Task, memo: &mut Memo, potential: Option<&mut Potential>) -> (Score, u8) {
    let mut ways = state.ways(task);
    let (mut way, mut change) = (ways.next().unwrap_or_default(), 0);
    if let Some(potential) = potential {
        let mut least = of(&state.after(task, way), potential, memo);
        for other in ways {
            let after = of(&state.after(task, other), potential, memo);
            if after < least {
                (least, way) = (after, other);
            }
        }
        change = least - of(state, potential, memo);
    }
    let left = 8 * u64::from(state.cores() - task.cores) + 96 * u64::from(state.free() - task.volume());
    let potential = (change + (1 << (POINT - 8))) >> (POINT - 7);
    (Score { potential, left, digest: state.digest() }, way as u8)
}

#[cfg(test)]
mod tests;
