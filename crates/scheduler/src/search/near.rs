//! Devices close to each other: within one rack if possible, else below one switch. Switches come first if paths within
//! them are faster.

use super::taking::Taking;
use crate::placement::topology::{Offer, Shape, lay_out};
use std::collections::BTreeSet;

impl Taking<'_> {
    /// Takes devices of nodes that are close to each other.
    pub(super) fn take_near(&mut self, part: usize, count: u32) -> Option<()> {
        let pool = self.stage.pool();
        let mut nodes = BTreeSet::new();
        for set in (1..=self.stage.index(part).usable_max()).flat_map(|count| self.stage.nodes_with(part, count)) {
            nodes.extend(set.iter());
        }
        let allowed = nodes.into_iter().filter(|&node| self.stage.search.allows(node));
        let offer = |node: u32| {
            let domain = pool.node(node).domain;
            Offer { node, rack: domain.rack, switch: domain.switch, room: self.room(node, part), cost: 0 }
        };
        let offers: Vec<Offer> = allowed.map(offer).collect();
        let shape = if pool.path_times.switches_first() { Shape::NearBySwitch } else { Shape::Near };
        for (node, chunks) in lay_out(shape, count, &offers)?.chunks {
            self.add(node, part, chunks);
        }
        Some(())
    }
}
