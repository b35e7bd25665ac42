//! Finds devices for a request that can start now: best fit.
//!
//! First among devices that are not set aside, then also among those that are set aside later than the job's end. Within
//! each: the program's own node; the node with the fewest free devices that has enough, the first by position among equals; the
//! fewest nodes, largest first; of nodes those first to which paths from the program's own node are fastest. `near` takes nodes of one rack or
//! switch instead, also for ranks and for a given number of nodes, and `spread` as many nodes as possible, also for ranks.

mod laid_out;
mod taking;

use crate::amount::Amount;
use crate::bitset::BitSet;
pub(crate) use crate::demand::{Layout, PartDemand, Pick, carries, pick_of};
use crate::ids::ClassId;
use crate::merged::merged;
use crate::placement::topology::Shape;
use crate::pool::{ClassIndex, HostResources, NodeSet, Pool, Spot};
use crate::request::{Locality, Take};
use crate::time::Millis;
use std::collections::BTreeSet;

/// The inputs of a search, without the demand.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) now: Millis,
    /// The job's end if it starts now.
    pub(crate) until: Millis,
    /// The program's own node.
    pub(crate) origin: Option<u32>,
    /// The nodes that may be used; `None` for all nodes.
    pub(crate) nodes: Option<&'a BitSet>,
    pub(crate) layout: Layout,
    /// The place of the nodes, which `layout` does not say of ranks and of a given number of nodes.
    pub(crate) locality: Locality,
    /// Jobs at most on a device that is shared by memory alone.
    pub(crate) sharers_max: u32,
}

impl Search<'_> {
    /// Whether the classes have enough devices for exclusive parts, and a node with some has enough cores and host memory
    /// for one. A search may still find none.
    pub(crate) fn may_fit(&self, parts: &[PartDemand]) -> bool {
        let chunks = if let Layout::Chunks(chunks) = self.layout { u64::from(chunks) } else { 1 };
        parts.iter().all(|part| {
            let count = u64::from(part.count.least) * chunks;
            let index = &self.pool.index[part.class.index()];
            let has_host_resources =
                || index.most_host_resources(1, |_| true).is_some_and(|most| most.covers(part.host_resources()));
            part.take != Take::Exclusive || index.has_free(count, self.until) && has_host_resources()
        })
    }

    /// Whether [`Self::may_fit`] is sufficient for these parts, because only the number of devices matters.
    pub(crate) fn fits_by_count(&self, parts: &[PartDemand]) -> bool {
        let is_counted = |part: &PartDemand| {
            part.take == Take::Exclusive
                && part.cores == 0
                && part.host_memory == 0
                && parts.iter().filter(|other| other.class == part.class).count() == 1
        };
        let anywhere = Layout::Any(Locality::OwnFirst);
        self.nodes.is_none() && self.layout == anywhere && parts.iter().all(is_counted)
    }

    /// Whether a node with gained capacity may let a demand fit that did not fit before, with devices on that node.
    pub(crate) fn may_use(&self, parts: &[PartDemand], node: u32) -> bool {
        if !self.allows(node) {
            return false;
        }
        let has = |part: &PartDemand, count: u32| match part.take {
            Take::Exclusive => self.usable(node, part.class, self.until) >= count,
            Take::Shared(_) => self.pool.node(node).classes.iter().any(|on| on.class == part.class),
        };
        match self.layout {
            Layout::Nodes(nodes) => parts.iter().all(|part| has(part, part.count.least / nodes)),
            Layout::Chunks(_) => parts.iter().all(|part| has(part, part.count.least)),
            Layout::Any(_) => parts.iter().any(|part| has(part, 1)),
        }
    }

    /// Returns devices for all parts; `None` if there are too few.
    pub(crate) fn find(&self, parts: &[PartDemand]) -> Option<Vec<Pick>> {
        self.find_in(parts, false).or_else(|| {
            let any_bounded = parts.iter().any(|part| self.has_bounded(part.class));
            if any_bounded { self.find_in(parts, true) } else { None }
        })
    }

    fn has_bounded(&self, class: ClassId) -> bool {
        self.pool.index[class.index()].bounded_devices.last_key_value().is_some_and(|(until, _)| *until >= self.until)
    }

    fn find_in(&self, parts: &[PartDemand], with_bounded: bool) -> Option<Vec<Pick>> {
        let stage = Stage { search: self, parts, with_bounded };
        match self.layout {
            Layout::Nodes(nodes) => stage.on_nodes(nodes),
            Layout::Chunks(chunks) => stage.in_chunks(chunks),
            Layout::Any(locality) => {
                let most = stage.most()?;
                stage.anywhere(locality, &most).or_else(|| {
                    let least: Vec<u32> = parts.iter().map(|part| part.count.least).collect();
                    if least == most { None } else { stage.anywhere(locality, &least) }
                })
            }
        }
    }

    /// Returns the number of free devices of a class on a node for jobs that last until a time.
    pub(crate) fn usable(&self, node: u32, class: ClassId, until: Millis) -> u32 {
        let found = self.pool.node(node).classes.iter().find(|on| on.class == class);
        found.map_or(0, |on| on.usable(until))
    }

    fn allows(&self, node: u32) -> bool {
        self.pool.step();
        self.nodes.is_none_or(|nodes| nodes.contains(node))
    }
}

