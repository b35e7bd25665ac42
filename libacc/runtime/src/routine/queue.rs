//! Queues (OpenACC 3.3, 3.2.9 to 3.2.16).
#![expect(unused_variables)]

use crate::{LocalThread, Runtime};
use accord_types::{Result};

impl Runtime {
    /// `acc_async_test` (3.2.9).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn async_test(&self, t: &mut LocalThread, queue: i32) -> Result<bool> {
        todo!()
    }

    /// `acc_async_test_all` (3.2.10).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn async_test_all(&self, t: &mut LocalThread) -> Result<bool> {
        todo!()
    }

    /// `acc_wait` (3.2.11).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn wait_queue(&self, t: &mut LocalThread, queue: i32) -> Result<()> {
        todo!()
    }

    /// `acc_wait_all` (3.2.13).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn wait_all(&self, t: &mut LocalThread) -> Result<()> {
        todo!()
    }

    /// `acc_wait_async` (3.2.12): `queue` waits for `waited`.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn wait_async(&self, t: &mut LocalThread, waited: i32, queue: i32) -> Result<()> {
        todo!()
    }

    /// `acc_wait_all_async` (3.2.14).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn wait_all_async(&self, t: &mut LocalThread, queue: i32) -> Result<()> {
        todo!()
    }

    /// `acc_get_default_async` (3.2.15).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn get_default_async(&self, t: &mut LocalThread) -> Result<i32> {
        todo!()
    }

    /// `acc_set_default_async` (3.2.16).
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn set_default_async(&self, t: &mut LocalThread, queue: i32) -> Result<()> {
        todo!()
    }
}
