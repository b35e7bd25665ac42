//! A bound on connections that have not authenticated yet, in total and per address. The oldest is evicted first. Pure:
//! decides only.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Identifies a waiting connection; never reused.
pub type Ticket = u64;

/// A bounded set of waiting connections.
#[derive(Debug)]
pub struct ConnectionSlots {
    most: usize,
    most_of_one_address: usize,
    next: Ticket,
    /// Waiting connections with their addresses, the oldest first.
    waiting: BTreeMap<Ticket, String>,
    by_address: BTreeMap<String, BTreeSet<Ticket>>,
}

impl ConnectionSlots {
    /// Creates an empty set.
    pub fn new(most: usize, most_of_one_address: usize) -> Self {
        Self { most, most_of_one_address, next: 0, waiting: BTreeMap::new(), by_address: BTreeMap::new() }
    }

    /// Adds a connection. Returns its ticket, and that of the connection to evict: the oldest of the same address if
    /// that is at its limit, else [`ConnectionSlots::oldest`] if the set is full.
    pub fn enter(&mut self, address: &str) -> (Ticket, Option<Ticket>) {
        let of_address = |address: &str| self.by_address.get(address);
        let full = of_address(address).is_some_and(|waiting| waiting.len() >= self.most_of_one_address);
        let leaves = if full {
            of_address(address).and_then(BTreeSet::first).copied()
        } else if self.waiting.len() >= self.most {
            self.oldest()
        } else {
            None
        };
        if let Some(leaves) = leaves {
            self.leave(leaves);
        }
        self.next += 1;
        self.waiting.insert(self.next, address.to_owned());
        self.by_address.entry(address.to_owned()).or_default().insert(self.next);
        (self.next, leaves)
    }

    /// Returns the oldest connection of the address with the most. So a single honest connection survives many of
    /// another address.
    pub fn oldest(&self) -> Option<Ticket> {
        // Of addresses with equally many, the one with the oldest connection is chosen; so with one each, the oldest
        // goes.
        let crowd = self.by_address.values().max_by_key(|waiting| (waiting.len(), Reverse(waiting.first())))?;
        crowd.first().copied()
    }

    /// Removes a connection. Returns whether it was still in the set.
    pub fn leave(&mut self, ticket: Ticket) -> bool {
        let Some(address) = self.waiting.remove(&ticket) else { return false };
        if let Some(waiting) = self.by_address.get_mut(&address) {
            waiting.remove(&ticket);
            if waiting.is_empty() {
                self.by_address.remove(&address);
            }
        }
        true
    }

    /// Returns the number of waiting connections.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no connection waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Returns the name under which an address is counted. A network of IPv6 counts as one address, since a host there has
/// as many addresses as it likes.
pub fn place_of(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn oldest_connection_of_an_address_is_replaced_by_its_next() {
        let mut slots = ConnectionSlots::new(10, 2);
        let (first, _) = slots.enter("a");
        let (second, left) = slots.enter("a");
        assert_eq!(left, None);
        let (_, left) = slots.enter("b");
        assert_eq!(left, None);
        assert_eq!(slots.enter("a").1, Some(first));
        assert!(slots.leave(second) && !slots.leave(second) && !slots.leave(first));
        assert_eq!((slots.enter("a").1, slots.len()), (None, 3));
    }

    #[test]
    fn address_with_most_connections_loses_its_oldest() {
        let mut slots = ConnectionSlots::new(4, 3);
        let (alone, _) = slots.enter("honest");
        let crowd: Vec<Ticket> = (0..3).map(|_| slots.enter("crowd").0).collect();
        assert_eq!(slots.enter("other").1, Some(crowd[0]));
        assert_eq!(slots.enter("other").1, Some(crowd[1]));
        assert!(slots.leave(alone));
    }

    #[test]
    fn oldest_connection_is_closed_among_many_addresses() {
        let mut slots = ConnectionSlots::new(4, 2);
        let tickets: Vec<Ticket> = ["d", "c", "b", "a"].iter().map(|address| slots.enter(address).0).collect();
        assert_eq!(slots.enter("e").1, Some(tickets[0]));
        assert_eq!(slots.enter("f").1, Some(tickets[1]));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let place = |address: &str| place_of(address.parse().unwrap());
        assert_eq!(place("2001:db8:1:2::7"), place("2001:db8:1:2:ffff::9"));
        assert_ne!(place("2001:db8:1:2::7"), place("2001:db8:1:3::7"));
        assert_eq!(place("::ffff:10.0.0.7"), "10.0.0.7");
        assert_ne!(place("10.0.0.7"), place("10.0.0.8"));
    }

    proptest! {
        #[test]
        fn bounds_hold_for_any_sequence(steps in proptest::collection::vec((0..6u8, any::<bool>(), 0..40u64), 0..200)) {
            let mut slots = ConnectionSlots::new(8, 3);
            for (address, comes, ticket) in steps {
                if comes {
                    let (new, left) = slots.enter(&address.to_string());
                    prop_assert!(left.is_none_or(|left| left < new));
                } else {
                    slots.leave(ticket);
                }
                prop_assert!(slots.len() <= 8);
                prop_assert!(slots.by_address.values().all(|waiting| !waiting.is_empty() && waiting.len() <= 3));
                prop_assert_eq!(slots.by_address.values().map(BTreeSet::len).sum::<usize>(), slots.len());
            }
        }
    }
}
