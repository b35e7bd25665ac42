//! Pointers on the device (OpenACC 3.3, 3.2.34, 3.2.35).
#![expect(unused_variables)]

use crate::{LocalThread, Runtime};
use accord_types::{Result};

impl Runtime {
    /// `acc_attach` and `acc_attach_async`. `pointer` is the address of the pointer variable.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn attach(&self, t: &mut LocalThread, pointer: usize, async_: i32) -> Result<()> {
        todo!()
    }

    /// `acc_detach` and its forms.
    ///
    /// # Errors
    /// Those that the specification names for it, and those of the device.
    pub fn detach(&self, t: &mut LocalThread, pointer: usize, async_: i32, finalize: bool) -> Result<()> {
        todo!()
    }
}
