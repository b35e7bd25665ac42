//! The settings of a session.

use crate::cluster::LocalDeviceClient;
use accord_device::SameHostPeers;
use accord_device::image::Images;
use accord_fabric::ProgramSpec;
use accord_fabric::route::TransportChoice;
use accord_fabric::transport::PeerAddress;
use accord_trust::Trust;
use accord_types::{DeviceInfo, DeviceKind, JobToken, Rank, Result, SpanSink};
use std::sync::Arc;
use std::time::Duration;

/// Creates the in-process clients of this machine's devices, in the given order. `None` stands for a device that this
/// process can't drive; the node's executor then does. Clients start by [`accord_runtime::ports::DeviceClient::start`].
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
    /// This node's devices only.
    Node,
}

/// Displays the state of a wait to the user; `None` means that it is over.
pub type ShowWait = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// The devices that a program wants, and their numbers.
#[derive(Default)]
pub struct WantedDevices {
    /// Their kind; `None` means all.
    pub kind: Option<DeviceKind>,
    /// The devices requested from the coordinator, as the text of a request; `None` means all.
    pub request: Option<String>,
    /// The job that the program belongs to.
    pub job: Option<JobToken>,
    /// The order of device numbers.
    pub order: Order,
    /// The rank of this program, if it is part of an MPI job.
    pub rank: Option<Rank>,
}

/// The time limits of a session.
#[derive(Clone, Copy)]
pub struct TimeLimits {
    /// The time limit of a silent executor; `None` means no limit.
    pub silence: Option<Duration>,
    /// The time limit of a silent coordinator.
    pub opening: Duration,
}

/// Displays messages to the user.
pub struct UserMessages {
    /// Prints a line when the program may seem to hang.
    pub notify: Box<dyn Fn(&str) + Send + Sync>,
    /// Displays the state of a waiting request; `None` means that the wait is over.
    pub waits: ShowWait,
}

/// The settings of [`crate::connect`].
pub struct SessionSettings {
    /// The cluster's coordinator; `None` means this machine's devices only.
    pub coordinator: Option<Coordinator>,
    /// The name of this machine, by which the coordinator knows its agent.
    pub node_name: String,
    /// The devices that the program wants.
    pub wanted: WantedDevices,
    /// The devices of this machine, for use without a coordinator.
    pub devices: Vec<DeviceInfo>,
    /// Creates the clients of this machine's devices.
    pub local: LocalFactory,
    /// The program's code for GPUs.
    pub images: Arc<Images>,
    /// Processes of this machine whose GPUs copy to each other directly; `None` if they don't.
    pub same_host: Option<Arc<SameHostPeers>>,
    /// The description of this program for remote executors.
    pub program: ProgramSpec,
    /// The transport of the lanes to executors.
    pub transport: TransportChoice,
    /// The time limits of silent processes.
    pub limits: TimeLimits,
    /// Displays messages to the user.
    pub messages: UserMessages,
    /// Receives spans of remote devices, in this machine's clock; `None` if they are not traced.
    pub trace: Option<Arc<dyn SpanSink>>,
}
