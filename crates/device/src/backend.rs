//! The registry's view of a backend.

use crate::capabilities::Capabilities;
use crate::device::Device;
use crate::image::Images;
use crate::memory_account::MemoryAccount;
use crate::program::ProgramSpec;
use crate::turn::TurnAgent;
use accord_types::{AddressRange, DeviceInfo, DeviceKind, NodeId, Result};
use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

/// One backend. Its module defines it, and `accord_backends::BACKENDS` lists it.
pub struct Backend {
    /// The kind of the devices.
    pub kind: DeviceKind,
    /// The backend's name in tables and settings.
    pub name: &'static str,
    /// The capabilities of the devices.
    pub capabilities: &'static Capabilities,
    /// Finds the devices of this machine that need no configuration. Takes microseconds if there are none.
    pub find: fn(NodeId, &str) -> Found,
    /// Returns the number of addresses that a device prefers for its memory. More than its memory allows for fragmentation.
    pub addresses_wanted: fn(&DeviceInfo) -> u64,
    /// Creates the driver's context of a device that has not started, for the program's own calls of the driver. `None` if the driver has no contexts.
    pub context: fn(&DeviceInfo) -> Result<Option<DriverContext>>,
    /// Starts the device that the information describes.
    pub start: fn(DeviceInfo, &StartConfig) -> Result<Arc<dyn Device>>,
}

/// A driver's context, which lives as long as this value.
pub struct DriverContext {
    /// The driver's handle.
    pub handle: usize,
    /// Keeps the context alive.
    _kept: Box<dyn Any + Send>,
}

impl DriverContext {
    /// Creates the value for a handle that is valid as long as `kept` lives.
    pub fn new(handle: usize, kept: impl Any + Send) -> Self {
        Self { handle, _kept: Box::new(kept) }
    }
}

/// The parameters of a start, besides the device.
#[derive(Clone, Default)]
pub struct StartConfig {
    /// Place of the device's memory, so that no other device of the session has the same addresses; `None`: the backend
    /// chooses. A driver may choose another place: [`Device::addresses`] returns it.
    pub place: Option<AddressRange>,
    /// The program whose regions run, if its executable must be started; `None`: this process's own program.
    pub program: Option<ProgramSpec>,
    /// Counts the memory of all sessions of the node on the device, if no driver does; `None`: only this process uses the device.
    pub account: Option<Arc<dyn MemoryAccount>>,
    /// The node's agent, which gives out turns on the device; `None`: regions run at any time.
    pub turns: Option<Arc<dyn TurnAgent>>,
    /// The program's images.
    pub images: Arc<Images>,
    /// Folder for compiled code; `None`: every start compiles.
    pub cache: Option<PathBuf>,
    /// Whether other processes of the machine may access the memory, see docs/design/transports.md.
    pub ipc: bool,
    /// Whether memory may contain another user's data, which must not be readable.
    pub scrub: bool,
    /// Whether memory comes from [`crate::Device::allocate`], if the backend supports it ([`Capabilities::allocates`]).
    pub allocate: bool,
    /// Whether other code in this process uses the device's driver, and may access the device's memory; `None` if there is no
    /// such code.
    pub company: Option<fn() -> bool>,
}

/// The devices of a backend that were found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The usable devices, in their driver's order. Ordinals are the driver's.
    pub devices: Vec<DeviceInfo>,
    /// A clause for the user why there are no devices, or fewer than the driver shows, if there is a reason to report.
    pub note: Option<String>,
    /// Whether the driver or a device failed, so that the note describes a fault and its remedy, not a machine without devices.
    pub failed: bool,
}
