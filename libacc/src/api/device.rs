//! Choosing a device (OpenACC 3.3, 3.2.1 to 3.2.5, 3.2.15).

use super::device_type;
use crate::abi_boundary::{enter_without_runtime, routine};
use crate::settings;
use accord_types::DeviceType;

routine! {
    /// Returns the number of devices of a type (3.2.1), 0 for an unknown type.
    fn acc_get_num_devices(kind: i32) -> i32 = |runtime, local| match DeviceType::from_raw(kind) {
        Some(kind) => Ok(i32::try_from(runtime.get_num_devices(local, kind)?).unwrap_or(i32::MAX)),
        None => Ok(0),
    };
    /// Sets the current device type (3.2.2).
    fn acc_set_device_type(kind: i32) =
        |runtime, local| runtime.set_device_type(local, device_type(kind)?);
    /// Returns the current device type (3.2.3).
    fn acc_get_device_type() -> i32 =
        |runtime, local| Ok(runtime.get_device_type(local)? as i32);
    /// Sets the current device (3.2.4).
    fn acc_set_device_num(num: i32, kind: i32) =
        |runtime, local| runtime.set_device_num(local, num, device_type(kind)?);
    /// Returns the current device's number (3.2.5), or -1 if there is no device of the type.
    fn acc_get_device_num(kind: i32) -> i32 = |runtime, local| {
        let num = runtime.get_device_num(local, device_type(kind)?)?;
        Ok(num.map_or(-1, |num| i32::try_from(num).unwrap_or(i32::MAX)))
    };
}

/// Returns whether the caller runs on a device of the type (3.2.15). Optimised code answers this itself, as on the host.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn acc_on_device(kind: i32) -> i32 {
    if settings::is_worker() {
        return i32::from(on_worker(kind));
    }
    crate::abi_boundary::enter("acc_on_device", |runtime, local| match DeviceType::from_raw(kind) {
        Some(kind) => Ok(i32::from(runtime.on_device(local, kind)?)),
        None => Ok(0),
    })
}

/// The answer inside a region on a CPU device.
fn on_worker(kind: i32) -> bool {
    enter_without_runtime("acc_on_device", || {
        let emulated = settings::emulated();
        Ok(match DeviceType::from_raw(kind) {
            Some(DeviceType::NotHost) => true,
            Some(kind) => kind == emulated.unwrap_or(DeviceType::Cpu),
            None => false,
        })
    })
}
