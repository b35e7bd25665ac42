//! The driver's management library, whose name may lead here, too.
#![allow(unreachable_pub)] // They are found by their names.

use crate::calls::{all_devices, uuid_of};
use crate::control::setting;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::without_provenance_mut;

const INVALID_ARGUMENT: c_int = 2;
const NOT_SUPPORTED: c_int = 3;
const NOT_FOUND: c_int = 6;

#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

#[repr(C)]
pub struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_int {
    0
}

/// # Safety
/// `uuid` is a string, and `handle` a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, handle: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(uuid) }.to_string_lossy().into_owned();
    let number = text.strip_prefix("GPU-").and_then(|uuid| u128::from_str_radix(&uuid.replace('-', ""), 16).ok());
    let Some(device) = all_devices().find(|device| number == Some(uuid_of(*device))) else { return NOT_FOUND };
    // SAFETY: as above. A handle is never null.
    unsafe { *handle = without_provenance_mut(device.unsigned_abs() as usize + 1) };
    0
}

/// # Safety
/// `rates` is a place for the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(_device: *mut c_void, rates: *mut Utilization) -> c_int {
    if setting("FAKE_CUDA_MIG", 0) != 0 {
        return NOT_SUPPORTED;
    }
    // SAFETY: the caller's promise.
    unsafe { *rates = Utilization { gpu: setting("FAKE_CUDA_LOAD", 0) as c_uint, memory: 1 } };
    0
}

/// # Safety
/// `memory` is the structure, whose version is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(_device: *mut c_void, memory: *mut Memory) -> c_int {
    // SAFETY: the caller's promise.
    let memory = unsafe { &mut *memory };
    if memory.version != size_of::<Memory>() as c_uint | 2 << 24 {
        return INVALID_ARGUMENT;
    }
    memory.used = setting("FAKE_CUDA_LOAD_MEMORY", 0);
    0
}
