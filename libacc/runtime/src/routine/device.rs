//! Choosing a device (OpenACC 3.3, 3.2.1 to 3.2.5, 3.2.17).
#![expect(unused_variables)]

use crate::{LocalThread, Runtime};
use accord_types::{DeviceType, Result};

impl Runtime {
    /// `acc_get_num_devices` (3.2.1).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn get_num_devices(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<u32> {
        todo!()
    }

    /// `acc_set_device_type` (3.2.2).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn set_device_type(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<()> {
        todo!()
    }

    /// `acc_get_device_type` (3.2.3).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn get_device_type(&self, t: &mut LocalThread) -> Result<DeviceType> {
        todo!()
    }

    /// `acc_set_device_num` (3.2.4).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn set_device_num(&self, t: &mut LocalThread, num: i32, device_type: DeviceType) -> Result<()> {
        todo!()
    }

    /// `acc_get_device_num` (3.2.5).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn get_device_num(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<u32> {
        todo!()
    }

    /// `acc_on_device` (3.2.17), called on the host.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn on_device(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<bool> {
        todo!()
    }
}
