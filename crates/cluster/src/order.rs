//! The numbering of devices, on which programs rely (`local_rank % n`).

use super::node::Node;
use accord_types::{DeviceId, DeviceKind, OrderPolicy, Rank, natural_order};

/// The process for which devices are numbered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Viewer<'a> {
    /// The program's machine.
    pub node_name: &'a str,
    /// Its rank.
    pub rank: Option<Rank>,
    /// The kind of devices that are numbered; `None` for all.
    pub kind: Option<DeviceKind>,
    /// The order of the numbers.
    pub order: OrderPolicy,
}

/// Returns the offered devices in the order of the viewer's device numbers, and the number of devices beyond `max`.
/// Devices of the viewer's node are included first, then those of the following nodes.
pub fn number_devices<'a>(
    nodes: impl Iterator<Item = &'a Node>,
    viewer: &Viewer<'_>,
    max: usize,
    is_offered: impl Fn(DeviceId) -> bool,
) -> (Vec<DeviceId>, usize) {
    let of_node = |node: &Node| {
        node.devices
            .iter()
            .filter(|device| viewer.kind.is_none_or(|kind| device.kind == kind))
            .map(|device| device.id)
            .filter(|device| is_offered(*device))
            .collect::<Vec<_>>()
    };
    // Sorted by name, because the order of registration differs between starts of the cluster.
    let mut usable: Vec<&Node> = nodes.collect();
    usable.sort_by(|a, b| natural_order(&a.name, &b.name));
    let own = usable.iter().position(|node| node.name == viewer.node_name).unwrap_or(0);
    let (before, from_own) = usable.split_at(own);
    let (mut devices, mut rest) = (Vec::new(), 0);
    let mut take = |nodes: &[&Node]| {
        for node in nodes {
            let of_node = of_node(node);
            let taken = of_node.len().min(max - devices.len());
            rest += of_node.len() - taken;
            devices.extend(&of_node[..taken]);
        }
        devices.len()
    };
    let of_own = take(from_own);
    take(before);
    if viewer.order != OrderPolicy::Local {
        devices.rotate_left(of_own);
    }
    if let (OrderPolicy::Rank, Some(rank)) = (viewer.order, viewer.rank) {
        let start = slice_start(devices.len(), rank);
        devices.rotate_left(start);
    }
    (devices, rest)
}

