//! The naive choice of near nodes, which tries all sets of nodes, and of many nodes, which sorts all chunks.

use accord_scheduler::path_class::PathTimesByClass;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What a node has for chunks, each of which must be on one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeOffer {
    pub(crate) node: usize,
    pub(crate) rack: Option<u32>,
    pub(crate) switch: Option<u32>,
    /// Number of chunks that fit.
    pub(crate) space: u32,
    /// Devices of the class that are free: the cost of a chunk.
    pub(crate) free: u32,
}

/// A node with its number of chunks.
type Chunks = Vec<(usize, u32)>;

/// Returns the domain of a node at a level: a node, a rack or a switch by number.
type Level = dyn Fn(&NodeOffer) -> Option<u32>;

/// Lays out chunks on one node, else in one rack, else at one switch, else anywhere; switches come before racks where
/// paths within them are faster. Of domains with enough room it takes the one that needs the fewest nodes, then the one
/// with the least room left, then the one with the fewest free devices, then the first one.
pub(crate) fn near(offers: &[NodeOffer], wanted: u32, times: &PathTimesByClass) -> Option<Chunks> {
    let node = |offer: &NodeOffer| Some(offer.node as u32);
    let (rack, switch) = (|offer: &NodeOffer| offer.rack, |offer: &NodeOffer| offer.switch);
    let anywhere = |_: &NodeOffer| Some(0);
    let levels: [&Level; 4] = match times.switches_first() {
        true => [&node, &switch, &rack, &anywhere],
        false => [&node, &rack, &switch, &anywhere],
    };
    levels.into_iter().find_map(|domain_of| {
        let domains: BTreeSet<u32> = offers.iter().filter_map(domain_of).collect();
        let laid = domains.into_iter().filter_map(|domain| {
            let there = offers.iter().filter(|offer| domain_of(offer) == Some(domain));
            let there: Vec<NodeOffer> = there.copied().collect();
            let chunks = of_fewest_nodes(&there, wanted)?;
            let left = there.iter().map(|offer| offer.space).sum::<u32>() - wanted;
            let free = |node: usize| there.iter().find(|offer| offer.node == node).map_or(0, |offer| offer.free);
            let cost: u32 = chunks.iter().map(|&(node, chunks)| free(node) * chunks).sum();
            Some(((chunks.len(), left, cost, domain), chunks))
        });
        laid.min_by_key(|(score, _)| *score).map(|(_, chunks)| chunks)
    })
}

/// Tries all sets of nodes. The best one has the fewest nodes. All but one of these are full, and have the most room.
/// The rest is on a node with the least room that suffices. Among equals the node with fewer free devices is first.
fn of_fewest_nodes(offers: &[NodeOffer], wanted: u32) -> Option<Chunks> {
    let sets = 1..1_u32 << offers.len();
    let all = sets.filter_map(|set| {
        let chosen = offers.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1).map(|(_, offer)| *offer);
        let mut full: Vec<NodeOffer> = chosen.collect();
        full.sort_by_key(|offer| (Reverse(offer.space), offer.free, offer.node));
        let last = full.pop()?;
        let rest = wanted.checked_sub(full.iter().map(|offer| offer.space).sum())?;
        if rest == 0 || rest > last.space || full.iter().any(|offer| offer.space == 0) {
            return None;
        }
        let largest: Vec<_> = full.iter().map(|offer| (Reverse(offer.space), offer.free, offer.node)).collect();
        let score = (full.len(), largest, (last.space, last.free, last.node));
        let mut chunks: Chunks = full.iter().map(|offer| (offer.node, offer.space)).collect();
        chunks.push((last.node, rest));
        chunks.sort_unstable();
        Some((score, chunks))
    });
    all.min_by(|one, other| one.0.cmp(&other.0)).map(|(_, chunks)| chunks)
}

/// Lays out chunks over as many nodes as possible: the first chunk of each node comes before the second one of any. Of
/// these the first node of each rack comes before the second one of any, and a node without a rack is a first one. Then
/// nodes with more free devices come first.
pub(crate) fn spread(offers: &[NodeOffer], wanted: u32) -> Option<Chunks> {
    let key = |offer: &NodeOffer| (Reverse(offer.free), offer.node);
    let mut all: Vec<_> = Vec::new();
    for offer in offers {
        let is_before = |other: &&NodeOffer| other.rack == offer.rack && other.space > 0 && key(other) < key(offer);
        let before = offers.iter().filter(|_| offer.rack.is_some()).filter(is_before).count();
        all.extend((0..offer.space).map(|round| (round, before, key(offer))));
    }
    all.sort_unstable();
    let chosen: Vec<usize> = all.get(..wanted as usize)?.iter().map(|(_, _, (_, node))| *node).collect();
    let nodes: BTreeSet<usize> = chosen.iter().copied().collect();
    let count = |node: usize| u32::try_from(chosen.iter().filter(|&&of| of == node).count()).unwrap();
    Some(nodes.into_iter().map(|node| (node, count(node))).collect())
}
