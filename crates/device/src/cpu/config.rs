//! The configuration of CPU devices: cores and memory of a machine.

use accord_types::{DeviceId, DeviceInfo, DeviceKind, NodeId};

/// The variable that makes a program a worker: `MEMORY-FD,CONTROL-FD,ORDINAL,OWNER-PID,CORES`. libacc checks it when a
/// program starts. The worker removes it, so that its own children are ordinary programs.
pub const WORKER_ENV: &str = "ACCORD_WORKER";
/// The variable with the program's folder, for a worker that starts in another one.
pub const WORKER_FOLDER_ENV: &str = "ACCORD_WORKER_FOLDER";
/// The beginning of the last words of a worker that can't start.
pub(crate) const WORKER_SAYS: &str = "accord: worker: ";

/// The division of a machine's cores and memory into CPU devices.
#[derive(Clone, Debug, Default)]
pub struct CpuConfig {
    /// Number of devices; by default one with all cores.
    pub devices: Option<u32>,
    /// Bytes of memory of each device; by default an equal part of 80 % of the memory available to this process.
    pub memory: Option<u64>,
}

/// Returns the CPU devices of this machine, for a node with this number and name.
pub fn inventory(node: NodeId, node_name: &str, config: &CpuConfig) -> Vec<DeviceInfo> {
    let cpus = allowed_cpus();
    let count = config.devices.unwrap_or(1);
    let memory = config.memory.unwrap_or_else(|| memory_available() / 10 * 8 / u64::from(count.max(1)));
    let model = cpu_model();
    (0..count)
        .map(|ordinal| {
            let cpus = share_of(&cpus, ordinal as usize, count as usize);
            DeviceInfo {
                id: DeviceId { node, ordinal },
                node_name: node_name.to_owned(),
                kind: DeviceKind::CPU,
                name: model.clone(),
                vendor: "Accord".to_owned(),
                driver: env!("CARGO_PKG_VERSION").to_owned(),
                uuid: String::new(),
                memory,
                units: cpus.len().max(1) as u32,
                compute: (0, 0),
                context: 0,
                attributes: Vec::new(),
                numa: None,
                cpus,
            }
        })
        .collect()
}

/// Returns the processors of device `index`: contiguous parts, or one each in turn if there are too few.
fn share_of(cpus: &[u32], index: usize, count: usize) -> Vec<u32> {
    if cpus.is_empty() {
        return Vec::new();
    }
    if count > cpus.len() {
        return vec![cpus[index % cpus.len()]];
    }
    cpus[index * cpus.len() / count..(index + 1) * cpus.len() / count].to_vec()
}

fn allowed_cpus() -> Vec<u32> {
    // SAFETY: an all-zero `cpu_set_t` is a valid empty set, which sched_getaffinity fills.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return Vec::new();
        }
        set
    };
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the index is below CPU_SETSIZE.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .map(|cpu| cpu as u32)
        .collect()
}

/// Returns the free bytes of this machine that this process can use. A limit on its addresses (`ulimit -v`) must also suffice for the program, and a
/// device prefers twice as many addresses as it has memory.
fn memory_available() -> u64 {
    const SHARE_OF_ADDRESSES: u64 = 4;
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call writes one rlimit, which stays infinite on failure.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    memory_free().min(limit.rlim_cur / SHARE_OF_ADDRESSES)
}

fn memory_free() -> u64 {
    std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(1 << 30, |kib| kib << 10)
}

fn cpu_model() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|l| l.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_divided_without_remainder_or_overlap() {
        let cpus: Vec<u32> = (10..17).collect();
        let parts: Vec<_> = (0..3).map(|i| share_of(&cpus, i, 3)).collect();
        assert_eq!(parts.concat(), cpus);
        assert!(parts.iter().all(|p| p.len() >= 2));
        assert_eq!(share_of(&[4, 5], 2, 3), [4]);
    }

    #[test]
    fn the_inventory_has_as_many_devices_as_asked_for() {
        let config = CpuConfig { devices: Some(3), memory: Some(1 << 20) };
        let devices = inventory(NodeId(7), "h1", &config);
        assert_eq!(devices.len(), 3);
        assert!(devices.iter().all(|d| d.memory == 1 << 20 && d.units >= 1));
        assert_eq!(devices[2].id, DeviceId { node: NodeId(7), ordinal: 2 });
    }
}
