//! What a device is: its properties (OpenACC 3.3, 3.2.6).

use crate::local_thread::Current;
use crate::{LocalThread, Runtime};
use accord_types::{DeviceInfo, DeviceType, Error, Result};

/// `acc_property_memory`
const MEMORY: i32 = 1;
/// `acc_property_free_memory`
const FREE_MEMORY: i32 = 2;
/// Properties from here on are a GPU's attributes, by the CUDA driver's numbers. Accord's own, for the runtime of CUDA Fortran.
const ATTRIBUTES: i32 = 0x2_0000;
/// The driver's number of the attribute that has the multiprocessors.
const MULTIPROCESSORS: u16 = 16;
/// `acc_property_name`
const NAME: i32 = 0x10001;
/// `acc_property_vendor`
const VENDOR: i32 = 0x10002;
/// `acc_property_driver`
const DRIVER: i32 = 0x10003;

/// Returns a device's attribute; 0 if it is unknown, or negative. CPU devices have only the number of cores, in place of multiprocessors.
fn attribute(info: &DeviceInfo, property: i32) -> u64 {
    let Some(number) = property.checked_sub(ATTRIBUTES).and_then(|number| u16::try_from(number).ok()) else { return 0 };
    match info.attribute(number) {
        Some(value) => u64::try_from(value).unwrap_or(0),
        None if number == MULTIPROCESSORS => info.units.into(),
        None => 0,
    }
}

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
                _ => Ok(attribute(self.devices[index].info(), property)),
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
