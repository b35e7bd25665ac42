//! The abilities and requirements of the devices of a kind.

use accord_types::{DeviceType, LaunchDims};

/// The properties that all devices of a kind share. Callers decide by these, not by the kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The device type that programs see.
    pub device_type: DeviceType,
    /// Whether the devices are offered only if there are no others, or on the user's request.
    pub fallback: bool,
    /// The dimensions of every launch, whatever the program requests; `None`: they are chosen per launch.
    pub fixed_dims: Option<LaunchDims>,
    /// Whether a launch may block on its stream at any time, so that no lock may be held. Otherwise it blocks only if the stream is full, which
    /// [`crate::Device::try_launch`] checks in the same step.
    pub launch_may_wait: bool,
    /// Whether polling a stream's position is cheap, and quicker than a notification.
    pub quick_to_ask: bool,
    /// Whether the device finds regions in the program's images, which the caller must supply; otherwise in its executable.
    pub takes_images: bool,
    /// Whether regions can access only memory that a launch's arguments or a pointer variable name.
    pub sees_named_memory_only: bool,
    /// Whether memory that is not mapped faults by pages of 4 KiB, if the program's environment requests it (`ACCORD_CHECK=bounds`).
    pub guards_blocks: bool,
    /// Whether the node starts the program's executable, as the user of the calling process.
    pub runs_program: bool,
    /// Whether output of regions appears on the standard output of the process that drives the device.
    pub prints_here: bool,
    /// Whether programs may use the device's driver themselves, see [`crate::Device::native`].
    pub native_handles: bool,
    /// Whether memory can be allocated by the driver, see [`crate::Device::allocate`].
    pub allocates: bool,
    /// Whether the devices and other processes of the machine may access each other's memory.
    pub shares_memory: bool,
}
