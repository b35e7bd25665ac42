//! Devices close to each other: within one rack if possible, else below one switch. Switches come first if paths within
//! them are faster.

use super::Stage;
use super::taking::Taking;
use crate::demand::Pick;
use crate::placement::topology::{Offer, Shape, lay_out};
use crate::pool::NodeSet;
use crate::request::Take;
use std::collections::BTreeSet;

impl Stage<'_> {
    /// Takes so many chunks on nodes that are near to each other, each chunk on one node, and at most `most` on each node.
    pub(super) fn in_near_chunks(&self, counts: &[u32], chunks: u32, most: u32) -> Option<Vec<Pick>> {
        let nodes: BTreeSet<u32> = self.candidates(counts[0], &NodeSet::All).collect();
        let space = |node: u32| {
            let mut picks = Vec::new();
            (0..most.min(chunks)).take_while(|_| self.add_chunk(node, counts, 0, &mut picks)).count()
        };
        let offers = nodes.into_iter().map(|node| self.offer(0, node, u32::try_from(space(node)).unwrap_or(u32::MAX)));
        let offers: Vec<Offer> = offers.collect();
        let mut picks = Vec::new();
        for (node, chunks) in lay_out(self.near_shape(), chunks, &offers)?.chunks {
            let first_pick = picks.len();
            for _ in 0..chunks {
                self.add_chunk(node, counts, first_pick, &mut picks);
            }
        }
        Some(picks)
    }

    /// Returns the offer of a node. Of nodes with equal room the one with the fewest free devices comes first.
    fn offer(&self, part: usize, node: u32, space: u32) -> Offer {
        let domain = self.pool().node(node).domain;
        let cost = i64::from(self.usable(node, self.parts[part].class));
        Offer { node, rack: domain.rack, switch: domain.switch, space, cost }
    }

    fn near_shape(&self) -> Shape {
        if self.pool().path_times.switches_first() { Shape::NearBySwitch } else { Shape::Near }
    }
}

impl Taking<'_> {
    /// Takes devices of nodes that are close to each other.
    pub(super) fn take_near(&mut self, part: usize, count: u32) -> Option<()> {
        let stage = self.stage;
        let mut nodes: BTreeSet<u32> = stage.fits(part, 1, &NodeSet::All).map(|(_, node)| node).collect();
        let demand = &stage.parts[part];
        if let Take::Shared(amount) = demand.take {
            nodes.extend(stage.partial(demand.class, amount).map(|(_, spot)| spot.node));
        }
        let allowed = nodes.into_iter().filter(|&node| stage.search.allows(node));
        let offers: Vec<Offer> = allowed.map(|node| stage.offer(part, node, self.space(node, part))).collect();
        for (node, devices) in lay_out(stage.near_shape(), count, &offers)?.chunks {
            self.add(node, part, devices);
        }
        Some(())
    }
}
