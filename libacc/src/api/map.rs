//! The present table by hand (OpenACC 3.3, 3.2.21 to 3.2.25).

use crate::abi_boundary::routine;

routine! {
    /// Makes host data present at a device address (3.2.21).
    fn acc_map_data(host: usize, device: usize, bytes: usize) =
        |runtime, local| runtime.map_data(local, host, device, bytes);
    /// Reverts [`acc_map_data`] (3.2.22).
    fn acc_unmap_data(host: usize) = |runtime, local| runtime.unmap_data(local, host);
    /// Returns the device address of host data; null if absent (3.2.23).
    fn acc_deviceptr(host: usize) -> usize = |runtime, local| runtime.deviceptr(local, host);
    /// Returns the host address of device data; null if there is none (3.2.24).
    fn acc_hostptr(device: usize) -> usize = |runtime, local| runtime.hostptr(local, device);
    /// Whether host data is present (3.2.25).
    fn acc_is_present(host: usize, bytes: usize) -> i32 =
        |runtime, local| Ok(i32::from(runtime.is_present(local, host, bytes)?));
}
