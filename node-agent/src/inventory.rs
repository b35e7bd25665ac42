//! The devices that this node offers.

use crate::topology::Topology;
use accord_device::cpu::{self, CpuConfig};
use accord_types::{DeviceInfo, NodeId};
use std::path::Path;

/// Share of the available memory that CPU devices get, in percent.
const MEMORY_SHARE: u64 = 80;
/// Root of the control groups, which may limit memory.
const CGROUP: &str = "/sys/fs/cgroup";

/// The configuration of this node's devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct InventoryConfig {
    /// Number of CPU devices; if `None`, one per NUMA node, and none beside GPUs.
    pub cpu_devices: Option<u32>,
    /// Bytes of each CPU device; if `None`, an equal share of the available memory.
    pub cpu_memory: Option<u64>,
}

/// Returns this node's devices by ordinal: `gpus`, and CPU devices if there are no GPUs or settings ask for them. The
/// coordinator assigns the node's number later.
pub fn inventory(
    node_name: &str,
    gpus: Vec<DeviceInfo>,
    config: &InventoryConfig,
    topology: &Topology,
) -> Vec<DeviceInfo> {
    let mut devices = gpus;
    if devices.is_empty() || config.cpu_devices.is_some() {
        // GPU ordinals may have gaps, because they usually are the driver's numbers.
        let first = devices.iter().map(|gpu| gpu.id.ordinal + 1).max().unwrap_or(0);
        devices.extend(cpus(node_name, config, topology).into_iter().map(|mut cpu| {
            cpu.id.ordinal += first;
            cpu
        }));
    }
    devices
}

fn cpus(node_name: &str, config: &InventoryConfig, topology: &Topology) -> Vec<DeviceInfo> {
    let per_numa = usable_numa(topology, &allowed_cpus());
    let count = config.cpu_devices.unwrap_or_else(|| u32::try_from(per_numa.len()).unwrap_or(1).max(1));
    let memory = config.cpu_memory.unwrap_or_else(|| {
        let available = available_memory(&read_file("/proc/meminfo"), cgroup_limit(Path::new(CGROUP)));
        available / 100 * MEMORY_SHARE / u64::from(count.max(1))
    });
    let cpu_config = CpuConfig { devices: Some(count), memory: Some(memory) };
    let mut devices = cpu::inventory(NodeId(0), node_name, &cpu_config);
    if config.cpu_devices.is_none() && per_numa.len() == devices.len() {
        for (device, cpus) in devices.iter_mut().zip(per_numa) {
            device.units = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
            device.cpus = cpus;
        }
    }
    for device in &mut devices {
        device.numa = topology.numa_of(&device.cpus);
    }
    devices
}

/// Returns the allowed processors of each NUMA node that has some.
fn usable_numa(topology: &Topology, allowed: &[u32]) -> Vec<Vec<u32>> {
    let nodes = topology.hardware.numa.iter();
    let usable = nodes.map(|node| node.cpus.iter().copied().filter(|cpu| allowed.contains(cpu)).collect());
    usable.filter(|cpus: &Vec<u32>| !cpus.is_empty()).collect()
}

/// Returns the processors that this process may run on.
fn allowed_cpus() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    let cpus = 0..rustix::thread::CpuSet::MAX_CPU;
    cpus.filter(|&cpu| set.is_set(cpu)).filter_map(|cpu| u32::try_from(cpu).ok()).collect()
}

/// Returns the bytes of host memory that are free.
pub(crate) fn free_memory() -> u64 {
    available_memory(&read_file("/proc/meminfo"), cgroup_limit(Path::new("/sys/fs/cgroup")))
}

/// Returns the bytes that can be used without swapping, limited by the machine and by the control group.
fn available_memory(meminfo: &str, cgroup: Option<u64>) -> u64 {
    /// Assumed for a machine that does not report its memory.
    const UNKNOWN: u64 = 1 << 30;
    let machine = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(UNKNOWN, |kib| kib.saturating_mul(1024));
    machine.min(cgroup.unwrap_or(u64::MAX))
}

/// Returns the bytes that the control group (version 2 or 1) still allows, if it limits memory.
fn cgroup_limit(root: &Path) -> Option<u64> {
    let number = |path: &str| std::fs::read_to_string(root.join(path)).ok()?.trim().parse::<u64>().ok();
    let pairs = [("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")];
    pairs.iter().find_map(|(limit, usage)| {
        let limit = number(limit)?;
        Some(limit.saturating_sub(number(usage).unwrap_or(0)))
    })
}

