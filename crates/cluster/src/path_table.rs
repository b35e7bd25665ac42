//! The figures of nodes, and the times of paths between them.

use super::input::LinkId;
use super::measured_path::MeasuredPath;
use super::steps::counted;
use super::time::Millis;
use accord_types::{NodeFigures, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Most paths with a measurement, and most with failures: far more than are measured among the same nodes.
const PATHS_MAX: usize = 1 << 16;
/// Distances to the nodes that each node is measured with, in the order of numbers.
const FOLLOWERS: [usize; 4] = [1, 2, 4, 8];
/// The largest distance.
const FOLLOWERS_END: usize = 8;
/// Number of nodes up to which all paths are recomputed when a node comes or goes, because each node may follow every
/// other one.
const FEW: usize = 4 * FOLLOWERS_END;
/// Number of failures after which a path is not measured again.
const FAILURES_MAX: u8 = 2;

/// The ends of a path, the lower number first: both directions take the same time.
pub(super) type Ends = (NodeId, NodeId);

/// The known times of paths, and the measurements in flight.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// Nodes with a connection, in the order of numbers.
    ring: BTreeSet<NodeId>,
    measured: BTreeMap<Ends, MeasuredPath>,
    failures: BTreeMap<Ends, u8>,
    /// Measured or failed paths, from both ends.
    known: BTreeSet<(NodeId, NodeId)>,
    /// Paths to be measured, from both ends.
    wanted: BTreeSet<(NodeId, NodeId)>,
    under_way: BTreeMap<u64, RunningMeasurement>,
    /// Nodes that are measuring, with the measurement.
    busy: BTreeMap<NodeId, u64>,
    figures: BTreeMap<NodeId, NodeFigures>,
    /// Connected nodes without figures.
    without_figures: BTreeSet<NodeId>,
    /// Number of the last ordered measurement.
    pub(super) last: u64,
    pub(super) hurry_until: Millis,
    pub(super) looked: Millis,
    /// Time at which a node's last session ended.
    pub(super) used: BTreeMap<NodeId, Millis>,
    /// The path at which the next pass over wanted paths begins.
    pub(super) next: (NodeId, NodeId),
}

#[derive(Debug)]
pub(super) struct RunningMeasurement {
    pub(super) ends: Ends,
    pub(super) link: LinkId,
    pub(super) since: Millis,
}

impl Paths {
    /// Notes that a node has a connection.
    pub(super) fn connected(&mut self, id: NodeId) {
        if !self.ring.contains(&id) {
            self.change_ring(id, |ring| ring.insert(id));
            if !self.figures.contains_key(&id) {
                self.without_figures.insert(id);
            }
        }
    }

    /// Notes that a node has no connection.
    pub(super) fn disconnected(&mut self, id: NodeId) {
        if self.ring.contains(&id) {
            self.change_ring(id, |ring| ring.remove(&id));
            self.without_figures.remove(&id);
        }
    }

    /// Drops a removed node with its figures and paths.
    pub(super) fn forget(&mut self, id: NodeId) {
        self.disconnected(id);
        let others: Vec<NodeId> = of_node(&self.known, id).collect();
        for other in others {
            self.measured.remove(&ends(id, other));
            self.failures.remove(&ends(id, other));
            self.known.remove(&(id, other));
            self.known.remove(&(other, id));
        }
        if let Some(measurement) = self.busy.get(&id).copied() {
            self.end(measurement);
        }
        self.figures.remove(&id);
        self.used.remove(&id);
    }

    /// Changes the set of connected nodes, and with it the wanted paths.
    fn change_ring(&mut self, id: NodeId, change: impl FnOnce(&mut BTreeSet<NodeId>) -> bool) {
        let all = self.ring.len() <= FEW;
        let before = followers(&self.ring, id, all);
        change(&mut self.ring);
        let after = followers(&self.ring, id, all);
        for &(a, b) in before.difference(&after) {
            self.wanted.remove(&(a, b));
            self.wanted.remove(&(b, a));
        }
        for &(a, b) in after.difference(&before) {
            if !self.measured.contains_key(&(a, b)) && !self.has_failed((a, b)) {
                self.wanted.extend([(a, b), (b, a)]);
            }
        }
    }

    fn has_failed(&self, ends: Ends) -> bool {
        self.failures.get(&ends).is_some_and(|failures| *failures >= FAILURES_MAX)
    }

    /// Returns the measurement of a path.
    pub(super) fn measured(&self, a: NodeId, b: NodeId) -> Option<&MeasuredPath> {
        self.measured.get(&ends(a, b))
    }

