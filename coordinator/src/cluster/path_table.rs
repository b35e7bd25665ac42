//! What the coordinator knows of paths, and of nodes by their own word.

use super::input::LinkId;
use super::measured_path::MeasuredPath;
use super::time::Millis;
use accord_types::{NodeFigures, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Paths that are known, of those that could be measured and of those that could not: far more than are measured among nodes that stay.
const PATHS_MAX: usize = 1 << 16;

/// A path by its ends, the lower number first: it takes the same both ways.
pub(super) type Ends = (NodeId, NodeId);

/// What is known of paths.
#[derive(Debug, Default)]
pub(super) struct Paths {
    pub(super) measured: BTreeMap<Ends, MeasuredPath>,
    pub(super) failures: BTreeMap<Ends, u8>,
    pub(super) under_way: BTreeMap<u64, UnderWay>,
    pub(super) figures: BTreeMap<NodeId, NodeFigures>,
    /// Of the last measurement that was ordered.
    pub(super) last: u64,
    pub(super) hurry_until: Millis,
    pub(super) looked: Millis,
    /// When a node was seen in a session last.
    pub(super) used: BTreeMap<NodeId, Millis>,
    /// There is nothing to measure that was not.
    pub(super) settled: bool,
}

#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) ends: Ends,
    pub(super) link: LinkId,
    pub(super) since: Millis,
}

impl Paths {
    /// Nodes that come and go have ever others follow them, so that there would be as many paths as pairs of nodes. When there are too many,
    /// only those that would be measured now stay.
    pub(super) fn trim(&mut self, followers: impl FnOnce() -> BTreeSet<Ends>) {
        if self.measured.len().max(self.failures.len()) > PATHS_MAX {
            let followers = followers();
            self.measured.retain(|ends, _| followers.contains(ends));
            self.failures.retain(|ends, _| followers.contains(ends));
        }
    }

    /// One more.
    pub(super) fn failed(&mut self, ends: Ends) {
        let failures = self.failures.entry(ends).or_default();
        *failures = failures.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::PathTimes;

    #[test]
    fn paths_of_nodes_that_come_and_go_are_bounded() {
        let mut paths = Paths::default();
        let ends = |number: usize| (NodeId(7), NodeId(8 + u32::try_from(number).unwrap()));
        let path = MeasuredPath { times: PathTimes::new(1, 1, 1), transport: String::new() };
        let stays = || (0..10).map(ends).collect();
        for number in 0..PATHS_MAX {
            paths.measured.insert(ends(number), path.clone());
            paths.failed(ends(number));
        }
        paths.trim(stays);
        assert_eq!((paths.measured.len(), paths.failures.len()), (PATHS_MAX, PATHS_MAX));
        paths.measured.insert(ends(PATHS_MAX), path);
        paths.trim(stays);
        assert_eq!((paths.measured.len(), paths.failures.len()), (10, 10));
    }
}
