//! The processes and lanes that an operation passes, for a program that starts where this process is.

use crate::cluster::{Cluster, DeviceRow, NodeRow};
use accord_fabric::copy_way::CopyWay;
use accord_types::{DeviceNum, DeviceType, GpuAware, NodeId, settings};

/// The way between the program and a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ToDevice {
    /// The program drives the device itself.
    InProcess,
    /// An executor of another node drives it.
    Executor {
        /// The executor's node.
        node: String,
        /// The transport of the lane to it, and the reason.
        lane: String,
    },
}

/// The way between two devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BetweenDevices {
    /// The program drives both devices.
    InProcess,
    /// One executor drives both.
    OneExecutor {
        /// Its node.
        node: String,
    },
    /// The program drives one device, and has a lane to the other's executor.
    Lane {
        /// The other's node.
        node: String,
        /// The transport of the bytes.
        lane: String,
    },
    /// Two executors drive one device each, with a lane between them.
    Executors {
        /// The source's node, and the target's.
        nodes: [String; 2],
        /// The transport of the bytes, as far as known here.
        lane: String,
    },
}

impl ToDevice {
    /// Returns the name for display.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::InProcess => "in this process".to_owned(),
            Self::Executor { node, lane } => format!("{node} by {lane}"),
        }
    }
}

impl BetweenDevices {
    /// Whether the lane is MPI's.
    fn is_by_mpi(&self) -> bool {
        match self {
            Self::InProcess | Self::OneExecutor { .. } => false,
            Self::Lane { lane, .. } | Self::Executors { lane, .. } => lane.starts_with("mpi "),
        }
    }

    /// Returns the name for display, equal for all pairs with the same kind of way.
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
    /// Returns the device with a number of the type that a program uses.
    pub(crate) fn device(&self, device_type: DeviceType, number: u32) -> Option<&DeviceRow> {
        self.devices.iter().find(|row| row.device_type == device_type && row.num == Some(DeviceNum(number)))
    }

    /// Returns a program's default device type: that of the settings, else GPUs if there are some.
    pub(crate) fn default_type(&self) -> DeviceType {
        let set = settings::ACC_DEVICE_TYPE.find(crate::client::variable).map(|(_, name)| name.to_ascii_lowercase());
        let has = |wanted| self.devices.iter().any(|row| row.num.is_some() && row.device_type == wanted);
        match set.as_deref().map(|name| name.trim_start_matches("acc_device_")) {
            Some("nvidia") => DeviceType::Nvidia,
            Some("cpu") => DeviceType::Cpu,
            _ if has(DeviceType::Nvidia) => DeviceType::Nvidia,
            _ => DeviceType::Cpu,
        }
    }

    /// Returns the way from the program to a device.
    pub(crate) fn way_to(&self, own: &str, device: &DeviceRow) -> ToDevice {
        if self.is_own(own, device) {
            return ToDevice::InProcess;
        }
        ToDevice::Executor { node: device.info.node_name.clone(), lane: self.lane_to(device.info.id.node) }
    }

    /// Returns the way of a copy between two devices.
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

    /// Checks that a way between two devices is possible for this many bytes, as far as known here; otherwise returns
    /// the reason.
    pub(crate) fn may_go(
        &self,
        way: CopyWay,
        between: &BetweenDevices,
        from: &DeviceRow,
        to: &DeviceRow,
        len: u64,
    ) -> Result<(), &'static str> {
        let one_process = matches!(between, BetweenDevices::InProcess | BetweenDevices::OneExecutor { .. });
        let shares =
            |row: &DeviceRow| accord_backends::capabilities(row.info.kind).is_some_and(|able| able.shares_memory);
        match way {
            CopyWay::Peer if one_process => Ok(()),
            CopyWay::Peer => Err("two processes drive the devices"),
            _ if one_process => Err("one process drives both devices"),
            CopyWay::Mapped if !(shares(from) && shares(to)) => Err("only GPUs share their memory"),
            CopyWay::Mapped if crate::client::variable(settings::IPC.name).as_deref() == Some("off") => {
                Err("ACCORD_IPC=off")
            }
            CopyWay::Mapped if !self.is_one_machine(from, to) => Err("the nodes are different machines"),
            CopyWay::DeviceMpi if !(shares(from) && shares(to)) => Err("only GPUs have memory of that kind"),
            CopyWay::DeviceMpi if !between.is_by_mpi() => Err("the nodes are not of one MPI job"),
            CopyWay::DeviceMpi if !way.takes(len) => Err("so few bytes go by the host's memory"),
            CopyWay::DeviceMpi => match [from, to].map(|row| self.gpu_aware(row.info.id.node)) {
                [Some(GpuAware::Yes), Some(GpuAware::Yes)] => Ok(()),
                [None, _] | [_, None] => Err("the agents have not said yet whether their MPI gets GPUs' memory"),
                _ => Err("their MPI does not get GPUs' memory (accord doctor says why)"),
            },
            CopyWay::Mapped | CopyWay::Lane => Ok(()),
        }
    }

    /// Whether the agents of two devices' nodes have the same address, or are both on this machine.
    fn is_one_machine(&self, from: &DeviceRow, to: &DeviceRow) -> bool {
        let node = |row: &DeviceRow| self.nodes.iter().find(|node| node.id == row.info.id.node);
        let is_here = |node: &NodeRow| {
            let near = |route: &str| route == "in-process" || route.starts_with("shm ");
            node.route.as_deref().is_some_and(near)
        };
        let host = |node: &NodeRow| {
            let address = node.endpoint.as_ref()?.as_str().to_owned();
            address.rsplit_once(':').map(|(host, _)| host.to_owned())
        };
        node(from).zip(node(to)).is_some_and(|(from, to)| {
            is_here(from) && is_here(to) || host(from).is_some_and(|place| host(to) == Some(place))
        })
    }

    fn is_own(&self, own: &str, device: &DeviceRow) -> bool {
        self.coordinator.is_none() || device.info.node_name == own
    }

    fn lane_to(&self, node: NodeId) -> String {
        let row: Option<&NodeRow> = self.nodes.iter().find(|row| row.id == node);
        row.and_then(|row| row.route.clone()).unwrap_or_else(|| "unknown".to_owned())
    }
}
