//! Limits on the processes of one session, enforced by control groups. They also hold for a region that overwrites or
//! replaces its executor, which otherwise enforces the limits.

use accord_proto::v1::{Device, DeviceKind, ExecutorStart};
use accord_types::HeldDevice;

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
/// The weight of a whole device, and of a session without a job, in the division of processors: the kernel's default.
const DEVICE_WEIGHT: u64 = 100;
/// The bounds of the kernel's weights.
const WEIGHT_MIN: u64 = 1;
const WEIGHT_MAX: u64 = 10_000;

/// The site's limits of each session, in place of those that follow from its devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SiteLimits {
    /// Bytes of the host's memory beside that of CPU devices and the job's.
    pub(crate) memory: Option<u64>,
    /// Threads and processes.
    pub(crate) processes: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SessionLimits {
    /// Bytes of the host's memory.
    pub(crate) memory: u64,
    /// Threads and processes.
    pub(crate) processes: u64,
    pub(crate) cores: Cores,
    /// The weight in the division of processors among sessions that want the same ones.
    pub(crate) weight: u64,
}

/// The processors of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Cores {
    /// All of the node's: a GPU needs processors and has none of its own.
    All,
    /// These, which its CPU devices have.
    These(Vec<u32>),
    /// Any of them, for so many thousandths of their time: those of its CPU devices, and what its job has asked for.
    Some(u64),
}

impl SessionLimits {
    /// Returns the limits of a session with this start message, whose job holds `held` of the node's devices.
    pub(crate) fn of(start: &ExecutorStart, held: &[HeldDevice], site: SiteLimits) -> Self {
        let quota = if start.memory_quota == 0 { u64::MAX } else { start.memory_quota };
        let count = u64::try_from(start.devices.len()).unwrap_or(u64::MAX);
        let is_own = |held: &&HeldDevice| {
            let ordinals = start.devices.iter().filter_map(|device| Some(device.id.as_ref()?.ordinal));
            ordinals.into_iter().any(|ordinal| ordinal == held.ordinal)
        };
        let held: Vec<&HeldDevice> = held.iter().filter(is_own).collect();
        let (mut of_devices, mut beside) = (0_u64, EXECUTOR_MEMORY);
        for device in &start.devices {
            if is_cpu(device) {
                of_devices = of_devices.saturating_add(device.memory.min(quota));
                beside = beside.saturating_add(WORKER_MEMORY);
            } else {
                beside = beside.saturating_add(GPU_MEMORY);
            }
        }
        let asked = held.iter().fold(0, |sum: u64, held| sum.saturating_add(held.host_memory));
        let milli: u64 = held.iter().map(|held| u64::from(held.milli)).sum();
        let weight = if held.is_empty() { DEVICE_WEIGHT } else { milli * DEVICE_WEIGHT / 1_000 };
        let processes = EXECUTOR_PROCESSES.saturating_add(DEVICE_PROCESSES.saturating_mul(count));
        Self {
            memory: of_devices.saturating_add(asked).saturating_add(site.memory.unwrap_or(beside)),
            processes: site.processes.unwrap_or(processes),
            cores: cores(&start.devices, &held),
            weight: weight.clamp(WEIGHT_MIN, WEIGHT_MAX),
        }
    }
}

fn is_cpu(device: &Device) -> bool {
    device.kind() == DeviceKind::Cpu
}

