//! The nodes around a program's own node, by the classes of the paths to them.

use super::Pool;
use crate::bitset::BitSet;
use crate::path_class::PathClass;

/// Nodes at one distance.
#[derive(Clone, Debug)]
pub(crate) enum Around {
    /// All nodes.
    All,
    /// The program's own node.
    Own(u32),
    /// These.
    These(BitSet),
    /// All but these.
    AllBut(BitSet),
}

impl Around {
    /// Returns the least node of a set that is one of these, and at least `from`.
    pub(crate) fn next_of(&self, nodes: &BitSet, from: u32) -> Option<u32> {
        match self {
            Self::All => nodes.next(from),
            Self::Own(own) => (from <= *own && nodes.contains(*own)).then_some(*own),
            Self::These(these) => nodes.next_also(these, true, from),
            Self::AllBut(these) => nodes.next_also(these, false, from),
        }
    }

    pub(crate) fn contains(&self, node: u32) -> bool {
        match self {
            Self::All => true,
            Self::Own(own) => *own == node,
            Self::These(these) => these.contains(node),
            Self::AllBut(these) => !these.contains(node),
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

    /// Returns all nodes but the program's own one, those first to which paths from that are fastest.
    pub(crate) fn around(&self, own: Option<u32>) -> Vec<Around> {
        let Some(own) = own else { return vec![Around::All] };
        let (none, domain) = (BitSet::default(), self.node(own).domain);
        let of = |domain: Option<u32>| domain.and_then(|domain| self.members.get(&domain)).unwrap_or(&none);
        let (rack, switch) = (of(domain.rack), of(domain.switch));
        let part = |set: &BitSet, other: &BitSet, is_in_other: bool| {
            let (mut part, mut from) = (BitSet::default(), 0);
            while let Some(node) = set.next_also(other, is_in_other, from) {
                self.step();
                part.insert(node);
                from = node + 1;
            }
            part.remove(own);
            part
        };
        let of_class = |class| match class {
            PathClass::RackAndSwitch => Around::These(part(rack, switch, true)),
            PathClass::Rack => Around::These(part(rack, switch, false)),
            PathClass::Switch => Around::These(part(switch, rack, false)),
            PathClass::Other => {
                let mut near = rack.clone();
                near.extend(switch);
                near.insert(own);
                Around::AllBut(near)
            }
        };
        let has_any = |around: &Around| !matches!(around, Around::These(these) if these.next(0).is_none());
        self.path_times.order().into_iter().map(of_class).filter(has_any).collect()
    }
}
