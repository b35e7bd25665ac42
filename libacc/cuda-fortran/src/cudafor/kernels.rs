//! Attributes of kernels, which programs name by the procedure.

use crate::errors::{INVALID_DEVICE_FUNCTION, INVALID_VALUE, SUCCESS, keep};
use crate::{acc, attributes, modules};

/// `cudaFuncAttributeMaxDynamicSharedMemorySize` and `cudaFuncAttributePreferredSharedMemoryCarveout`.
const SHARED: i32 = 8;
const CARVEOUT: i32 = 9;

/// Accepts an attribute of a kernel. All kernels may have the device's largest shared memory, so that it has no effect.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_set_func_attribute(stub: usize, attribute: i32, value: i32) -> i32 {
    let Some(kernel) = modules::kernel(stub) else { return keep(INVALID_DEVICE_FUNCTION) };
    let is_valid = match (attribute, usize::try_from(value)) {
        (SHARED, Ok(bytes)) => bytes + kernel.shared <= attributes::shared_memory(acc::device()),
        (CARVEOUT, _) => (-1..=100).contains(&value),
        _ => false,
    };
    if is_valid { SUCCESS } else { keep(INVALID_VALUE) }
}

/// Accepts a kernel's preference between shared memory and cache.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_set_func_cache_config(stub: usize, config: i32) -> i32 {
    match modules::kernel(stub) {
        None => keep(INVALID_DEVICE_FUNCTION),
        Some(_) if (0..=3).contains(&config) => SUCCESS,
        Some(_) => keep(INVALID_VALUE),
    }
}

/// Accepts a kernel's width of shared memory's banks.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_set_func_shared_config(stub: usize, config: i32) -> i32 {
    match modules::kernel(stub) {
        None => keep(INVALID_DEVICE_FUNCTION),
        Some(_) if (0..=2).contains(&config) => SUCCESS,
        Some(_) => keep(INVALID_VALUE),
    }
}
