//! A ranking of the states that a kind of task fits into.

use crate::placement::states::{StateRef, States};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The score of a state for a task; smaller is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Score {
    /// Change of the node's potential, in 1/128 milli.
    pub potential: i64,
    /// The free rest of the node, which decides between equal changes. 96 cores weigh as much as 8 devices.
    pub left: u64,
    /// A hash that decides between otherwise equal states.
    pub(crate) digest: u64,
}

/// A state with its score, and the way of placing the task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ranked {
    pub(crate) score: Score,
    pub(crate) state: StateRef,
    pub(crate) way: u8,
}

/// A heap. Entries of states that no longer exist stay until they reach its top, or until they may be more than half of
/// it.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    heap: BinaryHeap<Reverse<Ranked>>,
    /// Number of the last appearance in the heap; `None` before the first.
    pub(crate) seen: Option<u64>,
    /// Number of its last use.
    pub(crate) used: u64,
}

impl Ranking {
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn clear(&mut self) {
        self.heap.clear();
        self.seen = None;
    }

    pub(crate) fn extend(&mut self, ranked: impl Iterator<Item = Ranked>) {
        self.heap.extend(ranked.map(Reverse));
    }

    /// Drops entries of states that no longer exist, if they may be more than half.
    pub(crate) fn compact(&mut self, states: &States) {
        if self.heap.len() > 2 * states.len() + 64 {
            self.heap.retain(|Reverse(ranked)| states.get(ranked.state).is_some());
        }
    }

    /// Returns the best entry for which `accept` returns a value.
    pub(crate) fn best<T>(&mut self, states: &States, mut accept: impl FnMut(&Ranked) -> Option<T>) -> Option<T> {
        let (mut passed, mut best) = (Vec::new(), None);
        while let Some(Reverse(ranked)) = self.heap.peek() {
            if states.get(ranked.state).is_none() {
                self.heap.pop();
                continue;
            }
            best = accept(ranked);
            if best.is_some() {
                break;
            }
            passed.extend(self.heap.pop());
        }
        self.heap.extend(passed);
        best
    }
}
