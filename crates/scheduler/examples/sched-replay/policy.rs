//! Placement policies: Accord's, and those for comparison.

use accord_scheduler::placement::{NodeState, Placer, Random, Task, WHOLE};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A policy that places tasks on nodes.
pub(crate) trait Policy {
    /// Sets the free resources of a node.
    fn set(&mut self, node: u32, state: NodeState);

    /// Counts an arrived task.
    fn arrived(&mut self, task: &Task);

    /// Whether a decision for the task can use results of earlier ones.
    fn is_warm(&self, _: &Task) -> bool {
        true
    }

    /// Returns a node, and the least free share of the devices that the task takes there.
    fn place(&mut self, task: &Task, allowed: &mut dyn FnMut(u32) -> bool) -> Option<(u32, u16)>;
}

impl Policy for Placer {
    fn set(&mut self, node: u32, state: NodeState) {
        Self::set(self, node, Some(state));
    }

    fn arrived(&mut self, task: &Task) {
        Self::arrived(self, task);
    }

    fn is_warm(&self, task: &Task) -> bool {
        self.is_ranked(task)
    }

    fn place(&mut self, task: &Task, allowed: &mut dyn FnMut(u32) -> bool) -> Option<(u32, u16)> {
        self.place_where(task, allowed).map(|placement| (placement.node, placement.from))
    }
}

/// The score of a baseline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// A random node and device.
    Random,
    /// The node with the least free cores and devices after the placement, in whole percent.
    BestFit,
    /// Fragmentation gradient descent as published: the change of the expected fragment, as a whole number of 0 to 100.
    Fgd,
}

/// The score of a state with a tie-breaker, of which the least is best, and the choice of devices.
#[derive(Clone, Copy, Debug)]
struct Scored {
    score: i64,
    tie: f64,
    from: u16,
}

/// A policy of the published comparison. Among equal scores the first node by name is chosen, as in the published
/// simulator.
pub(crate) struct Baseline {
    rule: Rule,
    random: Random,
    /// Kinds of tasks with their frequency. FGD knows the list in advance.
    mix: Vec<(Task, f64)>,
    of_node: BTreeMap<u32, NodeState>,
    nodes: BTreeMap<NodeState, BTreeSet<u32>>,
    /// Cached scores of states by task, and FGD's fragments of states.
    scores: HashMap<Task, HashMap<NodeState, Option<Scored>>>,
    fragments: HashMap<NodeState, f64>,
}

impl Baseline {
    /// Creates a policy for the list `tasks`. FGD's mix are the most frequent kinds of 95 % of the device tasks.
    pub(crate) fn new(rule: Rule, tasks: impl Iterator<Item = Task>, seed: u64) -> Self {
        let (mut counts, mut all) = (BTreeMap::<Task, f64>::new(), 0.0);
        for task in tasks.filter(|task| task.devices > 0) {
            *counts.entry(task).or_default() += 1.0;
            all += 1.0;
        }
        let mut sorted: Vec<(Task, f64)> = counts.into_iter().collect();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let (mut covered, mut mix) = (0.0, Vec::new());
        for (task, count) in sorted {
            if covered < 0.95 * all {
                covered += count;
                mix.push((task, count));
            }
        }
        mix.iter_mut().for_each(|(_, count)| *count /= covered);
        Self {
            rule,
            random: Random::new(seed),
            mix,
            of_node: BTreeMap::new(),
            nodes: BTreeMap::new(),
            scores: HashMap::new(),
            fragments: HashMap::new(),
        }
    }

    fn score(&mut self, state: &NodeState, task: &Task) -> Option<Scored> {
        if let Some(scored) = self.scores.get(task).and_then(|states| states.get(state)) {
            return *scored;
        }
        let scored = state.fits(task).then(|| match self.rule {
            Rule::Random => Scored { score: 0, tie: 0.0, from: 0 },
            Rule::BestFit => {
                let from = state.choices(task).next().unwrap_or_default();
                let after = state.with(task, from);
                let left = 0.5 * f64::from(after.cores()) / 128_000.0 + 0.5 * f64::from(after.free()) / 8000.0;
                Scored { score: -((1.0 - left) * 100.0).floor() as i64, tie: 0.0, from }
            }
            Rule::Fgd => self.gradient(state, task),
        });
        self.scores.entry(*task).or_default().insert(*state, scored);
        scored
    }

