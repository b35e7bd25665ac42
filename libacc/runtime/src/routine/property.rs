//! What a device is: its properties (OpenACC 3.3, 3.2.6).

use crate::local_thread::Current;
use crate::{LocalThread, Runtime};
use accord_types::{DeviceInfo, DeviceType, Error, Result};

/// `acc_property_memory`
const MEMORY: i32 = 1;
/// `acc_property_free_memory`
const FREE_MEMORY: i32 = 2;
/// `acc_property_name`
const NAME: i32 = 0x10001;
/// `acc_property_vendor`
const VENDOR: i32 = 0x10002;
/// `acc_property_driver`
const DRIVER: i32 = 0x10003;

impl Runtime {
    /// Implements `acc_get_property` for numbers: 0 for unknown properties and devices that don't exist.
    ///
    /// # Errors
    /// Returns the errors of the device, for its free memory.
    pub fn get_property(&self, t: &mut LocalThread, num: i32, device_type: DeviceType, property: i32) -> Result<u64> {
        let get = |t: &mut LocalThread| {
            let Some(Current::Device(index)) = self.asked(t, num, device_type) else { return Ok(0) };
            match property {
                MEMORY => Ok(self.devices[index].info().memory),
                FREE_MEMORY => {
                    let device = self.started(index)?;
                    let idle = device.lock().memory.free_bytes();
                    let left = device.client().memory_free().map_err(|error| device.place(error))?;
                    Ok(left.saturating_add(idle))
                }
                _ => Ok(0),
            }
        };
        get(t).map_err(|error: Error| error.call("acc_get_property"))
    }

    /// Implements `acc_get_property_string`: none for unknown properties and devices that don't exist.
    ///
    /// # Errors
    /// Returns no error today.
    pub fn get_property_string(
        &self,
        t: &mut LocalThread,
        num: i32,
        device_type: DeviceType,
        property: i32,
    ) -> Result<Option<String>> {
        let of_host = |property| match property {
            NAME => Some("host"),
            VENDOR => Some("Accord"),
            DRIVER => Some(env!("CARGO_PKG_VERSION")),
            _ => None,
        };
        let of_device = |info: &DeviceInfo| match property {
            NAME => Some(info.name.clone()),
            VENDOR => Some(info.vendor.clone()),
            DRIVER => Some(info.driver.clone()),
            _ => None,
        };
        Ok(match self.asked(t, num, device_type) {
            Some(Current::Device(index)) => of_device(self.devices[index].info()),
            Some(Current::Host) => of_host(property).map(str::to_owned),
            None => None,
        })
    }

    /// Returns the device that a query is about, if there is one. `acc_device_current` is this thread's, whatever the number.
    fn asked(&self, t: &mut LocalThread, num: i32, device_type: DeviceType) -> Option<Current> {
        if device_type == DeviceType::Current {
            return self.current(t).ok();
        }
        let concrete = self.concrete(t, device_type).ok()?;
        self.nth(i64::from(num), concrete).ok()
    }
}
