//! Distributes a request of several chunks over nodes, by racks and switches.
//!
//! A chunk must be on one node: the devices of a rank, or one device. Fragmentation decides between nodes and domains
//! that topology ranks equal.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The layout of chunks over nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// On the fewest nodes.
    Pack,
    /// On as many nodes as possible, and on as many racks.
    Spread,
    /// Within one node if possible, else one rack, else one switch, else the cluster; there on the fewest nodes.
    Near,
    /// Like `Near` with switches before racks, for clusters where paths within a switch are faster.
    NearBySwitch,
    /// On exactly this many nodes, each with equally many chunks; within one rack if possible, else one switch, else
    /// the cluster.
    Nodes(u32),
}

/// The offer of a node for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The node.
    pub node: u32,
    /// The rack in its labels.
    pub rack: Option<u32>,
    /// The switch in its labels.
    pub switch: Option<u32>,
    /// Number of chunks that fit.
    pub space: u32,
    /// The cost of a chunk: the change of the node's potential. Lower is better.
    pub cost: i64,
}

/// A set of nodes within which distance does not matter, the narrowest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Domain {
    /// One node.
    Node(u32),
    /// The nodes of one rack.
    Rack(u32),
    /// The nodes of one switch.
    Switch(u32),
    /// All nodes.
    Cluster,
}

/// A domain with enough room, scored for the request. The smallest score is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DomainScore {
    /// Number of nodes that the request would use.
    pub nodes: u32,
    /// Number of chunks for which room would be left. A small number keeps large domains whole.
    pub left: u64,
    /// The cost of all chunks.
    pub cost: i64,
    /// The domain.
    pub domain: Domain,
}

/// The chosen nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Nodes with their numbers of chunks, by node.
    pub chunks: Vec<(u32, u32)>,
    /// The narrowest domain with enough room.
    pub domain: Domain,
    /// The domains of that level with enough room, the best first.
    pub considered: Vec<DomainScore>,
}

/// Distributes `wanted` chunks over the offered nodes; `None` if they have too little room.
#[must_use]
pub fn lay_out(shape: Shape, wanted: u32, offers: &[Offer]) -> Option<Layout> {
    let levels: &[fn(&Offer) -> Option<Domain>] = match shape {
        Shape::Pack | Shape::Spread => &[cluster],
        Shape::Near => &[node, rack, switch, cluster],
        Shape::NearBySwitch => &[node, switch, rack, cluster],
        Shape::Nodes(_) => &[rack, switch, cluster],
    };
    levels.iter().find_map(|level| narrowest(shape, wanted, offers, *level))
}

fn node(offer: &Offer) -> Option<Domain> {
    Some(Domain::Node(offer.node))
}

fn rack(offer: &Offer) -> Option<Domain> {
    offer.rack.map(Domain::Rack)
}

fn switch(offer: &Offer) -> Option<Domain> {
    offer.switch.map(Domain::Switch)
}

fn cluster(_: &Offer) -> Option<Domain> {
    Some(Domain::Cluster)
}

fn narrowest(shape: Shape, wanted: u32, offers: &[Offer], level: impl Fn(&Offer) -> Option<Domain>) -> Option<Layout> {
    let mut domains: BTreeMap<Domain, Vec<Offer>> = BTreeMap::new();
    for offer in offers.iter().filter(|offer| offer.space > 0) {
        if let Some(domain) = level(offer) {
            domains.entry(domain).or_default().push(*offer);
        }
    }
    let laid = |(domain, offers): (Domain, Vec<Offer>)| {
        let space: u64 = offers.iter().map(|offer| u64::from(offer.space)).sum();
        let mut chosen = match shape {
            Shape::Pack | Shape::Near | Shape::NearBySwitch => fewest(wanted, offers),
            Shape::Spread => spread(wanted, &offers),
            Shape::Nodes(nodes) => equal(wanted, nodes, offers),
        }?;
        let cost = chosen.iter().map(|(offer, chunks)| offer.cost.saturating_mul(i64::from(*chunks))).sum();
        let left = space - u64::from(wanted);
        chosen.sort_unstable_by_key(|(offer, _)| offer.node);
        let chunks: Vec<_> = chosen.iter().map(|(offer, chunks)| (offer.node, *chunks)).collect();
        Some((DomainScore { nodes: chunks.len() as u32, left, cost, domain }, chunks))
    };
    let mut all: Vec<_> = domains.into_iter().filter_map(laid).collect();
    all.sort_unstable_by_key(|(score, _)| *score);
    let considered: Vec<DomainScore> = all.iter().map(|(score, _)| *score).collect();
    let (best, chunks) = all.into_iter().next()?;
    Some(Layout { chunks, domain: best.domain, considered })
}

/// Takes the largest nodes first. The rest goes to the node with the least sufficient room.
fn fewest(wanted: u32, mut offers: Vec<Offer>) -> Option<Vec<(Offer, u32)>> {
    offers.sort_unstable_by_key(|offer| (Reverse(offer.space), offer.cost, offer.node));
    let (mut chosen, mut left, mut at) = (Vec::new(), wanted, 0);
    while left > 0 {
        let largest = offers.get(at)?;
        if largest.space < left {
            chosen.push((*largest, largest.space));
            left -= largest.space;
            at += 1;
            continue;
        }
        let enough = offers[at..].iter().take_while(|offer| offer.space >= left);
        chosen.push((*enough.min_by_key(|offer| (offer.space, offer.cost, offer.node))?, left));
        left = 0;
    }
    Some(chosen)
}