fn cores(devices: &[Device], held: &[&HeldDevice]) -> Cores {
    let asked = held.iter().fold(0, |sum: u64, held| sum.saturating_add(held.milli_cores));
    let cpus = || devices.iter().filter(|device| is_cpu(device));
    if asked > 0 {
        let own = cpus().map(|device| 1_000 * u64::try_from(device.cpus.len()).unwrap_or(0)).sum();
        return Cores::Some(asked.saturating_add(own));
    }
    if devices.iter().any(|device| !is_cpu(device) || device.cpus.is_empty()) {
        return Cores::All;
    }
    let mut own: Vec<u32> = cpus().flat_map(|device| device.cpus.iter().copied()).collect();
    own.sort_unstable();
    own.dedup();
    if own.is_empty() { Cores::All } else { Cores::These(own) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_proto::v1::DeviceRef;

    fn device(ordinal: u32, kind: DeviceKind, cpus: &[u32]) -> Device {
        let id = Some(DeviceRef { node: 0, ordinal });
        Device { id, kind: kind.into(), memory: 8 << 30, cpus: cpus.to_vec(), ..Device::default() }
    }

    fn start(memory_quota: u64, devices: Vec<Device>) -> ExecutorStart {
        ExecutorStart { memory_quota, devices, ..ExecutorStart::default() }
    }

    fn held(ordinal: u32, milli: u32, milli_cores: u64, host_memory: u64) -> HeldDevice {
        HeldDevice { ordinal, milli, memory: 0, exclusive: milli == 1_000, milli_cores, host_memory }
    }

    fn of(devices: &[Device], held: &[HeldDevice]) -> SessionLimits {
        SessionLimits::of(&start(0, devices.to_vec()), held, SiteLimits::default())
    }

    #[test]
    fn a_session_may_have_what_its_devices_have_up_to_its_quota() {
        let [cpu, gpu] = [DeviceKind::Cpu, DeviceKind::Cuda].map(|kind| device(0, kind, &[]));
        let memory = |quota, devices| SessionLimits::of(&start(quota, devices), &[], SiteLimits::default()).memory;
        let two = vec![cpu.clone(), cpu.clone()];
        assert_eq!(memory(0, two.clone()), EXECUTOR_MEMORY + 2 * (WORKER_MEMORY + (8 << 30)));
        assert_eq!(memory(1 << 20, two), EXECUTOR_MEMORY + 2 * (WORKER_MEMORY + (1 << 20)));
        // The driver bounds a GPU's own memory.
        assert_eq!(memory(0, vec![gpu]), EXECUTOR_MEMORY + GPU_MEMORY);
        let endless = Device { memory: u64::MAX, ..cpu };
        assert_eq!(memory(0, vec![endless.clone(), endless.clone()]), u64::MAX);
        assert_eq!(of(&[endless], &[]).processes, EXECUTOR_PROCESSES + DEVICE_PROCESSES);
    }

    #[test]
    fn a_session_may_have_what_its_job_has_asked_for_and_its_site_allows() {
        let (cpu, gpu) = (device(0, DeviceKind::Cpu, &[2, 3]), device(1, DeviceKind::Cuda, &[]));
        let job = [held(1, 1_000, 4_000, 7 << 30), held(5, 1_000, 9_000, 9 << 30)];
        let limits = of(std::slice::from_ref(&gpu), &job);
        assert_eq!(limits.memory, EXECUTOR_MEMORY + GPU_MEMORY + (7 << 30), "device 5 is not the session's");
        assert_eq!(limits.cores, Cores::Some(4_000));
        assert_eq!(of(&[cpu.clone(), gpu], &job).cores, Cores::Some(6_000));
        let site = SiteLimits { memory: Some(1 << 30), processes: Some(99) };
        let limits = SessionLimits::of(&start(0, vec![cpu]), &[], site);
        assert_eq!((limits.memory, limits.processes), (9 << 30, 99));
    }

    #[test]
    fn a_session_has_the_cores_of_its_cpu_devices_and_the_weight_of_its_shares() {
        let (cpus, gpu) =
            ([device(0, DeviceKind::Cpu, &[2, 3]), device(1, DeviceKind::Cpu, &[0, 2])], DeviceKind::Cuda);
        assert_eq!(of(&cpus, &[]).cores, Cores::These(vec![0, 2, 3]));
        assert_eq!(of(&[cpus[0].clone(), device(2, gpu, &[])], &[]).cores, Cores::All);
        assert_eq!(of(&[device(0, DeviceKind::Cpu, &[])], &[]).cores, Cores::All);
        let weight = |held: &[HeldDevice]| of(&cpus, held).weight;
        assert_eq!(weight(&[]), 100);
        assert_eq!(weight(&[held(0, 250, 0, 0)]), 25);
        assert_eq!(weight(&[held(0, 1_000, 0, 0), held(1, 1_000, 0, 0)]), 200);
        assert_eq!(weight(&[held(0, 1, 0, 0)]), WEIGHT_MIN);
    }
}
