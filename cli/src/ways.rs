//! Which processes and lanes an operation passes, for a program that starts where this process is.

use crate::cluster::{Cluster, DeviceRow, NodeRow};
use accord_types::{DeviceNum, DeviceType, NodeId};

/// Between the program and a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ToDevice {
    /// The program drives it itself.
    InProcess,
    /// The executor of another node does.
    Executor {
        /// That node.
        node: String,
        /// What carries commands and bytes to it, and why.
        lane: String,
    },
}

/// Between two devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BetweenDevices {
    /// The program drives both.
    InProcess,
    /// One executor does.
    OneExecutor {
        /// Its node.
        node: String,
    },
    /// The program has one of them, and a lane to the other's executor.
    Lane {
        /// The other's node.
        node: String,
        /// What carries the bytes.
        lane: String,
    },
    /// Two executors have one each, and a lane between them.
    Executors {
        /// The source's node, and the target's.
        nodes: [String; 2],
        /// What carries the bytes, as far as it can be told from here.
        lane: String,
    },
}

impl ToDevice {
    /// For people.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::InProcess => "in this process".to_owned(),
            Self::Executor { node, lane } => format!("{node} by {lane}"),
        }
    }
}

impl BetweenDevices {
    /// For people: the same for all pairs that go alike.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::InProcess => "in this process".to_owned(),
            Self::OneExecutor { .. } => "in one executor".to_owned(),
            Self::Lane { lane, .. } => format!("program and executor, {lane}"),
            Self::Executors { lane, .. } => format!("executor to executor, {lane}"),
        }
    }
}

impl Cluster {
    /// The device with a number of the type that a program uses.
    pub(crate) fn device(&self, device_type: DeviceType, number: u32) -> Option<&DeviceRow> {
        self.devices.iter().find(|row| row.device_type == device_type && row.num == Some(DeviceNum(number)))
    }

    /// How the program reaches a device.
    pub(crate) fn way_to(&self, own: &str, device: &DeviceRow) -> ToDevice {
        if self.is_own(own, device) {
            return ToDevice::InProcess;
        }
        ToDevice::Executor { node: device.info.node_name.clone(), lane: self.lane_to(device.info.id.node) }
    }

    /// How bytes get from one device to another.
    pub(crate) fn way_between(&self, own: &str, from: &DeviceRow, to: &DeviceRow) -> BetweenDevices {
        let [from_node, to_node] = [from, to].map(|row| row.info.id.node);
        let node = |row: &DeviceRow| row.info.node_name.clone();
        match (self.is_own(own, from), self.is_own(own, to)) {
            (true, true) => BetweenDevices::InProcess,
            (true, false) => BetweenDevices::Lane { node: node(to), lane: self.lane_to(to_node) },
            (false, true) => BetweenDevices::Lane { node: node(from), lane: self.lane_to(from_node) },
            (false, false) if from_node == to_node => BetweenDevices::OneExecutor { node: node(from) },
            (false, false) => BetweenDevices::Executors { nodes: [node(from), node(to)], lane: self.lane_to(to_node) },
        }
    }

    fn is_own(&self, own: &str, device: &DeviceRow) -> bool {
        self.coordinator.is_none() || device.info.node_name == own
    }

    fn lane_to(&self, node: NodeId) -> String {
        let row: Option<&NodeRow> = self.nodes.iter().find(|row| row.id == node);
        row.and_then(|row| row.route.clone()).unwrap_or_else(|| "unknown".to_owned())
    }
}
