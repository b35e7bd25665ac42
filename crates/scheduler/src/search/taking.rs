//! Devices on several nodes: on the fewest, on as many as possible, or shares wherever there is room.

use super::Stage;
use crate::amount::Amount;
use crate::demand::Pick;
use crate::ids::ClassId;
use crate::placement::topology::Shape;
use crate::pool::{HostResources, NodeSet, Spot};
use crate::request::{Locality, Take};
use std::collections::{BTreeMap, BTreeSet};

impl Stage<'_> {
    /// Each part by itself, on the fewest nodes or near to each other.
    pub(super) fn over_nodes(&self, counts: &[u32], own: Option<u32>, all_around: &[NodeSet<'_>]) -> Option<Vec<Pick>> {
        let classes: BTreeSet<ClassId> = self.parts.iter().map(|part| part.class).collect();
        if classes.len() < self.parts.len() {
            return None; // parts of one class have to be together
        }
        let mut taking = Taking::new(self);
        for (part, &count) in counts.iter().enumerate() {
            match self.parts[part].take {
                _ if self.search.locality == Locality::Near => taking.take_laid_out(self.near(), part, count)?,
                Take::Exclusive => taking.take_whole(part, count, own, all_around)?,
                Take::Shared(amount) => {
                    let with_own: Vec<NodeSet<'_>> =
                        own.map(NodeSet::Own).into_iter().chain(all_around.iter().copied()).collect();
                    taking.take_shares(part, count, amount, &with_own)?;
                }
            }
        }
        Some(taking.picks)
    }

    /// Takes one device of each node in a round, or a share of one.
    pub(super) fn spread(&self, counts: &[u32]) -> Option<Vec<Pick>> {
        let classes: BTreeSet<ClassId> = self.parts.iter().map(|part| part.class).collect();
        if classes.len() < self.parts.len() {
            return None;
        }
        let mut taking = Taking::new(self);
        for (part, &count) in counts.iter().enumerate() {
            taking.take_laid_out(Shape::Spread, part, count)?;
        }
        Some(taking.picks)
    }
}

/// Picked devices on several nodes, with their use of the nodes' resources.
pub(super) struct Taking<'a> {
    pub(super) stage: &'a Stage<'a>,
    picks: Vec<Pick>,
    /// Used cores and host memory, by node.
    used: BTreeMap<u32, HostResources>,
}

impl<'a> Taking<'a> {
    fn new(stage: &'a Stage<'a>) -> Self {
        Self { stage, picks: Vec::new(), used: BTreeMap::new() }
    }

    /// Returns the number of devices of a part for which a node has enough cores and host memory.
    fn carried(&self, node: u32, part: usize) -> u32 {
        let demand = &self.stage.parts[part];
        if demand.host_resources() == HostResources::default() {
            return u32::MAX;
        }
        let left = self.stage.host_resources(node).less(self.used.get(&node).copied().unwrap_or_default());
        let by_cores = left.cores.checked_div(demand.cores).unwrap_or(u64::MAX);
        let by_memory = left.memory.checked_div(demand.host_memory).unwrap_or(u64::MAX);
        u32::try_from(by_cores.min(by_memory)).unwrap_or(u32::MAX)
    }

    pub(super) fn space(&self, node: u32, part: usize) -> u32 {
        let demand = &self.stage.parts[part];
        let devices = match demand.take {
            Take::Exclusive => self.stage.usable(node, demand.class),
            Take::Shared(_) => u32::try_from(self.stage.rooms(node, part).count()).unwrap_or(u32::MAX),
        };
        devices.min(self.carried(node, part))
    }

    pub(super) fn add(&mut self, node: u32, part: usize, count: u32) {
        let added = self.stage.add_part(node, part, count, 0, &mut self.picks);
        debug_assert!(added, "a node has fewer devices than counted");
        self.note(node, part, count);
    }

    fn note(&mut self, node: u32, part: usize, count: u32) {
        let demand = &self.stage.parts[part];
        let used = self.used.entry(node).or_default();
        *used = used.plus(demand.host_resources(), count);
    }

    fn take_whole(&mut self, part: usize, count: u32, own: Option<u32>, all_around: &[NodeSet<'_>]) -> Option<()> {
        let (stage, mut left, mut seen) = (self.stage, count, BTreeSet::new());
        if let Some(own) = own {
            let there = self.space(own, part).min(left);
            self.add(own, part, there);
            left -= there;
            seen.insert(own);
        }
        for around in all_around {
            // Nodes that the iterator has passed are taken, or have no room.
            let mut largest = stage.largest_first(part, around);
            while left > 0 {
                let may_take = |node: u32| !seen.contains(&node) && stage.search.allows(node);
                let mut fits = stage.fits(part, left, around).map(|(_, node)| node);
                if let Some(node) = fits.find(|&node| may_take(node) && self.space(node, part) >= left) {
                    self.add(node, part, left);
                    return Some(());
                }
                let Some(node) = largest.find(|&node| may_take(node) && self.space(node, part) > 0) else { break };
                let there = self.space(node, part).min(left);
                self.add(node, part, there);
                left -= there;
                seen.insert(node);
            }
        }
        (left == 0).then_some(())
    }

    /// Takes shared devices, the fullest first, then free devices, best fit.
    fn take_shares(&mut self, part: usize, count: u32, amount: Amount, all_around: &[NodeSet<'_>]) -> Option<()> {
        let stage = self.stage;
        let mut left = count;
        for around in all_around {
            for (_, spot) in
                stage.partial(stage.parts[part].class, amount).filter(|(_, spot)| around.contains(spot.node))
            {
                if left == 0 {
                    return Some(());
                }
                if stage.search.allows(spot.node) && self.carried(spot.node, part) > 0 {
                    self.picks.push(stage.pick(part, spot));
                    self.note(spot.node, part, 1);
                    left -= 1;
                }
            }
        }
        for around in all_around {
            for (usable, node) in stage.fits(part, 1, around) {
                if left == 0 {
                    return Some(());
                }
                if stage.search.allows(node) {
                    let there = usable.min(self.carried(node, part)).min(left);
                    self.add_whole(node, part, there);
                    left -= there;
                }
            }
        }
        (left == 0).then_some(())
    }

    /// Adds shares of `count` free devices of a node, which has enough.
    fn add_whole(&mut self, node: u32, part: usize, count: u32) {
        let stage = self.stage;
        let devices = u32::try_from(stage.pool().node(node).devices.len()).unwrap_or(u32::MAX);
        let spots = (0..devices).map(|device| Spot { node, device });
        let free = spots.filter(|&spot| {
            stage.pool().device(spot).class == stage.parts[part].class
                && matches!(stage.pool().space(spot, stage.search.until, stage.with_bounded), Some((_, true)))
        });
        self.picks.extend(free.take(count as usize).map(|spot| stage.pick(part, spot)));
        self.note(node, part, count);
    }
}
