//! Opening a session.

use crate::cluster::LocalPort;
use crate::session::Session;
use accord_fabric::{Key, ProgramSpec};
use accord_runtime::ports::Cluster;
use accord_types::{DeviceInfo, Error, ErrorCode, Result, SpanSink};
use std::net::SocketAddr;
use std::sync::Arc;

/// Makes the in-process ports for devices of this machine, in the given order. They start when
/// [`accord_runtime::ports::Port::start`] is called.
pub type LocalFactory = Box<dyn Fn(&[DeviceInfo]) -> Result<Vec<Arc<dyn LocalPort>>> + Send + Sync>;

/// A cluster's door.
pub struct Coordinator {
    /// `host:port`.
    pub address: String,
    /// The cluster's key.
    pub key: Key,
}

/// In which order a session numbers its devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// This node's devices first, then the others.
    #[default]
    Local,
    /// The same in every rank.
    Global,
    /// The slice of this rank first.
    Rank {
        /// This program's rank.
        rank: u32,
        /// Number of ranks.
        ranks: u32,
    },
}

/// What [`connect`] needs to know.
pub struct LinkSettings {
    /// The cluster; none: this machine's devices only.
    pub coordinator: Option<Coordinator>,
    /// This machine's name, by which the coordinator knows its agent.
    pub node_name: String,
    /// How devices are numbered.
    pub order: Order,
    /// This machine's devices, for use without a coordinator.
    pub devices: Vec<DeviceInfo>,
    /// Drives this machine's devices.
    pub local: LocalFactory,
    /// What remote executors are told of this program.
    pub program: ProgramSpec,
    /// Takes spans of remote devices, in this machine's clock; none: not traced.
    pub trace: Option<Arc<dyn SpanSink>>,
}

/// Opens a session: with the coordinator's lease, or on this machine alone.
///
/// # Errors
/// `acc_error_device_unavailable` if the coordinator can't be reached or refuses.
pub fn connect(settings: LinkSettings) -> Result<Box<dyn Cluster>> {
    if settings.coordinator.is_none() {
        let locals = (settings.local)(&settings.devices)?;
        return Ok(Box::new(Session::of_this_machine(locals)));
    }
    Err(Error::new(ErrorCode::ImplementationDefined, "sessions are not there yet"))
}

/// Uses the executors behind `agents` without a coordinator.
///
/// # Errors
/// As for [`connect`].
pub fn connect_direct(agents: Vec<SocketAddr>, settings: LinkSettings) -> Result<Box<dyn Cluster>> {
    let _ = agents;
    connect(settings)
}
