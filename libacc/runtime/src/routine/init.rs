//! Starts and ends the use of devices (OpenACC 3.3, 3.2.7 and 3.2.8).

use crate::local_thread::Current;
use crate::{LocalThread, Runtime};
use accord_types::{DeviceType, Error, Result};
use std::sync::atomic::Ordering;

impl Runtime {
    /// Implements `acc_init` (3.2.7): sets the current type and starts this thread's device of it. Others of that type start
    /// at their first use: a cluster has many.
    ///
    /// # Errors
    /// Returns `acc_error_device_type_unavailable`, `acc_error_device_init`.
    pub fn init(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<()> {
        let init = |t: &mut LocalThread| {
            if self.count(self.concrete(t, device_type)?) == 0 {
                return Err(Self::no_type(device_type));
            }
            self.set_device_type(t, device_type)?;
            if self.is_unsettled(t) {
                // The device of this rank is determined when it is named or used, and starts then.
                return Ok(());
            }
            self.target(t).map(|_| ())
        };
        init(t).map_err(|error: Error| error.call("acc_init"))
    }

    /// Implements `acc_init_device` (3.2.7): makes device `num` of that type this thread's and starts it.
    ///
    /// # Errors
    /// Returns `acc_error_device_type_unavailable`, `acc_error_device_unavailable`, `acc_error_device_init`.
    pub fn init_device(&self, t: &mut LocalThread, num: i32, device_type: DeviceType) -> Result<()> {
        let init = |t: &mut LocalThread| {
            let concrete = self.concrete(t, device_type)?;
            self.settle(Some(i64::from(num)).filter(|num| self.nth(*num, concrete).is_ok()), concrete);
            t.current = Some(self.nth(i64::from(num), concrete)?);
            self.last_type.store(concrete as i32, Ordering::Relaxed);
            self.target(t).map(|_| ())
        };
        init(t).map_err(|error: Error| error.call("acc_init_device"))
    }

    /// Implements `acc_shutdown` (3.2.8): all data on the devices of that type is lost, whatever its counters are. A later use
    /// starts them again.
    ///
    /// # Errors
    /// Returns `acc_error_device_type_unavailable`, `acc_error_device_shutdown`.
    pub fn shutdown(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<()> {
        let shut_down = |t: &mut LocalThread| {
            let concrete = self.concrete(t, device_type)?;
            if self.count(concrete) == 0 {
                return Err(Self::no_type(concrete));
            }
            let mut first = Ok(());
            for device in self.of_type(concrete) {
                let ended = device.shut_down();
                first = first.and(ended);
            }
            if matches!(t.current, Some(Current::Device(_))) && self.current_type(t)? == concrete {
                t.current = None;
                t.wanted = None;
                self.last_type.store(concrete as i32, Ordering::Relaxed);
            }
            first
        };
        shut_down(t).map_err(|error: Error| error.call("acc_shutdown"))
    }

    /// Implements `acc_shutdown_device` (3.2.8): all data on device `num` of that type is lost. It remains the current device of threads that use it,
    /// and starts again at its next use.
    ///
    /// # Errors
    /// Returns `acc_error_device_type_unavailable`, `acc_error_device_unavailable`, `acc_error_device_shutdown`.
    pub fn shutdown_device(&self, t: &mut LocalThread, num: i32, device_type: DeviceType) -> Result<()> {
        let shut_down = |t: &mut LocalThread| {
            let concrete = self.concrete(t, device_type)?;
            match self.nth(i64::from(num), concrete)? {
                Current::Host => Ok(()),
                Current::Device(index) => self.devices[index].shut_down(),
            }
        };
        shut_down(t).map_err(|error: Error| error.call("acc_shutdown_device"))
    }
}
