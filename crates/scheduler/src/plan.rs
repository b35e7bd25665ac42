//! Plans the earliest start of a request that can't start now. It uses devices that are known to be free by then for
//! the duration of its lease, on nodes whose cores and host memory suffice by then.
//!
//! Shares are planned as whole devices. No start is planned before another reserved start, so that none delays another.
//! A start may be planned before a reservation or between two.

use crate::bitset::BitSet;
use crate::ids::ClassId;
use crate::merged::merged;
use crate::pool::{CHUNK_MAX, ClassIndex, HostResources, Pool, Spot, Window};
use crate::request::Locality;
use crate::search::{Layout, PartDemand};
use crate::time::{Millis, RELEASE_EXPECTED_MS};
use std::collections::{BTreeMap, BTreeSet};

/// A start with its devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) starts: Millis,
    pub(crate) spots: Vec<Spot>,
}

/// The inputs of planning, without the demand.
#[derive(Clone, Copy)]
pub(crate) struct Planner<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) origin: Option<u32>,
    pub(crate) nodes: Option<&'a BitSet>,
    pub(crate) layout: Layout,
    pub(crate) now: Millis,
    /// The duration of the job's lease.
    pub(crate) lease_ms: u64,
}

impl Planner<'_> {
    /// Returns the earliest start of all parts together, with their least counts, that is not before `from`; `None` if
    /// none is known. A start at `now` or before is moved to a little later ([`RELEASE_EXPECTED_MS`]).
    pub(crate) fn plan(&self, parts: &[PartDemand], from: Millis) -> Option<Plan> {
        let classes: BTreeSet<ClassId> = parts.iter().map(|part| part.class).collect();
        if classes.len() < parts.len() {
            return None;
        }
        let lists = classes.iter().flat_map(|class| self.pool.index[class.index()].available.keys());
        let windows: BTreeSet<Window> = lists.flatten().copied().collect();
        if windows.is_empty() {
            let plan = Open { planner: self, starts: Millis(0) }.plan(parts)?;
            return Some(Plan { starts: plan.starts.max(from), ..plan });
        }
        // Between two of these times the same reservations block all starts.
        let first_in_the_way = |window: &Window| Millis((window.starts.0 + 1).saturating_sub(self.lease_ms));
        let mut changes: BTreeSet<Millis> =
            windows.iter().flat_map(|window| [first_in_the_way(window), window.ends]).collect();
        let soon = self.now.plus(RELEASE_EXPECTED_MS);
        let mut stage = if from <= self.now { (from, soon) } else { (from, from) };
        changes = changes.split_off(&stage.0.max(self.now).plus(1));
        changes.extend((from <= self.now).then(|| self.now.plus(1)));
        loop {
            let (first, starts) = stage;
            let next = changes.pop_first();
            let plan = Open { planner: self, starts }.plan(parts);
            if let Some(plan) = plan.map(|plan| Plan { starts: plan.starts.max(first), ..plan })
                && next.is_none_or(|next| plan.starts < next)
            {
                return Some(plan);
            }
            stage = (next?, next?);
        }
    }

    fn allows(&self, node: u32) -> bool {
        self.pool.step();
        self.nodes.is_none_or(|nodes| nodes.contains(node))
    }
}

/// Plans on devices whose reservations do not block a given start.
struct Open<'a> {
    planner: &'a Planner<'a>,
    starts: Millis,
}

