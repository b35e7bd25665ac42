//! The states that a kind of task fits into, best first.

use crate::placement::states::{StateRef, States};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The rank of a state for a task: the smaller the better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Score {
    /// Change of the node's potential, in 1/128 milli.
    pub potential: i64,
    /// The free rest of the node, which decides between equal changes: 96 cores weigh as 8 devices do.
    pub left: u64,
    /// Settles what is equal otherwise.
    pub(crate) digest: u64,
}

/// A state with its score, and the way of placing the task there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ranked {
    pub(crate) score: Score,
    pub(crate) state: StateRef,
    pub(crate) way: u8,
}

/// A heap. Entries of states that have gone stay until they come to its top, or until they are half of it.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    heap: BinaryHeap<Reverse<Ranked>>,
    /// Appearances up to this number are in the heap. `None` before the first.
    pub(crate) seen: Option<u64>,
    /// The number of its last use.
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

    /// Drops entries of states that have gone if they may be more than half.
    pub(crate) fn compact(&mut self, states: &States) {
        if self.heap.len() > 2 * states.len() + 64 {
            self.heap.retain(|Reverse(ranked)| states.get(ranked.state).is_some());
        }
    }

    /// The best entry that `accept` takes something of.
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
