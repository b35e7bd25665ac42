//! Figures of nodes and paths, and which of them to measure.
//!
//! Each node is measured with a few others; other paths of the same kind are estimated from these. A path is measured
//! while no session uses its nodes, and a node takes part in one measurement at a time.

use super::effect::{AgentOrder, Effect, PathOrder};
use super::input::LinkId;
use super::measured_path::MeasuredPath;
use super::node::Node;
use super::path_table::{Ends, RunningMeasurement, ends};
use super::session::Session;
use super::state::Cluster;
use super::steps::counted;
use super::time::Millis;
use accord_scheduler::Input;
use accord_scheduler::path_class::{Location, PathClass};
use accord_types::{NodeFigures, NodeId, PathTimes, Source};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

/// Timeout of a measurement.
const UNDER_WAY_MAX_MS: u64 = 10_000;
/// Time after a node's registration, and after its last session, in which it is not measured.
const QUIET_MS: u64 = 1_000;
/// Time for which a client may wait for figures after it requested them.
const HURRY_MS: u64 = 5_000;
/// Time within which another request counts as the same one.
const ASKED_PAUSE_MS: u64 = 200;
/// Most wanted paths that are visited at one time.
const CHECKS_MAX: usize = 512;
/// Most figures that are kept of one node.
const PAIRS_MAX: usize = 1_024;
/// Number of nodes up to which wanted paths are visited every tick; in larger clusters there is this pause.
const SMALL: usize = 64;
const LARGE_PAUSE_MS: u64 = 2_000;
/// The least pair of ends.
const FIRST: Ends = (NodeId(0), NodeId(0));
/// The bit that distinguishes numbers of measurements from those of sessions.
const MEASUREMENT: u64 = 1 << 63;

/// Estimated path times by kind.
type Estimates = BTreeMap<PathKind, MeasuredPath>;

