//! Host memory of the program as pinned memory, and its address for kernels.

use crate::errors::{ALREADY_REGISTERED, INVALID_VALUE, NOT_REGISTERED, SUCCESS, keep};
use crate::memory::{self, Kind};

/// Registers host memory. The flags tell for which devices, which all are here.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_host_register(address: usize, bytes: usize, flags: i32) -> i32 {
    let is_range = bytes > 0 && address.checked_add(bytes).is_some();
    if address == 0 || !is_range || !(0..=15).contains(&flags) {
        return keep(INVALID_VALUE);
    }
    if memory::register(address, bytes) { SUCCESS } else { keep(ALREADY_REGISTERED) }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_host_register_i4(address: usize, bytes: i32, flags: i32) -> i32 {
    accord_cuf_host_register(address, usize::try_from(bytes).unwrap_or(0), flags)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_host_unregister(address: usize) -> i32 {
    if memory::unregister(address) { SUCCESS } else { keep(NOT_REGISTERED) }
}

/// Returns the address by which kernels use pinned memory. It is the host's: the device has a copy for the duration of a launch.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_host_device_pointer(device: &mut usize, host: usize, flags: i32) -> i32 {
    if flags != 0 || memory::find(host).is_none_or(|range| range.kind != Kind::Pinned) {
        return keep(INVALID_VALUE);
    }
    *device = host;
    SUCCESS
}