/// Takes one chunk a node in each round, beginning with racks that have the fewest.
fn spread(wanted: u32, offers: &[Offer]) -> Option<Vec<(Offer, u32)>> {
    if offers.iter().map(|offer| u64::from(offer.space)).sum::<u64>() < u64::from(wanted) {
        return None;
    }
    // The order of nodes within a round: the first node of each rack, then the second ones.
    let mut sorted = offers.to_vec();
    sorted.sort_unstable_by_key(|offer| (offer.cost, offer.node));
    let mut of_rack: BTreeMap<Option<u32>, u32> = BTreeMap::new();
    let mut order: Vec<(u32, Offer)> = Vec::new();
    for offer in sorted {
        let turn = of_rack.entry(offer.rack).or_default();
        order.push((*turn, offer));
        // A node without a rack label counts as a rack of its own.
        *turn += u32::from(offer.rack.is_some());
    }
    order.sort_by_key(|(turn, _)| *turn);
    let mut chunks = vec![0; order.len()];
    let mut left = wanted;
    while left > 0 {
        for ((_, offer), chunks) in order.iter().zip(&mut chunks) {
            if left > 0 && *chunks < offer.space {
                *chunks += 1;
                left -= 1;
            }
        }
    }
    let used = order.into_iter().zip(chunks).filter(|(_, chunks)| *chunks > 0);
    Some(used.map(|((_, offer), chunks)| (offer, chunks)).collect())
}

/// Takes the cheapest nodes with enough room for an equal part, among equals those with the least room.
fn equal(wanted: u32, nodes: u32, mut offers: Vec<Offer>) -> Option<Vec<(Offer, u32)>> {
    if !wanted.is_multiple_of(nodes) || nodes == 0 {
        return None;
    }
    let each = wanted / nodes;
    offers.retain(|offer| offer.space >= each);
    offers.sort_unstable_by_key(|offer| (offer.cost, offer.space, offer.node));
    offers.truncate(nodes as usize);
    (offers.len() == nodes as usize).then(|| offers.into_iter().map(|offer| (offer, each)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns offers of two switches with two racks each of four nodes.
    fn offers(rooms: [u32; 16]) -> Vec<Offer> {
        let offer = |(space, node): (u32, u32)| Offer {
            node,
            rack: Some(node / 4),
            switch: Some(node / 8),
            space,
            cost: i64::from(node),
        };
        rooms.into_iter().zip(0..).map(offer).collect()
    }

    fn chunks(shape: Shape, wanted: u32, rooms: [u32; 16]) -> (Vec<(u32, u32)>, Domain) {
        let layout = lay_out(shape, wanted, &offers(rooms)).unwrap();
        (layout.chunks, layout.domain)
    }

    const ROOMS: [u32; 16] = [2, 1, 0, 0, 3, 8, 1, 0, 4, 4, 4, 4, 8, 8, 1, 8];

    #[test]
    fn near_takes_the_narrowest_domain_that_has_room() {
        assert_eq!(chunks(Shape::Near, 3, ROOMS), (vec![(4, 3)], Domain::Node(4)));
        // Two racks fit eleven on two nodes, and one of them has less room left.
        assert_eq!(chunks(Shape::Near, 11, ROOMS), (vec![(4, 3), (5, 8)], Domain::Rack(1)));
        assert_eq!(chunks(Shape::Near, 26, ROOMS).1, Domain::Switch(1));
        assert_eq!(chunks(Shape::Near, 50, ROOMS).1, Domain::Cluster);
        assert_eq!(chunks(Shape::NearBySwitch, 3, ROOMS).1, Domain::Node(4));
        assert!(matches!(chunks(Shape::NearBySwitch, 11, ROOMS).1, Domain::Switch(_)));
    }

    #[test]
    fn pack_takes_the_fewest_nodes_and_leaves_large_ones_whole() {
        assert_eq!(chunks(Shape::Pack, 17, ROOMS).0, [(1, 1), (5, 8), (12, 8)]);
    }

    #[test]
    fn spread_takes_a_node_of_each_rack_first() {
        assert_eq!(chunks(Shape::Spread, 4, ROOMS).0, [(0, 1), (4, 1), (8, 1), (12, 1)]);
        let all = chunks(Shape::Spread, 14, ROOMS).0;
        assert_eq!(all.len(), 13);
        assert_eq!(all.iter().map(|(_, chunks)| chunks).sum::<u32>(), 14);
    }

    #[test]
    fn so_many_nodes_get_equal_parts_of_one_rack() {
        assert_eq!(chunks(Shape::Nodes(3), 12, ROOMS), (vec![(8, 4), (9, 4), (10, 4)], Domain::Rack(2)));
        assert_eq!(lay_out(Shape::Nodes(3), 13, &offers(ROOMS)), None);
        assert_eq!(lay_out(Shape::Nodes(6), 48, &offers(ROOMS)), None);
    }

    #[test]
    fn every_request_that_fits_is_laid_out_whole() {
        let total: u32 = ROOMS.iter().sum();
        for shape in [Shape::Pack, Shape::Spread, Shape::Near] {
            for wanted in 1..=total {
                let layout = lay_out(shape, wanted, &offers(ROOMS)).unwrap();
                assert_eq!(layout.chunks.iter().map(|(_, chunks)| chunks).sum::<u32>(), wanted);
                assert!(layout.chunks.iter().all(|(node, chunks)| *chunks <= ROOMS[*node as usize]));
                assert_eq!(layout.considered[0].domain, layout.domain);
            }
            assert_eq!(lay_out(shape, total + 1, &offers(ROOMS)), None);
        }
    }

    #[test]
    fn the_order_of_offers_does_not_matter() {
        let mut reversed = offers(ROOMS);
        reversed.reverse();
        for shape in [Shape::Pack, Shape::Spread, Shape::Near, Shape::Nodes(2)] {
            assert_eq!(lay_out(shape, 12, &offers(ROOMS)), lay_out(shape, 12, &reversed));
        }
    }
}