    fn gradient(&mut self, state: &NodeState, task: &Task) -> Scored {
        let before = self.fragment(state);
        let (mut best, mut from) = (i64::MAX, 0);
        // The device with the most free share comes first, and wins among equal scores.
        let mut choices: Vec<u16> = state.choices(task).collect();
        choices.reverse();
        for choice in choices {
            let after = self.fragment(&state.with(task, choice));
            let score = -(100.0 / (1.0 + (-(before - after) / 1000.0).exp())).floor() as i64;
            if score < best {
                (best, from) = (score, choice);
            }
        }
        let left = f64::from(state.cores() - task.cores) / 96_000.0 + f64::from(state.free()) / 8000.0;
        Scored { score: best, tie: if task.devices == 0 { left } else { 0.0 }, from }
    }

    /// Returns the milli that the average task can't use. The published fragment considers devices and cores only.
    fn fragment(&mut self, state: &NodeState) -> f64 {
        if let Some(fragment) = self.fragments.get(state) {
            return *fragment;
        }
        let unbounded = NodeState::new(state.cores(), u32::MAX, state.model(), state.remainders());
        let unusable = |(task, part): &(Task, f64)| {
            let small = |free: &&u16| **free < task.share;
            let milli: u32 = if unbounded.fits(&Task { memory: 0, ..*task }) {
                state.remainders().iter().filter(small).map(|free| u32::from(*free)).sum()
            } else {
                state.free()
            };
            part * f64::from(milli)
        };
        let fragment = self.mix.iter().map(unusable).sum();
        self.fragments.insert(*state, fragment);
        fragment
    }

    /// Returns a random node that the task fits, with a random fitting device, each equally likely.
    fn any(&mut self, task: &Task, allowed: &mut dyn FnMut(u32) -> bool) -> Option<(u32, u16)> {
        let states = self.nodes.iter().filter(|(state, _)| state.fits(task));
        let fitting: Vec<u32> =
            states.flat_map(|(_, nodes)| nodes.iter().copied()).filter(|node| allowed(*node)).collect();
        if fitting.is_empty() {
            return None;
        }
        let node = fitting[self.random.below(fitting.len() as u64) as usize];
        let state = self.of_node.get(&node)?;
        if task.share == WHOLE || task.devices != 1 {
            return Some((node, state.choices(task).next()?));
        }
        let devices: Vec<u16> = state.remainders().iter().copied().filter(|free| *free >= task.share).collect();
        Some((node, devices[self.random.below(devices.len() as u64) as usize]))
    }
}

impl Policy for Baseline {
    fn set(&mut self, node: u32, state: NodeState) {
        if let Some(before) = self.of_node.insert(node, state)
            && let Some(nodes) = self.nodes.get_mut(&before)
        {
            nodes.remove(&node);
            if nodes.is_empty() {
                self.nodes.remove(&before);
            }
        }
        self.nodes.entry(state).or_default().insert(node);
    }

    fn arrived(&mut self, _: &Task) {}

    fn place(&mut self, task: &Task, allowed: &mut dyn FnMut(u32) -> bool) -> Option<(u32, u16)> {
        if self.rule == Rule::Random {
            return self.any(task, allowed);
        }
        let states: Vec<(NodeState, u32)> = self
            .nodes
            .iter()
            .filter_map(|(state, nodes)| Some((*state, nodes.iter().copied().find(|node| allowed(*node))?)))
            .collect();
        let mut best: Option<(Scored, u32)> = None;
        for (state, node) in states {
            let Some(scored) = self.score(&state, task) else { continue };
            let better = best.is_none_or(|(than, other)| {
                let order = scored.score.cmp(&than.score).then(scored.tie.total_cmp(&than.tie)).then(node.cmp(&other));
                order == Ordering::Less
            });
            if better {
                best = Some((scored, node));
            }
        }
        best.map(|(scored, node)| (node, scored.from))
    }
}
