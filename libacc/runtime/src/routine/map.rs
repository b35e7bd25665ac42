//! The present table by hand (OpenACC 3.3, 3.2.25 to 3.2.27).
#![expect(unused_variables)]

use crate::{LocalThread, Runtime};
use accord_types::{Result};

impl Runtime {
    /// `acc_map_data`.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn map_data(&self, t: &mut LocalThread, host: usize, device: usize, bytes: usize) -> Result<()> {
        todo!()
    }

    /// `acc_unmap_data`.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn unmap_data(&self, t: &mut LocalThread, host: usize) -> Result<()> {
        todo!()
    }

    /// `acc_deviceptr`: 0 if absent.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn deviceptr(&self, t: &mut LocalThread, host: usize) -> Result<usize> {
        todo!()
    }

    /// `acc_hostptr`: 0 if no host data is there.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn hostptr(&self, t: &mut LocalThread, device: usize) -> Result<usize> {
        todo!()
    }

    /// `acc_is_present`.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn is_present(&self, t: &mut LocalThread, host: usize, bytes: usize) -> Result<bool> {
        todo!()
    }
}
