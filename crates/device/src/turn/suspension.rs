//! Suspends the work of a process on its devices: all of them, or none.

use super::keeper::{GatedDevice, TurnKeeper};
use crate::kept_memory::KeptMemory;
use crate::own_cgroup;
use accord_types::SuspendRefusal;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait for regions and copies that were put in before.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before another attempt to bring memory back that found no room on its device.
const RESTORE_PAUSE: Duration = Duration::from_secs(1);

/// Holds the work of devices back, and moves their memory to host memory, of which `reserve` gets the bytes that it takes. Returns
/// these.
///
/// # Errors
/// Returns the reason if one of the devices or `reserve` refuses. All devices go on as before then.
pub fn suspend(
    keepers: &[Arc<TurnKeeper>],
    reserve: impl FnOnce(u64) -> Result<KeptMemory, SuspendRefusal>,
) -> Result<u64, SuspendRefusal> {
    let devices: Vec<&dyn GatedDevice> = keepers.iter().filter_map(|keeper| keeper.suspendable()).collect();
    let suspended = hold(&devices, reserve);
    if suspended.is_err() {
        devices.iter().for_each(|device| device.let_work());
    }
    suspended
}

/// Suspends the work of devices whose job is suspended already. Work of a device that refuses is held back with its memory in place.
pub fn hold_anyway(keepers: &[Arc<TurnKeeper>]) {
    if suspend(keepers, |_| Ok(KeptMemory::default())).is_err() {
        for device in keepers.iter().filter_map(|keeper| keeper.suspendable()) {
            let _ = device.hold_work();
        }
    }
}

fn hold(
    devices: &[&dyn GatedDevice],
    reserve: impl FnOnce(u64) -> Result<KeptMemory, SuspendRefusal>,
) -> Result<u64, SuspendRefusal> {
    // A device may wait for another one of the process.
    devices.iter().try_for_each(|device| device.hold_work())?;
    let until = Instant::now() + SETTLE_TIMEOUT;
    // A copy between two of the devices uses the memory of both, and must end before either memory's uses do.
    devices.iter().try_for_each(|device| device.settle(until))?;
    let needed = devices.iter().try_fold(0u64, |sum, device| Ok(sum.saturating_add(device.end_uses(until)?)))?;
    if needed == 0 {
        return Ok(0);
    }
    let mut kept = reserve(needed)?;
    // Memory that the agent keeps counts for the agent's group, other memory for the process's.
    let left = kept.bytes().saturating_add(own_cgroup::memory_left());
    if needed > left {
        return Err(SuspendRefusal::HostMemory { needed, left });
    }
    for (at, device) in devices.iter().enumerate() {
        if let Err(error) = device.save(&mut kept) {
            // Others have had the memory's place for a moment, and work must not go on without it. A device that fails for another
            // reason is lost, as its work will find.
            for saved in &devices[..at] {
                while let Err(SuspendRefusal::DeviceMemory { .. }) = saved.restore() {
                    std::thread::sleep(RESTORE_PAUSE);
                }
            }
            return Err(error);
        }
    }
    Ok(needed)
}

/// Brings the memory of suspended devices back, and lets their work go on.
///
/// # Errors
/// Returns the reason if one of the devices refuses. All of them stay suspended then.
pub fn resume(keepers: &[Arc<TurnKeeper>]) -> Result<(), SuspendRefusal> {
    let devices: Vec<&dyn GatedDevice> = keepers.iter().filter_map(|keeper| keeper.suspendable()).collect();
    for (at, device) in devices.iter().enumerate() {
        if let Err(error) = device.restore() {
            // Their host memory was just freed.
            for restored in &devices[..at] {
                let _ = restored.save(&mut KeptMemory::default());
            }
            return Err(error);
        }
    }
    devices.iter().for_each(|device| device.let_work());
    Ok(())
}
