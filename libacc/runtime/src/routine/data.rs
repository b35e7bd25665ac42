//! Data by address (OpenACC 3.3, 3.2.20 to 3.2.24).
#![expect(unused_variables)]

use crate::{LocalThread, Runtime};
use accord_types::{Result};

impl Runtime {
    /// `acc_copyin` and `acc_copyin_async`: the device address.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn copyin(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32) -> Result<usize> {
        todo!()
    }

    /// `acc_create` and `acc_create_async`: the device address.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn create(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32) -> Result<usize> {
        todo!()
    }

    /// `acc_copyout` and its forms.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn copyout(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32, finalize: bool) -> Result<()> {
        todo!()
    }

    /// `acc_delete` and its forms.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn delete(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32, finalize: bool) -> Result<()> {
        todo!()
    }

    /// `acc_update_device` and `acc_update_device_async`.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn update_device(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32) -> Result<()> {
        todo!()
    }

    /// `acc_update_self` and `acc_update_self_async`.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn update_self(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32) -> Result<()> {
        todo!()
    }
}
