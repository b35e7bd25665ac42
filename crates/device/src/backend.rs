//! What the registry wants to know of a backend.

use crate::capabilities::Capabilities;
use crate::device::Device;
use crate::image::Images;
use crate::memory_account::MemoryAccount;
use crate::program::ProgramSpec;
use accord_types::{AddressRange, DeviceInfo, DeviceKind, NodeId, Result};
use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

/// One backend. Its module makes it; [`crate::registry::BACKENDS`] names it.
pub struct Backend {
    /// The kind of its devices.
    pub kind: DeviceKind,
    /// Its name in tables and settings.
    pub name: &'static str,
    /// The capabilities of its devices.
    pub capabilities: &'static Capabilities,
    /// Finds the devices of this machine that need no configuration. Without any it takes microseconds.
    pub find: fn(NodeId, &str) -> Found,
    /// Returns how many addresses a device likes to have for its memory. More than there is memory leaves room for
    /// fragments.
    pub addresses_wanted: fn(&DeviceInfo) -> u64,
    /// Makes the driver's context of a device that has not started, where the driver has such: the program's own calls of the driver need it.
    pub context: fn(&DeviceInfo) -> Result<Option<DriverContext>>,
    /// Starts the device that the information describes.
    pub start: fn(DeviceInfo, &StartConfig) -> Result<Arc<dyn Device>>,
}

/// A driver's context, which lives as long as this.
pub struct DriverContext {
    /// The driver's handle.
    pub handle: usize,
    /// Keeps it alive.
    pub(crate) _kept: Box<dyn Any + Send>,
}

/// The parameters of a start, besides the device.
#[derive(Clone, Default)]
pub struct StartConfig {
    /// Place of the device's memory, so that no other device of the session has the same addresses; `None`: the backend
    /// chooses. A driver may put it elsewhere all the same: [`Device::addresses`] tells.
    pub place: Option<AddressRange>,
    /// The program whose regions run, where its executable is started; none: this process's own.
    pub program: Option<ProgramSpec>,
    /// Counts the memory that all sessions of the node have on the device, where no driver does; none: this process has the device alone.
    pub account: Option<Arc<dyn MemoryAccount>>,
    /// The program's images.
    pub images: Arc<Images>,
    /// Folder for compiled code; none: every start compiles.
    pub cache: Option<PathBuf>,
    /// Other processes of the machine may reach the memory, see docs/design/transports.md.
    pub ipc: bool,
    /// Whether memory may have been another user's, whose data must not be readable there.
    pub scrub: bool,
    /// Memory comes from [`crate::Device::allocate`], where the backend can do that ([`Capabilities::allocates`]).
    pub allocate: bool,
    /// Whether other code in this process uses the device's driver, and may access the device's memory by it; `None` if
    /// there is no such code.
    pub company: Option<fn() -> bool>,
}

/// The devices of a backend that were found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The usable devices, in their driver's order. Ordinals are the driver's.
    pub devices: Vec<DeviceInfo>,
    /// The reason why there are none, or fewer than the driver shows: a clause for people. `None` if there is nothing
    /// to say.
    pub note: Option<String>,
    /// The driver or a device failed: the note tells of trouble and what to do about it, and not of a machine without devices.
    pub failed: bool,
}
