//! The distinct states of nodes. Nodes with equal states share an entry.

use crate::placement::state::{NodeState, StateMap};
use std::collections::{BTreeSet, VecDeque};

/// Number of remembered appearances beyond twice the number of states.
pub(crate) const LOG_SLACK: usize = 4096;

/// A reference to an entry. Slots are reused, and the generation distinguishes an entry from its predecessor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct StateRef {
    slot: u32,
    generation: u32,
}

#[derive(Debug)]
struct Slot {
    state: NodeState,
    generation: u32,
    nodes: BTreeSet<u32>,
}

/// The nodes of each state, and the order in which states appeared.
#[derive(Debug, Default)]
pub(crate) struct States {
    slots: Vec<Slot>,
    unused: Vec<u32>,
    by_state: StateMap<u32>,
    /// The slot of each present node.
    of_node: Vec<Option<u32>>,
    /// States in the order of their appearance, from number `log_start` on.
    log: VecDeque<StateRef>,
    log_start: u64,
}

impl States {
    /// Sets the state of a node, or removes the node.
    pub(crate) fn set(&mut self, node: u32, state: Option<NodeState>) {
        if self.of_node.len() <= node as usize {
            self.of_node.resize(node as usize + 1, None);
        }
        let slot = state.map(|state| self.slot(state));
        let before = std::mem::replace(&mut self.of_node[node as usize], slot);
        if before == slot {
            return;
        }
        if let Some(slot) = slot {
            self.slots[slot as usize].nodes.insert(node);
        }
        if let Some(before) = before {
            let slot = &mut self.slots[before as usize];
            slot.nodes.remove(&node);
            if slot.nodes.is_empty() {
                slot.generation = slot.generation.wrapping_add(1);
                self.by_state.remove(&slot.state);
                self.unused.push(before);
            }
        }
    }

    /// Returns the slot of a state, which is created if necessary.
    fn slot(&mut self, state: NodeState) -> u32 {
        if let Some(slot) = self.by_state.get(&state) {
            return *slot;
        }
        let slot = self.unused.pop().unwrap_or_else(|| {
            self.slots.push(Slot { state, generation: 0, nodes: BTreeSet::new() });
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize].state = state;
        self.by_state.insert(state, slot);
        self.log.push_back(StateRef { slot, generation: self.slots[slot as usize].generation });
        if self.log.len() > 2 * self.by_state.len() + LOG_SLACK {
            let gone = self.log.len() / 2;
            self.log.drain(..gone);
            self.log_start += gone as u64;
        }
        slot
    }

    /// Returns the state of a present node.
    pub(crate) fn of(&self, node: u32) -> Option<&NodeState> {
        let slot = (*self.of_node.get(node as usize)?)?;
        Some(&self.slots[slot as usize].state)
    }

    /// Returns the state and its nodes; `None` if no node has it any more.
    pub(crate) fn get(&self, reference: StateRef) -> Option<(&NodeState, &BTreeSet<u32>)> {
        let slot = &self.slots[reference.slot as usize];
        (slot.generation == reference.generation && !slot.nodes.is_empty()).then_some((&slot.state, &slot.nodes))
    }

    /// Returns the number of distinct states.
    pub(crate) fn len(&self) -> usize {
        self.by_state.len()
    }

    /// Returns the number of the next appearance.
    pub(crate) fn appearances(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    /// Whether all appearances since number `from` are remembered.
    pub(crate) fn reaches_back_to(&self, from: u64) -> bool {
        from >= self.log_start
    }

    /// Returns the states that appeared since number `from` and still exist.
    pub(crate) fn appeared_since(&self, from: u64) -> impl Iterator<Item = (StateRef, &NodeState)> {
        let log = self.log.iter().skip(from.saturating_sub(self.log_start) as usize);
        log.filter_map(|reference| Some((*reference, self.get(*reference)?.0)))
    }

    /// Returns all states with their nodes.
    pub(crate) fn all(&self) -> impl Iterator<Item = (StateRef, &NodeState, &BTreeSet<u32>)> {
        let used = self.slots.iter().zip(0..).filter(|(slot, _)| !slot.nodes.is_empty());
        used.map(|(slot, at)| (StateRef { slot: at, generation: slot.generation }, &slot.state, &slot.nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(cores: u32) -> NodeState {
        NodeState::new(cores, 0, 0, &[1000])
    }

    #[test]
    fn nodes_of_equal_states_share_an_entry_that_goes_with_the_last() {
        let mut states = States::default();
        for node in 0..3 {
            states.set(node, Some(state(7)));
        }
        assert_eq!((states.len(), states.appearances()), (1, 1));
        let (reference, _, nodes) = states.all().next().unwrap();
        assert_eq!(nodes.len(), 3);
        states.set(0, Some(state(8)));
        states.set(1, None);
        assert!(states.get(reference).is_some());
        states.set(2, None);
        assert!(states.get(reference).is_none() && states.of(2).is_none());
        // Another entry reuses the slot.
        states.set(2, Some(state(9)));
        assert!(states.get(reference).is_none());
        assert_eq!(states.of(2), Some(&state(9)));
        assert_eq!(states.appeared_since(0).count(), 2);
        assert_eq!(states.appeared_since(2).count(), 1);
    }

    #[test]
    fn the_log_of_appearances_is_bounded() {
        let mut states = States::default();
        for cores in 0..10 * LOG_SLACK as u32 {
            states.set(0, Some(state(cores)));
            assert!(states.log.len() <= 4 + LOG_SLACK);
        }
        assert_eq!(states.appearances(), 10 * LOG_SLACK as u64);
        assert!(!states.reaches_back_to(0) && states.reaches_back_to(states.appearances()));
    }
}