impl Open<'_> {
    fn pool(&self) -> &Pool {
        self.planner.pool
    }

    fn is_open(&self, windows: &[Window]) -> bool {
        windows.iter().all(|window| window.leaves(self.starts, self.planner.lease_ms))
    }

    /// Returns the time at which devices for all parts become available, with the cores and host memory of their nodes.
    fn plan(&self, parts: &[PartDemand]) -> Option<Plan> {
        if !self.may_fit(parts) {
            return None;
        }
        let mut whole = Plan { starts: Millis(0), spots: Vec::new() };
        if let Layout::Nodes(nodes) = self.planner.layout {
            return self.on_nodes(parts, nodes);
        }
        let mut taken: BTreeMap<u32, HostResources> = BTreeMap::new();
        for part in parts {
            let plan = match self.planner.layout {
                Layout::Any(Locality::Local) => self.on_own(part, &taken),
                Layout::Any(_) | Layout::Nodes(_) => self.anywhere(part, &taken),
                Layout::Chunks(_) if parts.len() > 1 => None,
                Layout::Chunks(chunks) => self.in_chunks(part, chunks),
            }?;
            for spot in &plan.spots {
                let of_node = taken.entry(spot.node).or_default();
                *of_node = of_node.plus(part.host_resources(), 1);
            }
            whole.add(plan);
        }
        Some(whole)
    }

    /// Whether enough devices and nodes are open for the parts, ignoring which of them the job may use. This check only
    /// adds sizes up. A plan is tried at every begin and end of a reservation, and most attempts fail here.
    fn may_fit(&self, parts: &[PartDemand]) -> bool {
        let chunks = if let Layout::Chunks(chunks) = self.planner.layout { chunks as usize } else { 1 };
        let has_devices =
            |part: &PartDemand| (part.count.least as usize).saturating_mul(chunks) <= self.open_devices(part.class);
        let has_nodes = match (self.planner.layout, parts.first()) {
            (Layout::Nodes(nodes), Some(part)) => {
                nodes as usize <= self.open_nodes(part.class, part.count.least.div_ceil(nodes))
            }
            _ => true,
        };
        has_nodes && parts.iter().all(has_devices)
    }

    /// Returns the number of open devices of a class.
    fn open_devices(&self, class: ClassId) -> usize {
        let by_windows = self.pool().index[class.index()].available.iter();
        by_windows.filter(|(windows, _)| self.is_open(windows)).map(|(_, available)| available.len()).sum()
    }

    /// Returns an upper bound for the number of nodes in [`Self::nodes_by_time`].
    fn open_nodes(&self, class: ClassId, count: u32) -> usize {
        let ClassIndex { chunks, mixed, .. } = &self.pool().index[class.index()];
        let at = (count as usize).wrapping_sub(1);
        let open = chunks.iter().filter(|(windows, _)| self.is_open(windows));
        let same: usize = open.filter_map(|(_, chunks)| Some(chunks.get(at)?.len())).sum();
        same + mixed.iter().count()
    }

    /// Plans devices of any nodes, of which earlier parts have `taken` something.
    fn anywhere(&self, part: &PartDemand, taken: &BTreeMap<u32, HostResources>) -> Option<Plan> {
        let by_windows = self.pool().index[part.class.index()].available.iter();
        let open = by_windows.filter(|(windows, _)| self.is_open(windows)).map(|(_, available)| available.iter());
        let allowed = merged(open.collect()).copied().filter(|(_, spot)| self.planner.allows(spot.node));
        let mut taken = taken.clone();
        let start = |time: Millis, spot: Spot| {
            if part.host_resources() == HostResources::default() {
                return Some(time);
            }
            let needed = taken.get(&spot.node).copied().unwrap_or_default().plus(part.host_resources(), 1);
            let from = self.pool().host_resources_from(spot.node, needed)?;
            taken.insert(spot.node, needed);
            Some(time.max(from))
        };
        let first: Vec<(Millis, Spot)> = by_start(allowed, start).take(part.count.least as usize).collect();
        if first.len() < part.count.least as usize {
            return None;
        }
        let starts = first.last()?.0;
        Some(Plan { starts, spots: first.into_iter().map(|(_, spot)| spot).collect() })
    }

    fn on_own(&self, part: &PartDemand, taken: &BTreeMap<u32, HostResources>) -> Option<Plan> {
        let own = self.planner.origin.filter(|&own| self.planner.allows(own))?;
        let taken = taken.get(&own).copied().unwrap_or_default();
        self.on_node(own, [(part, part.count.least)], taken)
    }

    /// Plans devices of one node, of which earlier parts have `taken` something.
    fn on_node<'p>(
        &self,
        node: u32,
        parts: impl IntoIterator<Item = (&'p PartDemand, u32)>,
        mut taken: HostResources,
    ) -> Option<Plan> {
        let mut whole = Plan { starts: Millis(0), spots: Vec::new() };
        for (part, count) in parts {
            whole.add(self.first_of(node, part, count)?);
            taken = taken.plus(part.host_resources(), count);
        }
        whole.starts = whole.starts.max(self.pool().host_resources_from(node, taken)?);
        Some(whole)
    }

    /// Returns the devices of a node that become available first.
    fn first_of(&self, node: u32, part: &PartDemand, count: u32) -> Option<Plan> {
        let devices = &self.pool().node(node).devices;
        let mut times: Vec<(Millis, Spot)> = Vec::with_capacity(devices.len());
        for (at, device) in devices.iter().enumerate() {
            let time = device.filed_time();
            if device.class == part.class && time != Millis::NEVER && self.is_open(&device.windows) {
                times.push((time, Spot { node, device: u32::try_from(at).ok()? }));
            }
        }
        times.sort_unstable();
        times.truncate(count as usize);
        (times.len() == count as usize).then_some(())?;
        let starts = times.last()?.0;
        Some(Plan { starts, spots: times.into_iter().map(|(_, spot)| spot).collect() })
    }

    /// Returns the nodes with enough devices of a part, by the time at which the last of these becomes available.
    fn nodes_by_time(&self, part: &PartDemand, count: u32) -> impl Iterator<Item = (Millis, u32)> {
        let ClassIndex { chunks, mixed, .. } = &self.pool().index[part.class.index()];
        let is_indexed = (1..=CHUNK_MAX).contains(&(count as usize));
        let open = chunks.iter().filter(|(windows, _)| is_indexed && self.is_open(windows));
        let same = open.filter_map(|(_, chunks)| Some(chunks.get(count as usize - 1)?.iter().copied()));
        let mixed = mixed.iter().filter(|_| is_indexed).inspect(|_| self.pool().step());
        let mixed: BTreeSet<(Millis, u32)> =
            mixed.filter_map(|node| Some((self.first_of(node, part, count)?.starts, node))).collect();
        let same: Vec<Box<dyn Iterator<Item = (Millis, u32)>>> =
            same.map(|nodes| Box::new(nodes) as Box<dyn Iterator<Item = _>>).collect();
        let all = same.into_iter().chain([Box::new(mixed.into_iter()) as Box<dyn Iterator<Item = _>>]);
        merged(all.collect()).filter(|&(_, node)| self.planner.allows(node))
    }

    fn on_nodes(&self, parts: &[PartDemand], nodes: u32) -> Option<Plan> {
        let counts: Vec<u32> = parts.iter().map(|part| part.count.least.div_ceil(nodes)).collect();
        let on = |node: u32| self.on_node(node, parts.iter().zip(counts.iter().copied()), HostResources::default());
        let by_time = self.nodes_by_time(parts.first()?, *counts.first()?);
        let mut whole = Plan { starts: Millis(0), spots: Vec::new() };
        let mut found = 0;
        for (_, node) in by_start(by_time, |_, node| Some(on(node)?.starts)).take(nodes as usize) {
            whole.add(on(node)?);
            found += 1;
        }
        (found == nodes).then_some(whole)
    }

    /// Plans as many chunks on each node as it has devices, cores and host memory for.
    fn in_chunks(&self, part: &PartDemand, chunks: u32) -> Option<Plan> {
        let count = part.count.least;
        let on =
            |node: u32, fits: u32| self.on_node(node, [(part, count.saturating_mul(fits))], HostResources::default());
        let mut whole = Plan { starts: Millis(0), spots: Vec::new() };
        let mut left = chunks;
        for (_, node) in by_start(self.nodes_by_time(part, count), |_, node| Some(on(node, 1)?.starts)) {
            if left == 0 {
                break;
            }
            let there = u32::try_from(self.pool().node(node).devices.len()).unwrap_or(u32::MAX);
            let most = left.min(there / count.max(1)).max(1);
            let (fits, plan) = (1..=most).rev().find_map(|fits| Some((fits, on(node, fits)?)))?;
            left -= fits;
            whole.add(plan);
        }
        (left == 0).then_some(whole)
    }
}

impl Plan {
    /// Adds devices that are needed together with these.
    fn add(&mut self, other: Self) {
        self.starts = self.starts.max(other.starts);
        self.spots.extend(other.spots);
    }
}

/// Orders items by their starts, which are not before their times. `items` are ordered by times, and equal ones by the
/// items. Items without a start are left out.
fn by_start<T: Copy + Ord>(
    items: impl Iterator<Item = (Millis, T)>,
    mut start: impl FnMut(Millis, T) -> Option<Millis>,
) -> impl Iterator<Item = (Millis, T)> {
    let mut items = items.peekable();
    let mut started: BTreeSet<(Millis, T)> = BTreeSet::new();
    std::iter::from_fn(move || {
        loop {
            let next = items.peek();
            if started.first().is_some_and(|first| next.is_none_or(|next| first < next)) {
                return started.pop_first();
            }
            let (time, item) = items.next()?;
            started.extend(start(time, item).map(|start| (start, item)));
        }
    })
}