/// The kind of a path; paths of one kind have similar times.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PathKind {
    /// Whether both nodes are ranks of one MPI world.
    one_world: bool,
    /// Whether both nodes have the same host address.
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
    /// Returns the times of a path: measured, or else estimated from paths of its kind. `None` if no path of its kind
    /// was measured.
    pub fn path(&self, a: NodeId, b: NodeId) -> Option<(MeasuredPath, Source)> {
        self.path_or(a, b, &LazyCell::new(|| self.estimates()))
    }

    /// Returns the times of all paths between these nodes, with one pass over the measured paths.
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
        if let Some(measured) = self.paths.measured(a, b) {
            return Some((measured.clone(), Source::Measured));
        }
        if a == b {
            return None;
        }
        let kind = PathKind::of(self.nodes.get(&a)?, self.nodes.get(&b)?);
        estimates.get(&kind).map(|path| (path.clone(), Source::Estimated))
    }

    /// Returns the median of the measured paths of each kind.
    fn estimates(&self) -> Estimates {
        let mut alike: BTreeMap<PathKind, Vec<&MeasuredPath>> = BTreeMap::new();
        for (a, b, path) in self.paths.all_measured() {
            if let Some((a, b)) = self.nodes.get(&a).zip(self.nodes.get(&b)) {
                alike.entry(PathKind::of(a, b)).or_default().push(path);
            }
        }
        let median = |paths: Vec<&MeasuredPath>| {
            let times = PathTimes::median(paths.iter().map(|path| &path.times))?;
            Some(MeasuredPath { times, transport: paths.first()?.transport.clone() })
        };
        alike.into_iter().filter_map(|(kind, paths)| Some((kind, median(paths)?))).collect()
    }

    /// Returns all measured paths.
    pub fn measured_paths(&self) -> impl Iterator<Item = (NodeId, NodeId, &MeasuredPath)> {
        self.paths.all_measured()
    }

    /// Returns a node's measurements within itself.
    pub fn figures(&self, node: NodeId) -> Option<&NodeFigures> {
        self.paths.figures(node)
    }

    /// Returns the number of missing measurements between nodes that are up and not in use.
    pub fn measuring(&self) -> usize {
        let free = |id: &NodeId| !self.sessions.has_node(*id);
        let paths = self.paths.wanted_from(FIRST).filter(|(a, b)| free(a) && free(b)).count();
        paths + self.paths.without_figures().filter(free).count()
    }

    /// Measures missing figures soon, because a client waits for them.
    pub(super) fn measure_soon(&mut self, now: Millis, out: &mut Vec<Effect>) {
        // Frequent requests have no further effect, so that agents are not flooded.
        if self.paths.hurry_until > now.plus(HURRY_MS - ASKED_PAUSE_MS) {
            return;
        }
        self.paths.hurry_until = now.plus(HURRY_MS);
        let links = self.paths.without_figures().filter_map(|id| self.nodes.get(&id)?.link());
        out.extend(links.map(|link| Effect::ToAgent(link, AgentOrder::MeasureNode)));
        self.measure_paths(now, out);
    }

    pub(super) fn node_measured(&mut self, now: Millis, link: LinkId, mut figures: NodeFigures, out: &mut Vec<Effect>) {
        let Some(id) = self.note_alive(now, link, out) else { return };
        figures.devices.truncate(self.limits.devices_per_node_max);
        figures.pairs.truncate(PAIRS_MAX);
        self.paths.set_figures(id, figures);
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
        if self.note_alive(now, link, out).is_none() {
            return;
        }
        // The report is late, or its measurement was not ordered.
        if self.paths.under_way(measurement).is_none_or(|under_way| under_way.link != link) {
            return;
        }
        let Some(ends) = self.paths.end(measurement) else { return };
        match path {
            Ok(path) => {
                self.note_class(now, ends, &path, out);
                self.paths.succeeded(ends, path);
            }
            Err(why) => {
                tracing::info!("the path from node {} to node {} could not be measured: {why}", ends.0.0, ends.1.0);
                self.paths.failed(ends);
            }
        }
        if self.nodes.connected().len() <= SMALL {
            self.measure_paths(now, out);
        } else {
            self.measure_paths_of(now, ends.0, out);
            self.measure_paths_of(now, ends.1, out);
        }
        out.push(Effect::Changed);
    }

    /// Updates the scheduler's path times of a class. A path within one machine does not count for the classes, which
    /// labels describe.
    fn note_class(&mut self, now: Millis, (a, b): Ends, path: &MeasuredPath, out: &mut Vec<Effect>) {
        let Some((a, b)) = self.nodes.get(&a).zip(self.nodes.get(&b)) else { return };
        if PathKind::of(a, b).one_machine {
            return;
        }
        let place = |node: &Node| -> Location<String> {
            let label = |name| node.machine.labels.by_name().get(name).cloned();
            (label("rack"), label("switch"))
        };
        let times = self.class_times.note(PathClass::between(&place(a), &place(b)), path.times);
        self.allocations.push(Input::PathTimes(times));
        self.schedule(now, out);
    }

    /// Visits wanted paths, in a large cluster not every tick.
    pub(super) fn check_measured_paths(&mut self, now: Millis, out: &mut Vec<Effect>) {
        let pause = if self.nodes.connected().len() > SMALL { LARGE_PAUSE_MS } else { 0 };
        if now.since(self.paths.looked) >= pause {
            self.paths.looked = now;
            self.measure_paths(now, out);
        }
    }

    /// Orders the measurements that are possible now, among a bounded number of wanted paths. The next call visits the
    /// following ones.
    pub(super) fn measure_paths(&mut self, now: Millis, out: &mut Vec<Effect>) {
        self.give_up_measurements(now);
        let mut wanted = self.paths.wanted_from(self.paths.next);
        let looked_at: Vec<Ends> = wanted.by_ref().take(CHECKS_MAX).collect();
        let next = wanted.next().unwrap_or(FIRST);
        drop(wanted);
        self.paths.next = next;
        for (a, b) in looked_at {
            self.measure(now, (a, b), out);
        }
    }

    /// Orders a wanted measurement from a node, if one is possible now.
    fn measure_paths_of(&mut self, now: Millis, id: NodeId, out: &mut Vec<Effect>) {
        let wanted: Vec<NodeId> = self.paths.wanted_of(id).collect();
        for other in wanted {
            self.measure(now, ends(id, other), out);
        }
    }

    /// Orders the measurement of a path unless something would disturb it.
    fn measure(&mut self, now: Millis, (a, b): Ends, out: &mut Vec<Effect>) {
        if self.paths.is_busy(a) || self.paths.is_busy(b) {
            return;
        }
        let Some((from, to)) = self.free(now, a).zip(self.free(now, b)) else { return };
        self.paths.last += 1;
        let measurement = MEASUREMENT | self.paths.last;
        self.paths.begin(measurement, RunningMeasurement { ends: (a, b), link: from, since: now });
        let address = self.nodes.get(&b).map(|node| node.address.clone()).unwrap_or_default();
        out.push(Effect::MeasurePath(PathOrder { measurement, from, to, to_node: b, address }));
    }

    /// Returns the connection of a quiet node, at which a measurement disturbs no program.
    fn free(&self, now: Millis, id: NodeId) -> Option<LinkId> {
        let node = self.nodes.get(&id)?;
        let used = self.paths.used.get(&id).copied();
        let hurries = now < self.paths.hurry_until;
        let is_quiet = |since: Millis| now.since(since) >= QUIET_MS;
        let in_use = self.sessions.has_node(id);
        let quiet = !in_use && (hurries || is_quiet(node.contact.linked) && used.is_none_or(is_quiet));
        node.link().filter(|_| quiet)
    }

    fn give_up_measurements(&mut self, now: Millis) {
        while let Some((measurement, _)) = self.paths.oldest().filter(|(_, at)| now.since(*at) >= UNDER_WAY_MAX_MS) {
            if let Some(ends) = self.paths.end(measurement) {
                self.paths.failed(ends);
            }
        }
    }

    /// Keeps the nodes of an ended session from being measured for a while.
    pub(super) fn note_use(&mut self, now: Millis, session: &Session) {
        for id in counted(session.nodes.keys()) {
            if !self.sessions.has_node(*id) && self.nodes.get(id).is_some_and(Node::is_up) {
                self.paths.used.insert(*id, now);
            }
        }
    }

    /// Checks the paths, see [`Cluster::check_invariants`].
    pub(super) fn check_paths(&self) -> Result<(), String> {
        self.paths.check(|id| self.nodes.get(&id).is_some_and(Node::is_up), self.nodes.connected())
    }
}
