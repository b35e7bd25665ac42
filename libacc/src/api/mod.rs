//! The C routines of OpenACC 3.3, chapter 3: one file per group.
//!
//! Addresses are numbers here. The runtime checks async-arguments and device types. Unknown device types are handled here
//! as the specification requires.

pub(crate) mod attach;
pub(crate) mod cuda;
pub(crate) mod data;
pub(crate) mod device;
pub(crate) mod device_queue;
pub(crate) mod init;
pub(crate) mod map;
pub(crate) mod memory;
pub(crate) mod prof;
pub(crate) mod property;
pub(crate) mod queue;

pub(crate) use property::text as property_text;

use accord_types::{DeviceType, Error, ErrorCode, Result};

/// The async-argument of a synchronous routine.
pub(crate) const SYNC: i32 = -2;

/// Converts a device type.
///
/// # Errors
/// Returns `acc_error_device_type_unavailable` if the type is unknown.
pub(crate) fn device_type(raw: i32) -> Result<DeviceType> {
    DeviceType::from_raw(raw).ok_or_else(|| {
        Error::new(ErrorCode::DeviceTypeUnavailable, format!("{raw} is no device type"))
            .remedy("use the acc_device_* names of openacc.h")
    })
}
