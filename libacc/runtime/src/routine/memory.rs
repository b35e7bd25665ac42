//! Device memory (OpenACC 3.3, 3.2.18, 3.2.19, 3.2.28 to 3.2.33).
#![expect(unused_variables)]

use crate::{LocalThread, Runtime};
use accord_types::{Result};

impl Runtime {
    /// `acc_malloc`: a device address, 0 for 0 bytes or when there is no memory.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn malloc(&self, t: &mut LocalThread, bytes: usize) -> Result<usize> {
        todo!()
    }

    /// `acc_free`.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn free(&self, t: &mut LocalThread, device: usize) -> Result<()> {
        todo!()
    }

    /// `acc_memcpy_to_device` and its asynchronous form.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn memcpy_to_device(&self, t: &mut LocalThread, device: usize, host: usize, bytes: usize, async_: i32) -> Result<()> {
        todo!()
    }

    /// `acc_memcpy_from_device` and its asynchronous form.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn memcpy_from_device(&self, t: &mut LocalThread, host: usize, device: usize, bytes: usize, async_: i32) -> Result<()> {
        todo!()
    }

    /// `acc_memcpy_device` and its asynchronous form.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn memcpy_device(&self, t: &mut LocalThread, dst: usize, src: usize, bytes: usize, async_: i32) -> Result<()> {
        todo!()
    }

    /// `acc_memcpy_d2d` and its asynchronous form. The host addresses are present on the two devices
    /// (numbers within the current device type); one that is not, but is an address that `acc_malloc` gave
    /// on that device, is taken as that.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn memcpy_d2d(&self, t: &mut LocalThread, dst: usize, src: usize, bytes: usize, dev_dst: i32, dev_src: i32, async_: i32) -> Result<()> {
        todo!()
    }
}