/// Returns the beginning of `rank`'s slice, with `devices` dealt out as evenly as possible. With more ranks than
/// devices, neighbouring ranks share.
fn slice_start(devices: usize, rank: Rank) -> usize {
    if devices == 0 || rank.size == 0 {
        return 0;
    }
    let place = u64::from(rank.rank % rank.size) * devices as u64 / u64::from(rank.size);
    usize::try_from(place).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::input::{LinkId, Registration};
    use super::super::time::Millis;
    use super::*;
    use accord_types::{DeviceInfo, NodeId};
    use std::collections::BTreeMap;

    fn cluster(nodes: u32, devices: u32) -> BTreeMap<NodeId, Node> {
        (0..nodes)
            .map(|n| {
                let info = |ordinal| DeviceInfo {
                    id: DeviceId { node: NodeId(0), ordinal },
                    node_name: String::new(),
                    kind: if n == 0 { DeviceKind::CUDA } else { DeviceKind::CPU },
                    name: "d".into(),
                    vendor: "v".into(),
                    driver: "1".into(),
                    uuid: String::new(),
                    memory: 1,
                    units: 1,
                    compute: (0, 0),
                    context: 0,
                    attributes: Vec::new(),
                    numa: None,
                    cpus: Vec::new(),
                };
                let registration = Registration::new(format!("h{n}"), "a:1", 1, (0..devices).map(info).collect());
                (NodeId(n), Node::new(NodeId(n), LinkId(0), Millis(0), registration))
            })
            .collect()
    }

    fn numbers(nodes: &BTreeMap<NodeId, Node>, viewer: &Viewer<'_>) -> Vec<(u32, u32)> {
        let usable = nodes.values().filter(|node| node.takes_sessions());
        number_devices(usable, viewer, usize::MAX, |_| true).0.iter().map(|id| (id.node.0, id.ordinal)).collect()
    }

    fn viewer(node_name: &str, order: OrderPolicy) -> Viewer<'_> {
        Viewer { node_name, rank: None, kind: None, order }
    }

    #[test]
    fn nodes_stand_in_the_natural_order_of_their_names() {
        let mut nodes = BTreeMap::new();
        for (id, name) in ["n10", "n2", "n1", "m3"].iter().enumerate() {
            let mut node = cluster(1, 1).remove(&NodeId(0)).unwrap();
            (node.id, node.name) = (NodeId(id as u32), (*name).into());
            std::sync::Arc::make_mut(&mut node.devices)[0].id.node = node.id;
            nodes.insert(node.id, node);
        }
        let global = numbers(&nodes, &viewer("n2", OrderPolicy::Global));
        assert_eq!(global, [(3, 0), (2, 0), (1, 0), (0, 0)]);
        let local = numbers(&nodes, &viewer("n2", OrderPolicy::Local));
        assert_eq!(local, [(1, 0), (0, 0), (3, 0), (2, 0)]);
    }

    fn rank(rank: u32, size: u32) -> Option<Rank> {
        Some(Rank { rank, size, local_rank: 0, local_size: 1, job: 0 })
    }

    #[test]
    fn local_begins_with_the_own_node() {
        let nodes = cluster(3, 2);
        let seen = numbers(&nodes, &viewer("h1", OrderPolicy::Local));
        assert_eq!(seen, [(1, 0), (1, 1), (2, 0), (2, 1), (0, 0), (0, 1)]);
        let stranger = numbers(&nodes, &viewer("elsewhere", OrderPolicy::Local));
        assert_eq!(stranger, numbers(&nodes, &viewer("h2", OrderPolicy::Global)));
    }

    #[test]
    fn rank_begins_with_the_ranks_slice() {
        let nodes = cluster(3, 2);
        let starts = |size: u32| -> Vec<(u32, u32)> {
            (0..size)
                .map(|r| numbers(&nodes, &Viewer { rank: rank(r, size), ..viewer("h0", OrderPolicy::Rank) })[0])
                .collect()
        };
        assert_eq!(starts(3), [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(starts(2), [(0, 0), (1, 1)]);
        assert_eq!(starts(12)[10..], [(2, 1), (2, 1)]);
        let seen = numbers(&nodes, &Viewer { rank: rank(1, 3), ..viewer("h0", OrderPolicy::Rank) });
        assert_eq!(seen.len(), 6);
        assert_eq!(seen[5], (0, 1));
    }

    #[test]
    fn orders_hold_among_the_offered_devices() {
        let nodes = cluster(3, 2);
        let seen = |viewer: &Viewer<'_>| {
            let offered = |device: DeviceId| device.ordinal == 1;
            number_devices(nodes.values(), viewer, usize::MAX, offered).0.iter().map(|id| id.node.0).collect::<Vec<_>>()
        };
        assert_eq!(seen(&viewer("h1", OrderPolicy::Local)), [1, 2, 0]);
        assert_eq!(seen(&Viewer { rank: rank(2, 3), ..viewer("h0", OrderPolicy::Rank) }), [2, 0, 1]);
    }

    #[test]
    fn device_limit_keeps_devices_of_the_own_and_following_nodes() {
        let nodes = cluster(4, 2);
        let seen = |node_name: &str, order, max| {
            let (devices, rest) = number_devices(nodes.values(), &viewer(node_name, order), max, |_| true);
            assert_eq!(devices.len() + rest, 8);
            devices.iter().map(|id| (id.node.0, id.ordinal)).collect::<Vec<_>>()
        };
        assert_eq!(seen("h2", OrderPolicy::Local, 5), [(2, 0), (2, 1), (3, 0), (3, 1), (0, 0)]);
        assert_eq!(seen("h2", OrderPolicy::Global, 5), [(0, 0), (2, 0), (2, 1), (3, 0), (3, 1)]);
        assert_eq!(seen("h1", OrderPolicy::Global, 3), [(1, 0), (1, 1), (2, 0)]);
    }

    #[test]
    fn other_kinds_and_draining_nodes_are_left_out() {
        let mut nodes = cluster(3, 1);
        let only_cpu = Viewer { kind: Some(DeviceKind::CPU), ..viewer("h0", OrderPolicy::Local) };
        assert_eq!(numbers(&nodes, &only_cpu), [(1, 0), (2, 0)]);
        nodes.get_mut(&NodeId(1)).unwrap().draining = true;
        assert_eq!(numbers(&nodes, &only_cpu), [(2, 0)]);
    }
}
