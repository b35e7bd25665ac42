//! The route table: what nodes and the paths between them take, and which paths are measured.
//!
//! Each node is measured with a few others; the other paths of the same kind are like those. A path is measured while no session uses its
//! nodes, and a node has at most one measurement at a time.

use super::effect::{AgentOrder, Effect, PathOrder};
use super::input::LinkId;
use super::measured_path::MeasuredPath;
use super::node::Node;
use super::path_table::{Ends, Paths, UnderWay};
use super::state::Cluster;
use super::time::Millis;
use accord_types::{NodeFigures, NodeId, PathTimes, Source};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that each node is measured with, as they follow it in the order of their numbers.
const FOLLOWERS: [usize; 4] = [1, 2, 4, 8];
/// What takes longer counts as failed.
const UNDER_WAY_MAX_MS: u64 = 10_000;
/// So long after it came, and after its last session, a node is left alone.
const QUIET_MS: u64 = 1_000;
/// So long after somebody has asked, nobody waits for that.
const HURRY_MS: u64 = 5_000;
/// So long after that a question counts as the same one.
const ASKED_PAUSE_MS: u64 = 200;
/// After so many failures a path is left alone.
const FAILURES_MAX: u8 = 2;
/// Figures of one node that are kept at most.
const PAIRS_MAX: usize = 1_024;
/// Up to so many nodes it is looked at every tick what can be measured, and else so often.
const SMALL: usize = 64;
const LARGE_PAUSE_MS: u64 = 2_000;
/// Set in the numbers of measurements, and in no session's.
const MEASUREMENT: u64 = 1 << 63;

/// What paths of each kind take, of which some were measured.
type Estimates = BTreeMap<PathKind, MeasuredPath>;

/// Paths of one kind are like each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PathKind {
    /// Both are ranks of one MPI world.
    one_world: bool,
    /// Both are reached at one address.
    one_machine: bool,
}

impl PathKind {
    fn of(a: &Node, b: &Node) -> Self {
        let host = |node: &Node| node.address.rsplit_once(':').map(|(host, _)| host.to_owned());
        Self {
            one_world: !a.world.is_empty() && a.world == b.world,
            one_machine: host(a).is_some() && host(a) == host(b),
        }
    }
}

impl Cluster {
    /// What a path takes: as it was measured, else as others of its kind. None if none of its kind was.
    pub fn path(&self, a: NodeId, b: NodeId) -> Option<(MeasuredPath, Source)> {
        self.path_or(a, b, &LazyCell::new(|| self.estimates()))
    }

    /// The same for all paths between these nodes. Measured paths are looked through once.
    pub fn paths_between(&self, nodes: &BTreeSet<NodeId>) -> Vec<(NodeId, NodeId, MeasuredPath, Source)> {
        let estimates = LazyCell::new(|| self.estimates());
        let pairs = nodes.iter().flat_map(|&b| nodes.range(..b).map(move |&a| (a, b)));
        pairs.filter_map(|(a, b)| self.path_or(a, b, &estimates).map(|(path, source)| (a, b, path, source))).collect()
    }

    fn path_or<F: FnOnce() -> Estimates>(
        &self,
        a: NodeId,
        b: NodeId,
        estimates: &LazyCell<Estimates, F>,
    ) -> Option<(MeasuredPath, Source)> {
        if let Some(measured) = self.paths.measured.get(&ends(a, b)) {
            return Some((measured.clone(), Source::Measured));
        }
        if a == b {
            return None;
        }
        let kind = PathKind::of(self.nodes.get(&a)?, self.nodes.get(&b)?);
        estimates.get(&kind).map(|path| (path.clone(), Source::Estimated))
    }

    /// The median of the measured paths of each kind.
    fn estimates(&self) -> Estimates {
        let mut alike: BTreeMap<PathKind, Vec<&MeasuredPath>> = BTreeMap::new();
        for ((a, b), path) in &self.paths.measured {
            if let Some((a, b)) = self.nodes.get(a).zip(self.nodes.get(b)) {
                alike.entry(PathKind::of(a, b)).or_default().push(path);
            }
        }
        let median = |paths: Vec<&MeasuredPath>| {
            let times = PathTimes::median(paths.iter().map(|path| &path.times))?;
            Some(MeasuredPath { times, transport: paths.first()?.transport.clone() })
        };
        alike.into_iter().filter_map(|(kind, paths)| Some((kind, median(paths)?))).collect()
    }

