//! What devices of a kind can do, and how they want to be used.

use accord_types::{DeviceType, LaunchDims};

/// The properties that all devices of a kind share. Callers decide by these and not by the kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The type under which programs see them.
    pub device_type: DeviceType,
    /// Whether they are offered only where there are no others, or where the user asks for them.
    pub fallback: bool,
    /// The dimensions of every launch, whatever it asks for; `None`: they are chosen for each.
    pub fixed_dims: Option<LaunchDims>,
    /// A launch may have to wait for its stream at any time: nothing may be locked then. Else it does if there is no room, which
    /// [`crate::Device::try_launch`] finds out in the same step.
    pub launch_may_wait: bool,
    /// Whether polling a stream's position is cheap, and quicker than a notification.
    pub quick_to_ask: bool,
    /// Whether regions are found in the program's images, which the caller must have; otherwise in its executable.
    pub takes_images: bool,
    /// Regions see only memory that a launch's arguments or a pointer variable name.
    pub sees_named_memory_only: bool,
    /// Whether the program's executable is started on the node, as the user of the calling process.
    pub runs_program: bool,
    /// Whether output of regions appears on the standard output of the process that drives the device.
    pub prints_here: bool,
    /// There is a driver that programs may use themselves: [`crate::Device::native`].
    pub native_handles: bool,
    /// Memory can be taken as allocations of the driver's own: [`crate::Device::allocate`].
    pub allocates: bool,
    /// Other processes of the machine may reach the memory, and it theirs.
    pub shares_memory: bool,
}
