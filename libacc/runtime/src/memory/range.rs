//! A range of device memory.

use accord_types::DevicePtr;

/// Addresses of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    /// The first one.
    pub(crate) start: DevicePtr,
    /// Bytes, in whole pages.
    pub(crate) len: u64,
}
