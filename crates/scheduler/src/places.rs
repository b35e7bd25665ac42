//! A sorted set whose members have weights, and the sum of the weights before a member in logarithmic time.
//!
//! It is a treap: sorted by member, and a heap by numbers that are drawn in a fixed order, so that it is balanced whatever is inserted.

use crate::placement::Random;

/// The set.
#[derive(Clone, Debug)]
pub(crate) struct Places<K> {
    root: Link<K>,
    random: Random,
}

type Link<K> = Option<Box<Place<K>>>;

#[derive(Clone, Debug)]
struct Place<K> {
    key: K,
    weight: u64,
    /// The sum of the weights of this and of all below it.
    sum: u64,
    priority: u64,
    less: Link<K>,
    more: Link<K>,
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
        let own = (weight > 0).then(|| Box::new(Place { key, weight, sum: weight, priority, less: None, more: None }));
        self.root = merge(merge(less, own), more);
    }

    /// Returns the sum of all weights.
    pub(crate) fn total(&self) -> u64 {
        sum(self.root.as_deref())
    }

    /// Returns the sum of the weights of all members that are less. Calls `step` for each member that it looks at.
    pub(crate) fn before(&self, key: K, step: impl Fn()) -> u64 {
        let (mut before, mut at) = (0, &self.root);
        while let Some(place) = at {
            step();
            if place.key < key {
                before += sum(place.less.as_deref()) + place.weight;
                at = &place.more;
            } else {
                at = &place.less;
            }
        }
        before
    }
}

fn sum<K>(link: Option<&Place<K>>) -> u64 {
    link.map_or(0, |place| place.sum)
}

fn summed<K>(mut place: Box<Place<K>>) -> Link<K> {
    place.sum = sum(place.less.as_deref()) + place.weight + sum(place.more.as_deref());
    Some(place)
}

/// Splits into those that come first and the others; `is_first` holds for a number of the first members and for no other.
fn split<K>(link: Link<K>, is_first: impl Fn(&K) -> bool + Copy) -> (Link<K>, Link<K>) {
    let Some(mut place) = link else { return (None, None) };
    if is_first(&place.key) {
        let (first, others) = split(place.more.take(), is_first);
        place.more = first;
        (summed(place), others)
    } else {
        let (first, others) = split(place.less.take(), is_first);
        place.less = others;
        (first, summed(place))
    }
}

/// Puts two sets together; all members of the first are less than those of the second.
fn merge<K>(first: Link<K>, second: Link<K>) -> Link<K> {
    match (first, second) {
        (None, link) | (link, None) => link,
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