    /// All paths that were measured.
    pub fn measured_paths(&self) -> impl Iterator<Item = (NodeId, NodeId, &MeasuredPath)> {
        self.paths.measured.iter().map(|(&(a, b), path)| (a, b, path))
    }

    /// What a node has measured within itself.
    pub fn figures(&self, node: NodeId) -> Option<&NodeFigures> {
        self.paths.figures.get(&node)
    }

    /// How much is still to be measured that can be: nodes are up, and no session uses them.
    pub fn measuring(&self) -> usize {
        let free =
            |id: &NodeId| self.nodes.get(id).is_some_and(|node| node.link().is_some()) && !self.sessions.has_node(*id);
        let paths = self.wanted().into_iter().filter(|(a, b)| free(a) && free(b)).count();
        let nodes = self.nodes.keys().filter(|id| free(id) && !self.paths.figures.contains_key(id)).count();
        paths + nodes
    }

    /// Somebody waits for figures.
    pub(super) fn measure_soon(&mut self, now: Millis, out: &mut Vec<Effect>) {
        // Who asks all the time has no more of it: agents are not told that often.
        if self.paths.hurry_until > now.plus(HURRY_MS - ASKED_PAUSE_MS) {
            return;
        }
        self.paths.hurry_until = now.plus(HURRY_MS);
        self.paths.settled = false;
        for node in self.nodes.values() {
            if let Some(link) = node.link().filter(|_| !self.paths.figures.contains_key(&node.id)) {
                out.push(Effect::ToAgent(link, AgentOrder::MeasureNode));
            }
        }
        self.measure_paths(now, out);
    }

    /// A node came, or has no session any more: paths may be measured that could not be before.
    pub(super) fn paths_changed(&mut self) {
        self.paths.settled = false;
    }

    /// A node is gone, and what was known of it.
    pub(super) fn forget_paths(&mut self, id: NodeId) {
        let is_of = |&(a, b): &Ends| a == id || b == id;
        self.paths.measured.retain(|ends, _| !is_of(ends));
        self.paths.failures.retain(|ends, _| !is_of(ends));
        self.paths.under_way.retain(|_, under_way| !is_of(&under_way.ends));
        self.paths.figures.remove(&id);
        self.paths.used.remove(&id);
        self.paths.settled = false;
    }

    pub(super) fn node_measured(&mut self, now: Millis, link: LinkId, mut figures: NodeFigures, out: &mut Vec<Effect>) {
        let Some(id) = self.hear(now, link, out) else { return };
        figures.devices.truncate(self.limits.devices_per_node_max);
        figures.pairs.truncate(PAIRS_MAX);
        self.paths.figures.insert(id, figures);
        out.push(Effect::Changed);
    }

    pub(super) fn path_measured(
        &mut self,
        now: Millis,
        link: LinkId,
        measurement: u64,
        path: Result<MeasuredPath, String>,
        out: &mut Vec<Effect>,
    ) {
        if self.hear(now, link, out).is_none() {
            return;
        }
        // One that came too late, or that nobody has ordered.
        if self.paths.under_way.get(&measurement).is_none_or(|under_way| under_way.link != link) {
            return;
        }
        let Some(UnderWay { ends, .. }) = self.paths.under_way.remove(&measurement) else { return };
        match path {
            Ok(path) => {
                self.paths.failures.remove(&ends);
                self.paths.measured.insert(ends, path);
            }
            Err(why) => {
                tracing::info!("the path from node {} to node {} could not be measured: {why}", ends.0.0, ends.1.0);
                self.paths.failed(ends);
            }
        }
        self.paths.settled = false;
        self.trim_paths();
        self.measure_paths(now, out);
        out.push(Effect::Changed);
    }

    fn trim_paths(&mut self) {
        let Self { paths, nodes, .. } = self;
        paths.trim(|| followers(nodes));
    }

    /// Time has passed. In a large cluster it is not looked each time.
    pub(super) fn look_at_paths(&mut self, now: Millis, out: &mut Vec<Effect>) {
        let pause = if self.nodes.len() > SMALL { LARGE_PAUSE_MS } else { 0 };
        if now.since(self.paths.looked) >= pause {
            self.paths.looked = now;
            self.measure_paths(now, out);
        }
    }

