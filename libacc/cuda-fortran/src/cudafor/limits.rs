//! Limits and hints of a device. Hints succeed without an effect; limits that can't be changed are refused.

use crate::acc;
use crate::errors::{INVALID_VALUE, SUCCESS, UNSUPPORTED_LIMIT, keep};

/// `cudaLimitStackSize`.
const STACK: i32 = 0;
/// Bytes of a thread's stack on a GPU, by the driver's default, and on a CPU device.
const GPU_STACK: usize = 1 << 10;
const CPU_STACK: usize = crate::fibers::STACK;

fn stack() -> usize {
    if acc::is_gpu() { GPU_STACK } else { CPU_STACK }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_get_limit(value: &mut usize, limit: i32) -> i32 {
    if limit != STACK {
        return keep(UNSUPPORTED_LIMIT);
    }
    *value = stack();
    SUCCESS
}

/// Accepts a limit that holds already.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_set_limit(limit: i32, value: usize) -> i32 {
    if limit == STACK && value <= stack() { SUCCESS } else { keep(UNSUPPORTED_LIMIT) }
}

/// Accepts flags of `cudaSetDeviceFlags`: how threads wait.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_set_device_flags(flags: i32) -> i32 {
    if (0..=15).contains(&flags) { SUCCESS } else { keep(INVALID_VALUE) }
}

/// Accepts a preference between shared memory and cache.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_set_cache_config(config: i32) -> i32 {
    if (0..=3).contains(&config) { SUCCESS } else { keep(INVALID_VALUE) }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_get_cache_config(config: &mut i32) -> i32 {
    *config = 0;
    SUCCESS
}

/// Accepts a width of shared memory's banks.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_set_shared_config(config: i32) -> i32 {
    if (0..=2).contains(&config) { SUCCESS } else { keep(INVALID_VALUE) }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_get_shared_config(config: &mut i32) -> i32 {
    *config = 0;
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_set_limit_i4(limit: i32, value: i32) -> i32 {
    match usize::try_from(value) {
        Ok(value) => accord_cuf_set_limit(limit, value),
        Err(_) => keep(INVALID_VALUE),
    }
}
