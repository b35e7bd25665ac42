//! What a device is (OpenACC 3.3, 3.2.6).
#![expect(unused_variables)]

use crate::{LocalThread, Runtime};
use accord_types::{DeviceType, Result};

impl Runtime {
    /// `acc_get_property`: 0 for unknown or string properties.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn get_property(&self, t: &mut LocalThread, num: i32, device_type: DeviceType, property: i32) -> Result<u64> {
        todo!()
    }

    /// `acc_get_property_string`: none for unknown or numeric properties.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn get_property_string(&self, t: &mut LocalThread, num: i32, device_type: DeviceType, property: i32) -> Result<Option<String>> {
        todo!()
    }
}
