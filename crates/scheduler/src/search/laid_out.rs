//! Devices close to each other, or far apart. Close is within one rack if possible, else below one switch; switches come
//! first if paths within them are faster. Apart is on as many nodes as possible, and on as many racks.

use super::Stage;
use super::taking::Taking;
use crate::demand::Pick;
use crate::placement::topology::{Offer, Shape, lay_out};
use crate::pool::NodeSet;
use crate::request::Take;
use std::collections::BTreeSet;

impl Stage<'_> {
    /// Takes so many chunks on nodes as a shape lays them out, each chunk on one node, and at most `most` on each node.
    pub(super) fn in_laid_out_chunks(&self, shape: Shape, counts: &[u32], chunks: u32, most: u32) -> Option<Vec<Pick>> {
        let nodes: BTreeSet<u32> = self.candidates(counts[0], &NodeSet::All).collect();
        let space = |node: u32| {
            let mut picks = Vec::new();
            let space = (0..most.min(chunks)).take_while(|_| self.add_chunk(node, counts, 0, &mut picks)).count();
            u32::try_from(space).unwrap_or(u32::MAX)
        };
        let offers: Vec<Offer> = nodes.into_iter().map(|node| self.offer(shape, 0, node, space(node))).collect();
        let mut picks = Vec::new();
        for (node, chunks) in lay_out(shape, chunks, &offers)?.chunks {
            let first_pick = picks.len();
            for _ in 0..chunks {
                self.add_chunk(node, counts, first_pick, &mut picks);
            }
        }
        Some(picks)
    }

    /// Returns the offer of a node. Of nodes that are equal otherwise the one with the fewest free devices comes first, or
    /// the one with the most if devices are spread.
    fn offer(&self, shape: Shape, part: usize, node: u32, space: u32) -> Offer {
        let domain = self.pool().node(node).domain;
        let free = i64::from(self.usable(node, self.parts[part].class));
        let cost = if shape == Shape::Spread { -free } else { free };
        Offer { node, rack: domain.rack, switch: domain.switch, space, cost }
    }

    /// Returns the shape of nodes that are near to each other.
    pub(super) fn near(&self) -> Shape {
        if self.pool().path_times.switches_first() { Shape::NearBySwitch } else { Shape::Near }
    }
}

impl Taking<'_> {
    /// Takes devices of nodes as a shape lays them out.
    pub(super) fn take_laid_out(&mut self, shape: Shape, part: usize, count: u32) -> Option<()> {
        let stage = self.stage;
        let mut nodes: BTreeSet<u32> = stage.fits(part, 1, &NodeSet::All).map(|(_, node)| node).collect();
        let demand = &stage.parts[part];
        if let Take::Shared(amount) = demand.take {
            nodes.extend(stage.partial(demand.class, amount).map(|(_, spot)| spot.node));
        }
        let allowed = nodes.into_iter().filter(|&node| stage.search.allows(node));
        let offers: Vec<Offer> = allowed.map(|node| stage.offer(shape, part, node, self.space(node, part))).collect();
        for (node, devices) in lay_out(shape, count, &offers)?.chunks {
            self.add(node, part, devices);
        }
        Some(())
    }
}
