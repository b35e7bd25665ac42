//! Nodes by the class of their path from the program's own node.

use super::Pool;
use crate::bitset::BitSet;
use crate::path_class::PathClass;

/// Nodes at one distance. The sets of racks and switches are borrowed from the pool, so that a search avoids copies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeSet<'a> {
    /// All nodes.
    All,
    /// The program's own node.
    Own(u32),
    /// The other nodes whose path from the program's own node has this class.
    By { class: PathClass, own: u32, rack: Option<&'a BitSet>, switch: Option<&'a BitSet> },
}

impl NodeSet<'_> {
    /// Returns the least node of `nodes` that is at this distance and not below `from`.
    fn next_of(&self, nodes: &BitSet, from: u32) -> Option<u32> {
        match *self {
            Self::All => nodes.next(from),
            Self::Own(own) => (from <= own && nodes.contains(own)).then_some(own),
            Self::By { class, own, rack, switch } => nodes.next_within(from, |word| {
                let of = |set: Option<&BitSet>| set.map_or(0, |set| set.word(word));
                let there = match class {
                    PathClass::RackAndSwitch => of(rack) & of(switch),
                    PathClass::Rack => of(rack) & !of(switch),
                    PathClass::Switch => of(switch) & !of(rack),
                    PathClass::Other => !(of(rack) | of(switch)),
                };
                if word == (own / 64) as usize { there & !(1 << (own % 64)) } else { there }
            }),
        }
    }

    /// Returns the nodes of `nodes` at this distance, by position.
    pub(crate) fn nodes_of(&self, nodes: &BitSet) -> impl Iterator<Item = u32> {
        std::iter::successors(self.next_of(nodes, 0), move |&node| self.next_of(nodes, node + 1))
    }

    pub(crate) fn contains(&self, node: u32) -> bool {
        match *self {
            Self::All => true,
            Self::Own(own) => own == node,
            Self::By { class, own, rack, switch } => {
                let has = |set: Option<&BitSet>| set.is_some_and(|set| set.contains(node));
                let of = match (has(rack), has(switch)) {
                    (true, true) => PathClass::RackAndSwitch,
                    (true, false) => PathClass::Rack,
                    (false, true) => PathClass::Switch,
                    (false, false) => PathClass::Other,
                };
                node != own && of == class
            }
        }
    }
}

impl Pool {
    /// Returns the class of the path between two nodes.
    pub(crate) fn path_class(&self, one: u32, other: u32) -> PathClass {
        let place = |node: u32| {
            let domain = self.node(node).domain;
            (domain.rack, domain.switch)
        };
        PathClass::between(&place(one), &place(other))
    }

    /// Returns all nodes but the program's own one in groups, those with the fastest paths first.
    pub(crate) fn around(&self, own: Option<u32>) -> Vec<NodeSet<'_>> {
        let Some(own) = own else { return vec![NodeSet::All] };
        let domain = self.node(own).domain;
        let of = |domain: Option<u32>| domain.and_then(|domain| self.members.get(&domain));
        let (rack, switch) = (of(domain.rack), of(domain.switch));
        let may_have_any = |class: &PathClass| match class {
            PathClass::RackAndSwitch => rack.is_some() && switch.is_some(),
            PathClass::Rack => rack.is_some(),
            PathClass::Switch => switch.is_some(),
            PathClass::Other => true,
        };
        let classes = self.path_times.order().into_iter().filter(may_have_any);
        classes.map(|class| NodeSet::By { class, own, rack, switch }).collect()
    }
}
