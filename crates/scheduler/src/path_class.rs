//! Classes of paths between nodes, by the labels `rack` and `switch`, because there are too many pairs of nodes to
//! measure.

use accord_types::NodeId;
use std::collections::BTreeMap;
use std::fmt;

/// The rack and switch in a node's labels, each as a number or a name.
pub type Location<T> = (Option<T>, Option<T>);

/// The class of a path between two nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PathClass {
    /// Between nodes of the same rack and the same switch.
    RackAndSwitch,
    /// Between nodes of the same rack and different switches.
    Rack,
    /// Between nodes of different racks and the same switch.
    Switch,
    /// Between all other nodes.
    Other,
}

impl PathClass {
    /// All classes, in the order that is used without measurements.
    pub const ALL: [Self; 4] = [Self::RackAndSwitch, Self::Rack, Self::Switch, Self::Other];

    /// Returns the class of the path between two locations.
    #[must_use]
    pub fn between<T: PartialEq>(one: &Location<T>, other: &Location<T>) -> Self {
        let is_one = |one: &Option<T>, other: &Option<T>| one.is_some() && one == other;
        match (is_one(&one.0, &other.0), is_one(&one.1, &other.1)) {
            (true, true) => Self::RackAndSwitch,
            (true, false) => Self::Rack,
            (false, true) => Self::Switch,
            (false, false) => Self::Other,
        }
    }
}

impl fmt::Display for PathClass {
    /// Writes the other node's location: `in the same rack`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RackAndSwitch => "in the same rack, at the same switch",
            Self::Rack => "in the same rack",
            Self::Switch => "at the same switch",
            Self::Other => "neither in the same rack nor at the same switch",
        })
    }
}

/// The paths from a program's node to the nodes of a placement, as known at that time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChosenPaths {
    /// The times of the classes.
    pub times: PathTimesByClass,
    /// The class of the path to each other node.
    pub classes: BTreeMap<NodeId, PathClass>,
}

/// The measured times of classes of paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathTimesByClass([Option<u64>; PathClass::ALL.len()]);

impl PathTimesByClass {
    /// Sets the nanoseconds for 1 MiB.
    pub fn set(&mut self, class: PathClass, ns: Option<u64>) {
        self.0[class as usize] = ns;
    }

    /// Returns the nanoseconds for 1 MiB; `None` if no path of the class was measured.
    #[must_use]
    pub fn get(&self, class: PathClass) -> Option<u64> {
        self.0[class as usize]
    }

    /// Returns the classes, the fastest first.
    ///
    /// A class without measurement counts as fast as the slowest one before it in [`PathClass::ALL`]. Classes of
    /// similar speed keep the order of [`PathClass::ALL`].
    #[must_use]
    pub fn order(&self) -> [PathClass; PathClass::ALL.len()] {
        let mut slowest = 0;
        let mut order = PathClass::ALL.map(|class| {
            let time = self.get(class).map_or(slowest, about);
            slowest = slowest.max(time);
            (time, class)
        });
        order.sort_unstable();
        order.map(|(_, class)| class)
    }

    /// Whether paths within a switch are faster than those within a rack.
    #[must_use]
    pub fn switches_first(&self) -> bool {
        let order = self.order();
        let at = |class| order.iter().position(|&of| of == class);
        at(PathClass::Switch) < at(PathClass::Rack)
    }
}

/// Returns a time rounded to two significant bits, because measurements of one path differ by some percent.
fn about(ns: u64) -> u64 {
    const BITS: u32 = 2;
    let rest = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS);
    ns >> rest << rest
}

#[cfg(test)]
mod tests {
    use super::PathClass::{Other, Rack, RackAndSwitch, Switch};
    use super::*;

    #[test]
    fn a_path_is_of_the_class_that_the_labels_of_its_ends_say() {
        let class = |one, other| PathClass::between(&one, &other);
        assert_eq!(class((Some(1), Some(2)), (Some(1), Some(2))), RackAndSwitch);
        assert_eq!(class((Some(1), Some(2)), (Some(1), None)), Rack);
        assert_eq!(class((Some(1), Some(2)), (Some(3), Some(2))), Switch);
        assert_eq!(class((None, None), (None, None)), Other, "nodes without labels are near to none");
    }

    #[test]
    fn measured_times_order_the_classes() {
        let order = |times: [u64; 4]| {
            let mut by_class = PathTimesByClass::default();
            for (class, ns) in PathClass::ALL.into_iter().zip(times) {
                by_class.set(class, (ns > 0).then_some(ns));
            }
            by_class.order()
        };
        assert_eq!(order([0, 0, 0, 0]), PathClass::ALL);
        assert_eq!(order([90_000, 100_000, 200_000, 400_000]), PathClass::ALL);
        assert_eq!(order([0, 100_000, 40_000, 400_000]), [RackAndSwitch, Switch, Rack, Other]);
        assert_eq!(order([0, 100_000, 98_500, 0]), PathClass::ALL, "about as fast");
        assert_eq!(order([0, 0, 40_000, 10_000]), [RackAndSwitch, Rack, Other, Switch]);
        assert_eq!(order([100_000, 0, 0, 10_000]), [Other, RackAndSwitch, Rack, Switch]);
    }
}
