//! Starting and ending the use of devices (OpenACC 3.3, 3.2.7, 3.2.8).
#![expect(unused_variables)]

use crate::{LocalThread, Runtime};
use accord_types::{DeviceType, Result};

impl Runtime {
    /// `acc_init` (3.2.7).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn init(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<()> {
        todo!()
    }

    /// `acc_shutdown` (3.2.8).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn shutdown(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<()> {
        todo!()
    }
}
