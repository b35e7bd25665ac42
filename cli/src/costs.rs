//! Costs of ways, combined from agents' measurements.

use crate::cluster::{Cluster, DeviceRow, PathRow};
use crate::ways::{BetweenDevices, ToDevice};
use accord_fabric::copy_way::{CopyWay, into_mapped, measured, over_lane};
use accord_types::{Cost, DeviceFigures, GpuAware, NodeFigures, NodeId, Source};

impl Cluster {
    /// Returns the path between two nodes, in either direction.
    pub(crate) fn path(&self, a: NodeId, b: NodeId) -> Option<&PathRow> {
        self.paths.iter().find(|path| path.ends == (a, b) || path.ends == (b, a))
    }

    /// Returns the measurements of a device by its node.
    pub(crate) fn device_figures(&self, device: &DeviceRow) -> Option<DeviceFigures> {
        self.node_figures(device.info.id.node)?.device(device.info.id.ordinal).copied()
    }

    /// Returns whether a node's MPI is GPU-aware, as its agent found.
    pub(crate) fn gpu_aware(&self, node: NodeId) -> Option<&GpuAware> {
        self.node_figures(node)?.gpu_aware.as_ref()
    }

    fn node_figures(&self, node: NodeId) -> Option<&NodeFigures> {
        self.nodes.iter().find(|row| row.id == node)?.figures.as_ref()
    }

    /// Returns the node that the program is on, if it has an agent.
    fn own_node(&self, own: &str) -> Option<NodeId> {
        self.nodes.iter().find(|row| row.name == own).map(|row| row.id)
    }

    /// Returns the nodes at the ends of the path that a copy between two devices takes.
    fn ends(&self, own: &str, between: &BetweenDevices, from: &DeviceRow, to: &DeviceRow) -> Option<(NodeId, NodeId)> {
        let [from_node, to_node] = [from, to].map(|row| row.info.id.node);
        match between {
            BetweenDevices::InProcess | BetweenDevices::OneExecutor { .. } => None,
            BetweenDevices::Executors { .. } => Some((from_node, to_node)),
            BetweenDevices::Lane { .. } if from.info.node_name == own => Some((self.own_node(own)?, to_node)),
            BetweenDevices::Lane { .. } => Some((from_node, self.own_node(own)?)),
        }
    }

    /// Returns the path that a copy takes between processes.
    pub(crate) fn path_between(
        &self,
        own: &str,
        between: &BetweenDevices,
        from: &DeviceRow,
        to: &DeviceRow,
    ) -> Option<&PathRow> {
        let (a, b) = self.ends(own, between, from, to)?;
        self.path(a, b)
    }

    /// Returns the path from the program to an executor.
    pub(crate) fn path_to(&self, own: &str, device: &DeviceRow, way: &ToDevice) -> Option<&PathRow> {
        match way {
            ToDevice::InProcess => None,
            ToDevice::Executor { .. } => self.path(self.own_node(own)?, device.info.id.node),
        }
    }

    /// Returns the times of a way between two devices: measured ones where available, otherwise defaults.
    pub(crate) fn cost(
        &self,
        way: CopyWay,
        own: &str,
        between: &BetweenDevices,
        from: &DeviceRow,
        to: &DeviceRow,
    ) -> Cost {
        let path = self.path_between(own, between, from, to).map(|row| row.cost);
        let known = match way {
            CopyWay::Peer => self.pair(from, to),
            CopyWay::Mapped => into_mapped(self.pair(from, to).or_else(|| self.pair(to, from)), path),
            CopyWay::DeviceMpi => None,
            CopyWay::Lane => {
                let out = self.device_figures(from).map(|figures| measured(figures.from_device));
                let into = self.device_figures(to).map(|figures| measured(figures.to_device));
                over_lane(out, path, into)
            }
        };
        known.unwrap_or_else(|| way.usual())
    }

    /// Returns the cost of a copy within one process of the source's node.
    fn pair(&self, from: &DeviceRow, to: &DeviceRow) -> Option<Cost> {
        let (a, b) = (from.info.id, to.info.id);
        let (times, exact) = self.node_figures(a.node)?.pair(a.ordinal, b.ordinal)?;
        let source = if exact && a.node == b.node { Source::Measured } else { Source::Estimated };
        Some(Cost { times, source })
    }
}