fn read_file(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{DeviceKind, Hardware, NumaNode};

    fn machine(numa: Vec<Vec<u32>>) -> Topology {
        let numa = (0..).zip(numa).map(|(index, cpus)| NumaNode { index, cpus, memory: 1 << 30 });
        let hardware = Hardware { cores: 4, processors: 4, numa: numa.collect(), devices: Vec::new() };
        Topology { hardware }
    }

    #[test]
    fn numa_nodes_without_allowed_processors_do_not_count() {
        let topology = machine(vec![vec![0, 1], vec![], vec![2, 3], vec![4, 5]]);
        assert_eq!(usable_numa(&topology, &[0, 1, 3]), [vec![0, 1], vec![3]]);
        assert!(usable_numa(&Topology::default(), &[0]).is_empty());
    }

    #[test]
    fn without_a_count_every_usable_numa_node_is_a_device() {
        let allowed = allowed_cpus();
        let (first, rest) = allowed.split_at(allowed.len().div_ceil(2));
        let topology = machine(vec![first.to_vec(), rest.to_vec()]);
        let devices = inventory("h", Vec::new(), &InventoryConfig::default(), &topology);
        assert_eq!(devices[0].cpus, first);
        assert_eq!((devices[0].numa, devices[0].units as usize), (Some(0), first.len()));
        match devices.get(1) {
            Some(second) => assert_eq!((second.numa, &second.cpus[..]), (Some(1), rest)),
            None => assert!(rest.is_empty()),
        }
        // A machine unknown to hwloc has one device with all its cores.
        let devices = inventory("h", Vec::new(), &InventoryConfig::default(), &Topology::default());
        assert_eq!((devices.len(), &devices[0].cpus), (1, &allowed));
    }

    #[test]
    fn a_count_divides_the_cores() {
        let config = InventoryConfig { cpu_devices: Some(3), cpu_memory: Some(1 << 20) };
        let devices = inventory("h", Vec::new(), &config, &machine(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(devices.len(), 3);
        assert!(devices.iter().all(|device| device.units >= 1 && device.memory == 1 << 20));
        assert_eq!(devices[2].id.ordinal, 2);
    }

    #[test]
    fn cpu_devices_follow_gpus_when_asked_for() {
        let config = InventoryConfig { cpu_devices: Some(2), cpu_memory: Some(1 << 20) };
        let gpu = |ordinal| {
            let mut info = inventory("h", Vec::new(), &config, &Topology::default()).remove(0);
            info.id.ordinal = ordinal;
            DeviceInfo { kind: DeviceKind::CUDA, ..info }
        };
        let offered = |config| {
            let devices = inventory("h", vec![gpu(0), gpu(2)], &config, &Topology::default());
            devices.iter().map(|device| (device.kind, device.id.ordinal)).collect::<Vec<_>>()
        };
        let (cpu, cuda) = (DeviceKind::CPU, DeviceKind::CUDA);
        assert_eq!(offered(InventoryConfig::default()), [(cuda, 0), (cuda, 2)]);
        assert_eq!(offered(config), [(cuda, 0), (cuda, 2), (cpu, 3), (cpu, 4)]);
        let none = InventoryConfig { cpu_devices: Some(0), ..config };
        assert_eq!(offered(none), [(cuda, 0), (cuda, 2)]);
        assert!(inventory("h", Vec::new(), &none, &Topology::default()).is_empty());
    }

    #[test]
    fn the_tighter_of_machine_and_control_group_counts() {
        let meminfo = "MemTotal: 9 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(available_memory(meminfo, None), 1 << 20);
        assert_eq!(available_memory(meminfo, Some(5)), 5);
        assert_eq!(available_memory("", None), 1 << 30);
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(cgroup_limit(dir.path()), None);
        std::fs::write(dir.path().join("memory.max"), "max\n").unwrap();
        assert_eq!(cgroup_limit(dir.path()), None);
        std::fs::write(dir.path().join("memory.max"), "4096\n").unwrap();
        std::fs::write(dir.path().join("memory.current"), "96\n").unwrap();
        assert_eq!(cgroup_limit(dir.path()), Some(4000));
    }
}
