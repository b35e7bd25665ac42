//! The memory that the driver's context of each process uses on a GPU.

use super::context::Context;
use super::driver::Driver;
use super::probe;
use accord_types::{DeviceInfo, DeviceKind};
use cudarc::driver::sys::CUcontext;
use std::collections::BTreeMap;
use std::ptr::null_mut;

/// Sizes are multiples of this, so that GPUs of one model and driver have equal sizes.
const UNIT: u64 = 32 << 20;
/// Number of measurements of a GPU, the lowest of which counts: another process may allocate memory meanwhile.
const TRIES: usize = 2;

/// Fills in [`DeviceInfo::context`] of GPUs that this process sees, using these GPUs. GPUs of one name have one size, measured on the first that allows
/// it. That takes a few tenths of a second for each name.
///
/// The size is that of a second context, because that does not depend on other users of the GPU. With driver 580 on an H200 it counts as 544 MiB, in the
/// same process or in another one.
pub fn measure_contexts(devices: &mut [DeviceInfo]) {
    let Ok(driver) = Driver::get() else { return };
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for info in devices.iter().filter(|info| info.kind == DeviceKind::CUDA) {
        if !sizes.contains_key(&info.name)
            && let Some(size) = context_size(driver, info)
        {
            sizes.insert(info.name.clone(), size);
        }
    }
    for info in devices.iter_mut().filter(|info| info.kind == DeviceKind::CUDA) {
        info.context = sizes.get(&info.name).copied().unwrap_or(0);
    }
}

/// Returns the size of a context on a GPU; none if the driver makes none now.
fn context_size(driver: &'static Driver, info: &DeviceInfo) -> Option<u64> {
    let device = probe::find(driver, info).ok()?;
    let first = Context::retain(driver, device).ok()?;
    let _entered = first.enter().ok()?;
    let measured = (0..TRIES).map(|_| {
        let before = free(driver)?;
        let mut second: CUcontext = null_mut();
        // SAFETY: `second` is valid for writing, and the driver checks the device. The call makes the context current.
        unsafe { driver.cuCtxCreate_v2(&raw mut second, 0, device) }.ok()?;
        let after = free(driver);
        // SAFETY: the context was created above and owns nothing. After its destruction it is no longer current.
        unsafe { driver.cuCtxDestroy_v2(second) }.ok()?;
        Some(before.saturating_sub(after?))
    });
    let lowest = measured.collect::<Option<Vec<u64>>>()?.into_iter().min()?;
    Some(lowest.next_multiple_of(UNIT))
}

/// Returns the free bytes of the current context's GPU.
fn free(driver: &Driver) -> Option<u64> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: both are valid for writing.
    unsafe { driver.cuMemGetInfo_v2(&raw mut free, &raw mut total) }.ok()?;
    Some(free as u64)
}
