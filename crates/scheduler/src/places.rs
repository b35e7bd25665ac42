//! A sorted set whose members have weights, and the sum of the weights before a member in logarithmic time.
//!
//! It is a treap: sorted by member, and a heap by numbers that are drawn in a fixed order, so that it is balanced whatever is inserted.

use crate::placement::Random;

/// The set.
#[derive(Clone, Debug)]
pub(crate) struct Places<K> {
    root: Subtree<K>,
    random: Random,
}

type Subtree<K> = Option<Box<Member<K>>>;

#[derive(Clone, Debug)]
struct Member<K> {
    key: K,
    weight: u64,
    /// The sum of the weights of this and of all below it.
    sum: u64,
    priority: u64,
    less: Subtree<K>,
    more: Subtree<K>,
}

impl<K> Default for Places<K> {
    fn default() -> Self {
        Self { root: None, random: Random::new(0) }
    }
}

impl<K: Copy + Ord> Places<K> {
    /// Gives a member its weight. Without weight it is no member.
    pub(crate) fn set(&mut self, key: K, weight: u64) {
        let (less, rest) = split(self.root.take(), |other| *other < key);
        let (_, more) = split(rest, |other| *other == key);
        let priority = self.random.next();
        let own = (weight > 0).then(|| Box::new(Member { key, weight, sum: weight, priority, less: None, more: None }));
        self.root = merge(merge(less, own), more);
    }

    /// Returns the sum of all weights.
    pub(crate) fn total(&self) -> u64 {
        sum(self.root.as_deref())
    }

    /// Returns the sum of the weights of all members that are less. Calls `step` for each member that it looks at.
    pub(crate) fn before(&self, key: K, step: impl Fn()) -> u64 {
        let (mut before, mut at) = (0, &self.root);
        while let Some(member) = at {
            step();
            if member.key < key {
                before += sum(member.less.as_deref()) + member.weight;
                at = &member.more;
            } else {
                at = &member.less;
            }
        }
        before
    }
}

fn sum<K>(subtree: Option<&Member<K>>) -> u64 {
    subtree.map_or(0, |member| member.sum)
}

fn summed<K>(mut member: Box<Member<K>>) -> Subtree<K> {
    member.sum = sum(member.less.as_deref()) + member.weight + sum(member.more.as_deref());
    Some(member)
}

/// Splits into those that come first and the others; `is_first` holds for a number of the first members and for no other.
fn split<K>(subtree: Subtree<K>, is_first: impl Fn(&K) -> bool + Copy) -> (Subtree<K>, Subtree<K>) {
    let Some(mut member) = subtree else { return (None, None) };
    if is_first(&member.key) {
        let (first, others) = split(member.more.take(), is_first);
        member.more = first;
        (summed(member), others)
    } else {
        let (first, others) = split(member.less.take(), is_first);
        member.less = others;
        (first, summed(member))
    }
}

/// Puts two sets together; all members of the first are less than those of the second.
fn merge<K>(first: Subtree<K>, second: Subtree<K>) -> Subtree<K> {
    match (first, second) {
        (None, subtree) | (subtree, None) => subtree,
        (Some(mut one), Some(mut other)) => {
            if one.priority > other.priority {
                one.more = merge(one.more.take(), Some(other));
                summed(one)
            } else {
                other.less = merge(Some(one), other.less.take());
                summed(other)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn sums_are_those_of_a_plain_map(changes in prop::collection::vec((0u8..40, 0u64..4), 0..200)) {
            let (mut places, mut plain) = (Places::default(), BTreeMap::new());
            for (key, weight) in changes {
                places.set(key, weight);
                plain.insert(key, weight);
                for key in 0..41 {
                    let before: u64 = plain.range(..key).map(|(_, weight)| weight).sum();
                    prop_assert_eq!(places.before(key, || ()), before);
                }
                prop_assert_eq!(places.total(), plain.values().sum::<u64>());
            }
        }
    }

    #[test]
    fn a_place_is_found_in_few_steps_whatever_the_order_of_insertion() {
        let mut places = Places::default();
        for key in 0..65_536u64 {
            places.set(key, 1);
        }
        let steps = Cell::new(0);
        assert_eq!(places.before(50_000, || steps.set(steps.get() + 1)), 50_000);
        assert!(steps.get() <= 64, "{} steps", steps.get());
    }
}
