//! What is needed to open a session.

use crate::cluster::LocalDeviceClient;
use accord_device::SameHostPeers;
use accord_device::image::Images;
use accord_fabric::ProgramSpec;
use accord_fabric::route::Wanted;
use accord_fabric::transport::PeerAddress;
use accord_trust::Trust;
use accord_types::{DeviceInfo, DeviceKind, JobToken, Rank, Result, SpanSink};
use std::sync::Arc;
use std::time::Duration;

/// Makes the in-process clients for devices of this machine, in the given order; none for a device that this process
/// can't drive, which the node's executor does then. They start when [`accord_runtime::ports::DeviceClient::start`] is called.
pub type LocalFactory = Box<dyn Fn(&[DeviceInfo]) -> Result<Vec<Option<Arc<dyn LocalDeviceClient>>>> + Send + Sync>;

/// A cluster's coordinator.
pub struct Coordinator {
    /// The coordinator's address.
    pub address: PeerAddress,
    /// The program's identity there.
    pub trust: Trust,
}

/// The order in which a session numbers its devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// This node's devices first, then the others.
    #[default]
    Local,
    /// The same in every rank.
    Global,
    /// The slice of this rank first.
    Rank,
    /// This node's devices, and no others.
    Node,
}

/// Shows people the state of a wait; none: it is over.
pub type ShowWait = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// The settings of [`crate::connect`].
pub struct SessionSettings {
    /// The cluster; none: this machine's devices only.
    pub coordinator: Option<Coordinator>,
    /// The name of this machine, by which the coordinator knows its agent.
    pub node_name: String,
    /// The kind of devices of the session, of those that the cluster has; `None`: all.
    pub kind: Option<DeviceKind>,
    /// The devices that the program asks the coordinator for, as the text of a request; none: all.
    pub request: Option<String>,
    /// The job that the program is of.
    pub job: Option<JobToken>,
    /// The order of device numbers.
    pub order: Order,
    /// The rank of this program, if it is part of an MPI job.
    pub rank: Option<Rank>,
    /// The devices of this machine, for use without a coordinator.
    pub devices: Vec<DeviceInfo>,
    /// Drives this machine's devices.
    pub local: LocalFactory,
    /// The program's code for GPUs.
    pub images: Arc<Images>,
    /// Processes of this machine, for GPUs that copy to each other directly; none: they don't.
    pub same_host: Option<Arc<SameHostPeers>>,
    /// The description of this program for remote executors.
    pub program: ProgramSpec,
    /// The transport of the lanes to executors.
    pub transport: Wanted,
    /// The limit of waits for an executor that gives no sign of life; `None`: for ever.
    pub timeout: Option<Duration>,
    /// The limit of waits for a coordinator that does not answer.
    pub open_timeout: Duration,
    /// Takes a line for people where the program may seem to hang.
    pub tell: Box<dyn Fn(&str) + Send + Sync>,
    /// Takes what people see while the request waits; none: the wait is over.
    pub waits: ShowWait,
    /// Takes spans of remote devices, in this machine's clock; none: not traced.
    pub trace: Option<Arc<dyn SpanSink>>,
}
