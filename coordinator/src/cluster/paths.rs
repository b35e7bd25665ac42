//! The route table: what nodes and the paths between them take, and which paths are measured.
//!
//! Each node is measured with a few others; the other paths of the same kind are like those. A path is measured while no session uses its
//! nodes, and a node has at most one measurement at a time.

use super::effect::{AgentOrder, Effect, PathOrder};
use super::input::LinkId;
use super::measured_path::MeasuredPath;
use super::node::Node;
use super::path_table::{Ends, UnderWay, ends};
use super::session::Session;
use super::state::Cluster;
use super::steps::counted;
use super::time::Millis;
use accord_scheduler::Input;
use accord_scheduler::path_class::{Location, PathClass};
use accord_types::{NodeFigures, NodeId, PathTimes, Source};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

/// What takes longer counts as failed.
const UNDER_WAY_MAX_MS: u64 = 10_000;
/// So long after it came, and after its last session, a node is left alone.
const QUIET_MS: u64 = 1_000;
/// How long after a question for figures the client may still wait for them.
const HURRY_MS: u64 = 5_000;
/// So long after that a question counts as the same one.
const ASKED_PAUSE_MS: u64 = 200;
/// So many wanted paths are looked at at one time.
const LOOKS_MAX: usize = 512;
/// Figures of one node that are kept at most.
const PAIRS_MAX: usize = 1_024;
/// Up to so many nodes it is looked at every tick what can be measured, and else so often.
const SMALL: usize = 64;
const LARGE_PAUSE_MS: u64 = 2_000;
/// Before all paths.
const FIRST: Ends = (NodeId(0), NodeId(0));
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
    /// Returns the times of a path: as it was measured, else those of others of its kind. `None` if none of its kind
    /// was.
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
        if let Some(measured) = self.paths.measured(a, b) {
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

    /// All paths that were measured.
    pub fn measured_paths(&self) -> impl Iterator<Item = (NodeId, NodeId, &MeasuredPath)> {
        self.paths.all_measured()
    }

    /// Returns a node's measurements within itself.
    pub fn figures(&self, node: NodeId) -> Option<&NodeFigures> {
        self.paths.figures(node)
    }

    /// Returns the number of measurements that are possible and missing: of nodes that are up and that no session uses.
    pub fn measuring(&self) -> usize {
        let free = |id: &NodeId| !self.sessions.has_node(*id);
        let paths = self.paths.wanted_from(FIRST).filter(|(a, b)| free(a) && free(b)).count();
        paths + self.paths.without_figures().filter(free).count()
    }

    /// Measures figures soon, as a client waits for them.
    pub(super) fn measure_soon(&mut self, now: Millis, out: &mut Vec<Effect>) {
        // Who asks all the time has no more of it: agents are not told that often.
        if self.paths.hurry_until > now.plus(HURRY_MS - ASKED_PAUSE_MS) {
            return;
        }
        self.paths.hurry_until = now.plus(HURRY_MS);
        let links = self.paths.without_figures().filter_map(|id| self.nodes.get(&id)?.link());
        out.extend(links.map(|link| Effect::ToAgent(link, AgentOrder::MeasureNode)));
        self.measure_paths(now, out);
    }

    pub(super) fn node_measured(&mut self, now: Millis, link: LinkId, mut figures: NodeFigures, out: &mut Vec<Effect>) {
        let Some(id) = self.hear(now, link, out) else { return };
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
        if self.hear(now, link, out).is_none() {
            return;
        }
        // A report that came too late, or was not ordered.
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

    /// Tells the scheduler what paths of each class take. A path within one machine says nothing of those that labels describe.
    fn note_class(&mut self, now: Millis, (a, b): Ends, path: &MeasuredPath, out: &mut Vec<Effect>) {
        let Some((a, b)) = self.nodes.get(&a).zip(self.nodes.get(&b)) else { return };
        if PathKind::of(a, b).one_machine {
            return;
        }
        let place = |node: &Node| -> Location<String> {
            let label = |name| node.labels.by_name().get(name).cloned();
            (label("rack"), label("switch"))
        };
        let times = self.class_times.note(PathClass::between(&place(a), &place(b)), path.times);
        self.allocations.push(Input::PathTimes(times));
        self.schedule(now, out);
    }

    /// Time has passed. In a large cluster it is not looked each time.
    pub(super) fn look_at_paths(&mut self, now: Millis, out: &mut Vec<Effect>) {
        let pause = if self.nodes.connected().len() > SMALL { LARGE_PAUSE_MS } else { 0 };
        if now.since(self.paths.looked) >= pause {
            self.paths.looked = now;
            self.measure_paths(now, out);
        }
    }

    /// Orders what can be measured now, of a bounded number of wanted paths: the next call looks at the next ones.
    pub(super) fn measure_paths(&mut self, now: Millis, out: &mut Vec<Effect>) {
        self.give_up_measurements(now);
        let mut wanted = self.paths.wanted_from(self.paths.next);
        let looked_at: Vec<Ends> = wanted.by_ref().take(LOOKS_MAX).collect();
        let next = wanted.next().unwrap_or(FIRST);
        drop(wanted);
        self.paths.next = next;
        for (a, b) in looked_at {
            self.measure(now, (a, b), out);
        }
    }

    /// Orders a measurement of a path from a node, if one is wanted that can be measured now.
    fn measure_paths_of(&mut self, now: Millis, id: NodeId, out: &mut Vec<Effect>) {
        let wanted: Vec<NodeId> = self.paths.wanted_of(id).collect();
        for other in wanted {
            self.measure(now, ends(id, other), out);
        }
    }

    /// Orders the measurement of a path if nothing disturbs it.
    fn measure(&mut self, now: Millis, (a, b): Ends, out: &mut Vec<Effect>) {
        if self.paths.is_busy(a) || self.paths.is_busy(b) {
            return;
        }
        let Some((from, to)) = self.free(now, a).zip(self.free(now, b)) else { return };
        self.paths.last += 1;
        let measurement = MEASUREMENT | self.paths.last;
        self.paths.begin(measurement, UnderWay { ends: (a, b), link: from, since: now });
        let address = self.nodes.get(&b).map(|node| node.address.clone()).unwrap_or_default();
        out.push(Effect::MeasurePath(PathOrder { measurement, from, to, to_node: b, address }));
    }

    /// The connection of a node that nothing is disturbed on.
    fn free(&self, now: Millis, id: NodeId) -> Option<LinkId> {
        let node = self.nodes.get(&id)?;
        let used = self.paths.used.get(&id).copied();
        let hurries = now < self.paths.hurry_until;
        let is_quiet = |since: Millis| now.since(since) >= QUIET_MS;
        let in_use = self.sessions.has_node(id);
        let quiet = !in_use && (hurries || is_quiet(node.linked) && used.is_none_or(is_quiet));
        node.link().filter(|_| quiet)
    }

    fn give_up_measurements(&mut self, now: Millis) {
        while let Some((measurement, _)) = self.paths.oldest().filter(|(_, at)| now.since(*at) >= UNDER_WAY_MAX_MS) {
            if let Some(ends) = self.paths.end(measurement) {
                self.paths.failed(ends);
            }
        }
    }

    /// A session has ended: until a while later nothing is measured on its nodes.
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
