//! Attributes of kernels, which programs name by the procedure.

use crate::attributes::Attribute;
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

/// `cudaFuncAttributes`.
#[repr(C)]
#[derive(Default)]
struct FunctionAttributes {
    binary_version: i32,
    cache_mode_ca: i32,
    constant_bytes: usize,
    local_bytes: usize,
    most_dynamic_shared: i32,
    most_threads: i32,
    registers: i32,
    carveout: i32,
    ptx_version: i32,
    shared_bytes: usize,
}

/// Reports what is known of a kernel before the driver compiles it: registers and local memory are 0.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_func_attributes(result: &mut FunctionAttributes, stub: usize) -> i32 {
    let Some(kernel) = modules::kernel(stub) else { return keep(INVALID_DEVICE_FUNCTION) };
    let device = acc::device();
    let value = |attribute| attributes::value(device, attribute);
    let version = value(Attribute::MAJOR) * 10 + value(Attribute::MINOR);
    let dynamic = attributes::shared_memory(device).saturating_sub(kernel.shared);
    *result = FunctionAttributes {
        binary_version: version,
        most_dynamic_shared: i32::try_from(dynamic).unwrap_or(i32::MAX),
        most_threads: value(Attribute::THREADS),
        carveout: -1,
        ptx_version: version,
        shared_bytes: kernel.shared,
        ..FunctionAttributes::default()
    };
    SUCCESS
}

/// Returns how many blocks of a kernel a multiprocessor takes at once, by its threads, shared memory and blocks. Registers, which the driver alone
/// knows, may allow fewer.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_occupancy(blocks: &mut i32, stub: usize, threads: i32, shared: usize) -> i32 {
    let Some(kernel) = modules::kernel(stub) else { return keep(INVALID_DEVICE_FUNCTION) };
    let device = acc::device();
    let value = |attribute| usize::try_from(attributes::value(device, attribute)).unwrap_or(0);
    let Some(threads) =
        usize::try_from(threads).ok().filter(|threads| (1..=value(Attribute::THREADS)).contains(threads))
    else {
        return keep(INVALID_VALUE);
    };
    let warp = value(Attribute::WARP).max(1);
    let of_threads = value(Attribute::PROCESSOR_THREADS) / threads.next_multiple_of(warp);
    let bytes = kernel.shared.saturating_add(shared);
    let of_shared = if bytes > attributes::shared_memory(device) {
        0
    } else {
        value(Attribute::PROCESSOR_SHARED).checked_div(bytes).unwrap_or(usize::MAX)
    };
    let most = of_threads.min(of_shared).min(value(Attribute::PROCESSOR_BLOCKS));
    *blocks = i32::try_from(most).unwrap_or(i32::MAX);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_occupancy_i4(blocks: &mut i32, stub: usize, threads: i32, shared: i32) -> i32 {
    match usize::try_from(shared) {
        Ok(shared) => accord_cuf_occupancy(blocks, stub, threads, shared),
        Err(_) => keep(INVALID_VALUE),
    }
}

/// Flags are hints about caches.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_occupancy_flags(
    blocks: &mut i32,
    stub: usize,
    threads: i32,
    shared: usize,
    flags: i32,
) -> i32 {
    if (0..=1).contains(&flags) { accord_cuf_occupancy(blocks, stub, threads, shared) } else { keep(INVALID_VALUE) }
}