/// A stage of a search.
struct Stage<'a> {
    search: &'a Search<'a>,
    parts: &'a [PartDemand],
    with_bounded: bool,
}

impl Stage<'_> {
    fn pool(&self) -> &Pool {
        self.search.pool
    }

    /// Returns the largest possible number of devices of each part; `None` if a part has too few.
    fn most(&self) -> Option<Vec<u32>> {
        let limited = |part: &PartDemand| {
            let index = &self.pool().index[part.class.index()];
            let there = match (part.take, self.search.layout) {
                (Take::Shared(_), _) => u64::from(part.count.most),
                (Take::Exclusive, Layout::Any(Locality::Local)) => {
                    self.search.origin.map_or(0, |own| u64::from(self.usable(own, part.class)))
                }
                (Take::Exclusive, _) if self.with_bounded => index.whole,
                (Take::Exclusive, _) => index.open,
            };
            let most = u32::try_from(there.min(u64::from(part.count.most))).unwrap_or(u32::MAX);
            (most >= part.count.least).then_some(most)
        };
        self.parts.iter().map(limited).collect()
    }

    fn usable(&self, node: u32, class: ClassId) -> u32 {
        self.search.usable(node, class, self.until())
    }

    /// Returns the time until which devices must be free: for ever, or until the job's end.
    fn until(&self) -> Millis {
        if self.with_bounded { self.search.until } else { Millis::NEVER }
    }

    fn index(&self, part: usize) -> &ClassIndex {
        &self.pool().index[self.parts[part].class.index()]
    }

    /// Returns the sets of nodes with exactly `count` usable devices of the part's class.
    fn nodes_with(&self, part: usize, count: u32) -> impl Iterator<Item = &BitSet> {
        let until = self.until();
        let all = self.index(part).usable_nodes(count, until).inspect(|_| self.pool().step());
        all.filter(move |(ends, _)| ends.covers(until)).map(|(_, nodes)| nodes)
    }

    /// Returns the nodes of `node_set` with exactly `count` usable devices of the part's class, by position. Each set is
    /// searched once, because there may be a set for each end of jobs.
    fn nodes_at(&self, part: usize, count: u32, around: &NodeSet<'_>) -> impl Iterator<Item = u32> {
        let sets = self.nodes_with(part, count).map(move |nodes| around.nodes_of(nodes));
        merged(sets.collect())
    }

    /// Returns nodes with at least `least` usable devices of the part's class, each with the number of these devices.
    /// The order is by the number, then by position.
    fn fits(&self, part: usize, least: u32, around: &NodeSet<'_>) -> impl Iterator<Item = (u32, u32)> {
        let counts = least.max(1)..=self.index(part).usable_max();
        counts.flat_map(move |count| self.nodes_at(part, count, around).map(move |node| (count, node)))
    }

    /// Returns nodes with usable devices of the part's class, those with the most first, then by position.
    fn largest_first(&self, part: usize, around: &NodeSet<'_>) -> impl Iterator<Item = u32> {
        let counts = (1..=self.index(part).usable_max()).rev();
        counts.flat_map(move |count| self.nodes_at(part, count, around))
    }

    /// Returns allowed nodes for a chunk whose first part takes `count` devices, best fit first.
    fn candidates<'b>(&'b self, count: u32, around: &'b NodeSet<'_>) -> Box<dyn Iterator<Item = u32> + 'b> {
        let part = &self.parts[0];
        let fits = move |least| self.fits(0, least, around).map(|(_, node)| node);
        let nodes: Box<dyn Iterator<Item = u32>> = match part.take {
            Take::Exclusive => Box::new(fits(count)),
            Take::Shared(amount) => {
                let shared = self.partial(part.class, amount).map(|(_, spot)| spot.node);
                let shared = shared.filter(|&node| around.contains(node));
                Box::new(shared.chain(fits(1)))
            }
        };
        Box::new(nodes.filter(|&node| self.search.allows(node)))
    }

    /// Returns shared devices with room for an amount, the fullest first.
    fn partial(&self, class: ClassId, amount: Amount) -> impl Iterator<Item = (Amount, Spot)> + '_ {
        let from = Amount { milli: amount.milli, memory: 0 };
        let all = self.pool().index[class.index()].partial.range((from, Spot { node: 0, device: 0 })..);
        all.copied().filter(move |&(left, spot)| left.covers(amount) && self.takes_sharer(spot, amount))
    }

    fn takes_sharer(&self, spot: Spot, amount: Amount) -> bool {
        self.pool().step();
        let few = amount.milli > 0 || self.pool().device(spot).holders.len() < self.search.sharers_max as usize;
        few && self.pool().space(spot, self.search.until, self.with_bounded).is_some()
    }

    /// Returns devices on one node, `counts` of each part.
    fn on_node(&self, node: u32, counts: &[u32]) -> Option<Vec<Pick>> {
        let mut picks = Vec::new();
        self.add_chunk(node, counts, 0, &mut picks).then_some(picks)
    }

    /// Adds a chunk on a node, or returns `false` if it does not fit. The picks from `first_pick` on are on the same node.
    fn add_chunk(&self, node: u32, counts: &[u32], first_pick: usize, picks: &mut Vec<Pick>) -> bool {
        let before = picks.len();
        for (part, &count) in counts.iter().enumerate() {
            if !self.add_part(node, part, count, first_pick, picks) {
                picks.truncate(before);
                return false;
            }
        }
        let each = picks[first_pick..].iter().map(|pick| self.parts[pick.part].host_resources());
        let needed = each.fold(HostResources::default(), |sum, of| sum.plus(of, 1));
        let enough = needed == HostResources::default() || self.host_resources(node).covers(needed);
        if !enough {
            picks.truncate(before);
        }
        enough
    }

    /// Returns the cores and the host memory of a node for the job.
    fn host_resources(&self, node: u32) -> HostResources {
        self.pool().host_resources_for(node, (self.search.now, self.search.until))
    }

    fn add_part(&self, node: u32, part: usize, count: u32, first_pick: usize, picks: &mut Vec<Pick>) -> bool {
        let demand = &self.parts[part];
        let before = picks.len();
        if demand.take == Take::Exclusive && self.usable(node, demand.class) < count {
            return false;
        }
        let others = |spot: Spot| !picks[first_pick..].iter().any(|pick| pick.spot == spot);
        let mut rooms: Vec<(bool, Amount, Spot)> = self.rooms(node, part).filter(|space| others(space.2)).collect();
        rooms.sort_unstable();
        for &(_, _, spot) in rooms.iter().take(count as usize) {
            picks.push(self.pick(part, spot));
        }
        picks.len() - before == count as usize
    }

    /// Returns the devices of a node that a part may have: for a share whether each is free, and what it has left.
    fn rooms(&self, node: u32, part: usize) -> impl Iterator<Item = (bool, Amount, Spot)> {
        let demand = &self.parts[part];
        let of_class = self.pool().spots_on(node).filter(|&spot| {
            self.pool().step();
            self.pool().device(spot).class == demand.class
        });
        of_class.filter_map(|spot| {
            let (left, whole) = self.pool().space(spot, self.search.until, self.with_bounded)?;
            match demand.take {
                Take::Exclusive => whole.then_some((true, Amount::default(), spot)),
                Take::Shared(amount) => {
                    let fits = left.covers(amount) && (whole || self.takes_sharer(spot, amount));
                    fits.then_some((whole, left, spot))
                }
            }
        })
    }

    fn pick(&self, part: usize, spot: Spot) -> Pick {
        pick_of(self.pool(), self.parts, part, spot)
    }

    /// Finds devices on this number of nodes, each with an equal part of each count.
    fn on_nodes(&self, nodes: u32) -> Option<Vec<Pick>> {
        let least: Vec<u32> = self.parts.iter().map(|part| part.count.least.div_ceil(nodes)).collect();
        let most: Vec<u32> = self.parts.iter().map(|part| part.count.most / nodes).collect();
        let mut counts = most;
        loop {
            if self.search.locality == Locality::Near
                && let Some(mut picks) = self.in_laid_out_chunks(self.near(), &counts, nodes, 1)
            {
                picks.sort_by_key(|pick| pick.part);
                return Some(picks);
            }
            let mut picks = Vec::new();
            let (mut found, mut last) = (0, BTreeSet::new());
            for node in self.candidates(counts[0], &NodeSet::All) {
                if found == nodes {
                    break;
                }
                let first_pick = picks.len();
                if last.insert(node) && self.add_chunk(node, &counts, first_pick, &mut picks) {
                    found += 1;
                }
            }
            if found == nodes {
                picks.sort_by_key(|pick| pick.part);
                return Some(picks);
            }
            let shorter: Vec<u32> = counts.iter().zip(&least).map(|(&count, &least)| (count - 1).max(least)).collect();
            if shorter == counts {
                return None;
            }
            counts = shorter;
        }
    }

    /// Finds devices for chunks, several on a node if they fit.
    fn in_chunks(&self, chunks: u32) -> Option<Vec<Pick>> {
        let counts: Vec<u32> = self.parts.iter().map(|part| part.count.least).collect();
        match self.search.locality {
            Locality::Near => return self.in_laid_out_chunks(self.near(), &counts, chunks, chunks),
            Locality::Spread => return self.in_laid_out_chunks(Shape::Spread, &counts, chunks, chunks),
            Locality::Local | Locality::OwnFirst | Locality::Pack => {}
        }
        let (mut picks, mut left, mut seen) = (Vec::new(), chunks, BTreeSet::new());
        let own = self.search.origin.filter(|&own| self.search.allows(own));
        let all_around = self.pool().around(self.search.origin);
        let others = all_around.iter().flat_map(|around| self.candidates(counts[0], around));
        for node in own.into_iter().chain(others) {
            if !seen.insert(node) {
                continue;
            }
            let first_pick = picks.len();
            while left > 0 && self.add_chunk(node, &counts, first_pick, &mut picks) {
                left -= 1;
            }
            if left == 0 {
                return Some(picks);
            }
        }
        None
    }

    fn anywhere(&self, locality: Locality, counts: &[u32]) -> Option<Vec<Pick>> {
        let own = self.search.origin.filter(|&own| self.search.allows(own));
        match locality {
            Locality::Local => return self.on_node(own?, counts),
            Locality::Spread => return self.spread(counts),
            Locality::OwnFirst => {
                if let Some(picks) = own.and_then(|own| self.on_node(own, counts)) {
                    return Some(picks);
                }
            }
            Locality::Near | Locality::Pack => {}
        }
        let is_own_first = locality == Locality::OwnFirst;
        let all_around = if is_own_first { self.pool().around(self.search.origin) } else { vec![NodeSet::All] };
        let mut candidates = all_around.iter().flat_map(|around| self.candidates(counts[0], around));
        if let Some(picks) = candidates.find_map(|node| self.on_node(node, counts)) {
            return Some(picks);
        }
        let own = own.filter(|_| is_own_first);
        self.over_nodes(counts, own, &all_around)
    }
}
