//! A cache of potentials. Dropping entries changes no decision, only its time.

use crate::placement::state::{NodeState, StateMap};

/// Most potentials in each of the two generations.
pub(crate) const MEMO_MAX: usize = 65_536;

/// Two generations: a full young one replaces the old one, whose entries return when they are used.
#[derive(Debug)]
pub(crate) struct Memo {
    young: StateMap<i64>,
    old: StateMap<i64>,
    most: usize,
}

impl Memo {
    pub(crate) fn new(most: usize) -> Self {
        Self { young: StateMap::default(), old: StateMap::default(), most }
    }

    /// Returns the potential of a state, which is computed unless it is cached.
    pub(crate) fn get(&mut self, state: &NodeState, compute: impl FnOnce() -> i64) -> i64 {
        if let Some(potential) = self.young.get(state) {
            return *potential;
        }
        let potential = self.old.get(state).copied().unwrap_or_else(compute);
        if self.young.len() >= self.most {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(*state, potential);
        potential
    }

    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_two_generations_and_what_is_used() {
        let mut memo = Memo::new(2);
        let state = |cores| NodeState::new(cores, 0, 0, &[]);
        for cores in [1, 2, 3] {
            memo.get(&state(cores), || i64::from(cores));
        }
        assert_eq!(memo.get(&state(1), || 0), 1); // of the old generation, and now of the young
        memo.get(&state(4), || 4);
        assert_eq!(memo.get(&state(1), || 0), 1);
        assert_eq!(memo.get(&state(2), || 20), 20);
    }
}
