//! A device's primary context, which it shares with the CUDA runtime and its libraries in the same process.

use super::driver::{Driver, DriverError};
use super::{current_context, repeated};
use accord_types::settings::GRAPHS;
use accord_types::{DevicePtr, NativeContext, NativeRange};
use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute};
use std::ptr::null_mut;

/// The primary context of one device, kept alive.
pub(crate) struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) device: CUdevice,
    pub(crate) raw: CUcontext,
    /// Whether repeated launches become graphs.
    pub(crate) graphs: bool,
}

// SAFETY: the driver's contexts may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn retain(driver: &'static Driver, device: CUdevice) -> Result<Self, DriverError> {
        let mut raw = null_mut();
        // SAFETY: `raw` is valid for writing; the driver checks the device.
        unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut raw, device) }?;
        current_context::add(raw.expose_provenance());
        let (mut version, off) = (0, std::env::var_os(GRAPHS.name).is_some_and(|value| value == "off"));
        // SAFETY: `version` is valid for writing. An error leaves 0, which counts as old.
        let _ = unsafe { driver.cuDriverGetVersion(&raw mut version) };
        Ok(Self { driver, device, raw, graphs: version >= repeated::DRIVER_MIN && !off })
    }

    /// Makes the context current on this thread until the guard is dropped, which restores the program's own current context.
    pub(crate) fn enter(&self) -> Result<Entered, DriverError> {
        let mut current: CUcontext = null_mut();
        // SAFETY: `current` is valid for writing.
        unsafe { self.driver.cuCtxGetCurrent(&raw mut current) }?;
        if current == self.raw {
            current_context::seen(current.addr());
            return Ok(Entered { driver: None });
        }
        // SAFETY: the context is alive as long as `self`.
        unsafe { self.driver.cuCtxPushCurrent_v2(self.raw) }?;
        Ok(Entered { driver: Some(self.driver) })
    }

    /// Returns a range of the device's memory, for a library that copies it on a thread of its own. The context outlives all
    /// users of such ranges, which end before the device does.
    pub(crate) fn range(&self, start: DevicePtr, len: usize) -> NativeRange {
        let context = NativeContext::new(self.raw.expose_provenance(), |raw| {
            let raw = std::ptr::with_exposed_provenance_mut(raw);
            // SAFETY: the context is alive while a range of its memory is exposed, and the driver refuses a lost one.
            Driver::get().is_ok_and(|driver| unsafe { driver.cuCtxSetCurrent(raw) }.is_ok())
        });
        NativeRange { address: start.0, len, context }
    }

    pub(crate) fn attribute(&self, attribute: CUdevice_attribute) -> i32 {
        let mut value = 0;
        // SAFETY: `value` is valid for writing. An attribute that the driver doesn't know stays 0.
        let _ = unsafe { self.driver.cuDeviceGetAttribute(&raw mut value, attribute, self.device) };
        value
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        current_context::leave(self.driver, self.raw.addr());
        // SAFETY: the call releases what `retain` retained. At the process's end the driver may be gone, and returns an error.
        let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A guard while which lives the context is current.
pub(crate) struct Entered {
    driver: Option<&'static Driver>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(driver) = self.driver {
            let mut popped = null_mut();
            // SAFETY: this thread pushed the context, and guards are dropped in reverse order.
            let _ = unsafe { driver.cuCtxPopCurrent_v2(&raw mut popped) };
            current_context::popped();
        }
    }
}