    /// Returns all measured paths.
    pub(super) fn all_measured(&self) -> impl Iterator<Item = (NodeId, NodeId, &MeasuredPath)> {
        counted(self.measured.iter().map(|(&(a, b), path)| (a, b, path)))
    }

    /// Returns a node's measurements within itself.
    pub(super) fn figures(&self, id: NodeId) -> Option<&NodeFigures> {
        self.figures.get(&id)
    }

    /// Sets a node's figures.
    pub(super) fn set_figures(&mut self, id: NodeId, figures: NodeFigures) {
        self.without_figures.remove(&id);
        self.figures.insert(id, figures);
    }

    /// Returns connected nodes without figures.
    pub(super) fn without_figures(&self) -> impl Iterator<Item = NodeId> {
        counted(self.without_figures.iter().copied())
    }

    /// Returns the wanted paths, beginning at `first` and wrapping around.
    pub(super) fn wanted_from(&self, first: (NodeId, NodeId)) -> impl Iterator<Item = Ends> {
        let paths = self.wanted.range(first..).chain(self.wanted.range(..first)).copied();
        counted(paths).filter(|(a, b)| a < b)
    }

    /// Returns the other ends of wanted paths from a node.
    pub(super) fn wanted_of(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        of_node(&self.wanted, id)
    }

    /// Whether a node is measuring a path.
    pub(super) fn is_busy(&self, id: NodeId) -> bool {
        self.busy.contains_key(&id)
    }

    /// Notes that a measurement has begun.
    pub(super) fn begin(&mut self, measurement: u64, under_way: RunningMeasurement) {
        let (a, b) = under_way.ends;
        self.busy.extend([(a, measurement), (b, measurement)]);
        self.under_way.insert(measurement, under_way);
    }

    /// Returns a measurement in flight.
    pub(super) fn under_way(&self, measurement: u64) -> Option<&RunningMeasurement> {
        self.under_way.get(&measurement)
    }

    /// Returns the oldest measurement in flight.
    pub(super) fn oldest(&self) -> Option<(u64, Millis)> {
        self.under_way.first_key_value().map(|(measurement, under_way)| (*measurement, under_way.since))
    }

    /// Removes a measurement. Returns its ends.
    pub(super) fn end(&mut self, measurement: u64) -> Option<Ends> {
        let RunningMeasurement { ends, .. } = self.under_way.remove(&measurement)?;
        self.busy.remove(&ends.0);
        self.busy.remove(&ends.1);
        Some(ends)
    }

    /// Notes the result of a measurement.
    pub(super) fn succeeded(&mut self, ends: Ends, path: MeasuredPath) {
        self.failures.remove(&ends);
        self.measured.insert(ends, path);
        self.note(ends);
    }

    /// Notes a failed measurement.
    pub(super) fn failed(&mut self, ends: Ends) {
        let failures = self.failures.entry(ends).or_default();
        *failures = failures.saturating_add(1);
        self.note(ends);
    }

    fn note(&mut self, (a, b): Ends) {
        self.known.extend([(a, b), (b, a)]);
        if self.measured.contains_key(&(a, b)) || self.has_failed((a, b)) {
            self.wanted.remove(&(a, b));
            self.wanted.remove(&(b, a));
        }
        self.trim();
    }

    /// Drops paths if there are too many. As nodes come and go, the followers of a node change, so that without a limit
    /// every pair of nodes could be kept. Only paths between present followers stay.
    fn trim(&mut self) {
        if self.measured.len().max(self.failures.len()) > PATHS_MAX {
            let followers = followers(&self.ring, NodeId(0), true);
            self.measured.retain(|ends, _| followers.contains(ends));
            self.failures.retain(|ends, _| followers.contains(ends));
            self.known.retain(|&(a, b)| followers.contains(&ends(a, b)));
        }
    }