    /// Orders what can be measured now.
    pub(super) fn measure_paths(&mut self, now: Millis, out: &mut Vec<Effect>) {
        self.give_up_measurements(now);
        if self.paths.settled {
            return;
        }
        for id in self.sessions.nodes() {
            if self.nodes.get(&id).is_some_and(Node::is_up) {
                self.paths.used.insert(id, now);
            }
        }
        let mut busy: BTreeSet<NodeId> =
            self.paths.under_way.values().flat_map(|under_way| [under_way.ends.0, under_way.ends.1]).collect();
        let wanted = self.wanted();
        self.paths.settled = wanted.is_empty();
        for (a, b) in wanted {
            if busy.contains(&a) || busy.contains(&b) {
                continue;
            }
            let Some((from, to)) = self.free(now, a).zip(self.free(now, b)) else { continue };
            busy.extend([a, b]);
            self.paths.last += 1;
            let measurement = MEASUREMENT | self.paths.last;
            self.paths.under_way.insert(measurement, UnderWay { ends: (a, b), link: from, since: now });
            let address = self.nodes.get(&b).map(|node| node.address.clone()).unwrap_or_default();
            out.push(Effect::MeasurePath(PathOrder { measurement, from, to, to_node: b, address }));
        }
    }

    /// The connection of a node that nothing is disturbed on.
    fn free(&self, now: Millis, id: NodeId) -> Option<LinkId> {
        let node = self.nodes.get(&id)?;
        let used = self.paths.used.get(&id).copied();
        let hurries = now < self.paths.hurry_until;
        let is_quiet = |since: Millis| now.since(since) >= QUIET_MS;
        // What uses it now was just noted.
        let in_use = used == Some(now);
        let quiet = !in_use && (hurries || is_quiet(node.linked) && used.is_none_or(is_quiet));
        node.link().filter(|_| quiet)
    }

    /// Paths that are to be measured and were not.
    fn wanted(&self) -> BTreeSet<Ends> {
        let mut wanted = followers(&self.nodes);
        wanted.retain(|ends| {
            let has_failed = self.paths.failures.get(ends).is_some_and(|failures| *failures >= FAILURES_MAX);
            !self.paths.measured.contains_key(ends) && !has_failed
        });
        wanted
    }

    fn give_up_measurements(&mut self, now: Millis) {
        let is_late = |under_way: &UnderWay| now.since(under_way.since) >= UNDER_WAY_MAX_MS;
        let late: Vec<u64> =
            self.paths.under_way.iter().filter(|(_, under_way)| is_late(under_way)).map(|(id, _)| *id).collect();
        for measurement in late {
            if let Some(under_way) = self.paths.under_way.remove(&measurement) {
                self.paths.failed(under_way.ends);
                self.paths.settled = false;
            }
        }
        self.trim_paths();
    }

    /// See [`Cluster::check_invariants`].
    pub(super) fn check_paths(&self) -> Result<(), String> {
        let Paths { measured, failures, under_way, figures, used, .. } = &self.paths;
        let is_up = |id: &NodeId| self.nodes.get(id).is_some_and(Node::is_up);
        let known = measured.keys().chain(failures.keys()).chain(under_way.values().map(|under_way| &under_way.ends));
        if let Some((a, b)) = known.into_iter().find(|(a, b)| !(is_up(a) && is_up(b)) || a >= b) {
            return Err(format!("a path from {a} to {b} is known"));
        }
        if let Some(id) = figures.keys().chain(used.keys()).find(|id| !is_up(id)) {
            return Err(format!("something is known of {id}, which is not up"));
        }
        let mut busy = BTreeSet::new();
        for UnderWay { ends: (a, b), .. } in under_way.values() {
            if !busy.insert(*a) || !busy.insert(*b) {
                return Err(format!("{a} or {b} has two measurements at once"));
            }
        }
        Ok(())
    }
}

/// The paths from each node that is connected to those that it is measured with.
fn followers(nodes: &BTreeMap<NodeId, Node>) -> BTreeSet<Ends> {
    let up: Vec<NodeId> = nodes.values().filter(|node| node.link().is_some()).map(|node| node.id).collect();
    let mut all = BTreeSet::new();
    for (index, &id) in up.iter().enumerate() {
        for follower in FOLLOWERS {
            if let Some(&other) = up.get((index + follower) % up.len()).filter(|other| **other != id) {
                all.insert(ends(id, other));
            }
        }
    }
    all
}

fn ends(a: NodeId, b: NodeId) -> Ends {
    (a.min(b), a.max(b))
}
