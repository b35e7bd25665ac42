//! Limits on the processes of one session, enforced by control groups. They also hold for a region that overwrites or
//! replaces its executor, which otherwise enforces the limits.

use accord_proto::v1::{DeviceKind, ExecutorStart};

/// Memory of an executor besides that of its CPU devices: images of GPU code, up to half of this, and buffers of copies
/// and lanes.
const EXECUTOR_MEMORY: u64 = 2 << 30;
/// Memory of a CPU device's worker besides the device's: the program's own data and libraries.
const WORKER_MEMORY: u64 = 512 << 20;
/// Host memory for a GPU: the driver's, and page-locked buffers of copies.
const GPU_MEMORY: u64 = 4 << 30;
/// Threads of an executor: one for each lane, up to 12,000 of them with other executors.
const EXECUTOR_PROCESSES: u64 = 16 << 10;
/// Threads and processes for each device: those of its streams, and those that regions start.
const DEVICE_PROCESSES: u64 = 256;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SessionLimits {
    /// Bytes of the host's memory.
    pub(crate) memory: u64,
    /// Threads and processes.
    pub(crate) processes: u64,
}

impl SessionLimits {
    /// Returns the limits of a session with this start message.
    pub(crate) fn of(start: &ExecutorStart) -> Self {
        let quota = if start.memory_quota == 0 { u64::MAX } else { start.memory_quota };
        let mut limits = Self { memory: EXECUTOR_MEMORY, processes: EXECUTOR_PROCESSES };
        for device in &start.devices {
            let memory = match device.kind() {
                DeviceKind::Cpu => device.memory.min(quota).saturating_add(WORKER_MEMORY),
                _ => GPU_MEMORY,
            };
            limits.memory = limits.memory.saturating_add(memory);
            limits.processes = limits.processes.saturating_add(DEVICE_PROCESSES);
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_proto::v1::Device;

    #[test]
    fn a_session_may_have_what_its_devices_have_up_to_its_quota() {
        let device = |kind: DeviceKind| Device { kind: kind.into(), memory: 8 << 30, ..Device::default() };
        let start = |memory_quota, devices| ExecutorStart { memory_quota, devices, ..ExecutorStart::default() };
        let [cpu, gpu] = [DeviceKind::Cpu, DeviceKind::Cuda].map(device);
        let memory = |quota, devices| SessionLimits::of(&start(quota, devices)).memory;
        let two = vec![cpu.clone(), cpu.clone()];
        assert_eq!(memory(0, two.clone()), EXECUTOR_MEMORY + 2 * (WORKER_MEMORY + (8 << 30)));
        assert_eq!(memory(1 << 20, two), EXECUTOR_MEMORY + 2 * (WORKER_MEMORY + (1 << 20)));
        // The driver bounds a GPU's own memory.
        assert_eq!(memory(0, vec![gpu]), EXECUTOR_MEMORY + GPU_MEMORY);
        let endless = Device { memory: u64::MAX, ..cpu };
        assert_eq!(memory(0, vec![endless.clone(), endless.clone()]), u64::MAX);
        assert_eq!(SessionLimits::of(&start(0, vec![endless])).processes, EXECUTOR_PROCESSES + DEVICE_PROCESSES);
    }
}