    /// Checks the paths, see [`super::Cluster::check_invariants`].
    pub(super) fn check(&self, is_up: impl Fn(NodeId) -> bool, connected: &BTreeSet<NodeId>) -> Result<(), String> {
        let under_way = self.under_way.values().map(|under_way| &under_way.ends);
        let paths: BTreeSet<Ends> = self.measured.keys().chain(self.failures.keys()).copied().collect();
        if let Some((a, b)) = paths.iter().chain(under_way).find(|(a, b)| !(is_up(*a) && is_up(*b)) || a >= b) {
            return Err(format!("a path from {a} to {b} is known"));
        }
        if let Some(id) = self.figures.keys().chain(self.used.keys()).find(|id| !is_up(**id)) {
            return Err(format!("something is known of {id}, which is not up"));
        }
        let mut busy = BTreeMap::new();
        for (measurement, RunningMeasurement { ends: (a, b), .. }) in &self.under_way {
            if busy.insert(*a, *measurement).is_some() || busy.insert(*b, *measurement).is_some() {
                return Err(format!("{a} or {b} has two measurements at once"));
            }
        }
        let both_ways = |paths: &BTreeSet<Ends>| paths.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        let mut wanted = followers(connected, NodeId(0), true);
        wanted.retain(|ends| !self.measured.contains_key(ends) && !self.has_failed(*ends));
        let (known, wanted): (BTreeSet<_>, BTreeSet<_>) = (both_ways(&paths), both_ways(&wanted));
        let bare: BTreeSet<NodeId> = connected.iter().copied().filter(|id| !self.figures.contains_key(id)).collect();
        if (&busy, &known, &wanted) != (&self.busy, &self.known, &self.wanted)
            || (connected, &bare) != (&self.ring, &self.without_figures)
        {
            return Err(format!("{self:?} does not follow from the paths and {connected:?}"));
        }
        Ok(())
    }
}

/// Returns the other ends of a node's paths.
fn of_node(paths: &BTreeSet<(NodeId, NodeId)>, id: NodeId) -> impl Iterator<Item = NodeId> {
    counted(paths.range((id, NodeId(0))..=(id, NodeId(u32::MAX))).map(|(_, other)| *other))
}

/// Returns the paths from all nodes of a ring to their followers. If not `all`, only paths from `id` and from the nodes
/// that it follows, which are all that change when `id` joins or leaves the ring.
fn followers(ring: &BTreeSet<NodeId>, id: NodeId, all: bool) -> BTreeSet<Ends> {
    let nodes: Vec<NodeId> = if all {
        ring.iter().copied().collect()
    } else {
        let before = ring.range(..id).rev().chain(ring.range(id..).rev()).take(FOLLOWERS_END);
        let mut around: Vec<NodeId> = before.copied().collect();
        around.reverse();
        around.extend(ring.range(id..).chain(ring.range(..id)).take(FOLLOWERS_END + 1));
        around
    };
    let from = if all { nodes.len() } else { FOLLOWERS_END + usize::from(ring.contains(&id)) };
    let mut paths = BTreeSet::new();
    for (at, &node) in counted(nodes.iter().enumerate()).take(from) {
        let others = FOLLOWERS.iter().filter_map(|follower| nodes.get((at + follower) % nodes.len()));
        paths.extend(others.filter(|other| **other != node).map(|other| ends(node, *other)));
    }
    paths
}

pub(super) fn ends(a: NodeId, b: NodeId) -> Ends {
    (a.min(b), a.max(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::PathTimes;

    fn path() -> MeasuredPath {
        MeasuredPath { times: PathTimes::new(1, 1, 1), transport: String::new() }
    }

    #[test]
    fn paths_of_nodes_that_come_and_go_are_bounded() {
        let mut paths = Paths::default();
        (0..10).for_each(|id| paths.connected(NodeId(id)));
        let pair = |number: usize| (NodeId(7), NodeId(8 + u32::try_from(number).unwrap()));
        for number in 0..PATHS_MAX {
            paths.succeeded(pair(number), path());
        }
        assert_eq!((paths.measured.len(), paths.known.len()), (PATHS_MAX, 2 * PATHS_MAX));
        paths.succeeded(pair(PATHS_MAX), path());
        // Nodes 8 and 9 follow node 7.
        assert_eq!((paths.measured.len(), paths.known.len()), (2, 4));
    }

    #[test]
    fn nodes_that_come_and_go_are_measured_with_their_followers() {
        let mut paths = Paths::default();
        let mut random = 1_u64;
        let (mut most, mut nodes) = (0, BTreeSet::new());
        for step in 0..3_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = NodeId(u32::try_from((random >> 33) % 80).unwrap());
            match random >> 60 {
                0..9 => {
                    nodes.insert(id);
                    paths.connected(id);
                }
                9..13 => {
                    nodes.remove(&id);
                    paths.disconnected(id);
                }
                13 => {
                    nodes.remove(&id);
                    paths.forget(id);
                }
                of => {
                    let Some(ends) = paths.wanted_from((id, NodeId(0))).next() else { continue };
                    if of == 14 { paths.succeeded(ends, path()) } else { paths.failed(ends) }
                }
            }
            paths.check(|_| true, &nodes).unwrap_or_else(|why| panic!("step {step}: {why}"));
            most = most.max(nodes.len());
        }
        assert!(most > FEW + FOLLOWERS_END, "{most}");
    }
}
