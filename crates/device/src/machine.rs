//! This machine's hardware as /sys shows it, where there is no agent or no hwloc.

use accord_types::{Hardware, NumaNode};
use std::collections::BTreeSet;
use std::path::Path;

const NODES: &str = "/sys/devices/system/node";
const CPUS: &str = "/sys/devices/system/cpu";

/// Returns cores, processors and NUMA nodes. Only hwloc knows the I/O devices near them.
pub fn hardware() -> Hardware {
    let mut numa: Vec<NumaNode> = numbered(NODES, "node")
        .into_iter()
        .map(|index| {
            let read = |file: &str| std::fs::read_to_string(format!("{NODES}/node{index}/{file}")).unwrap_or_default();
            NumaNode { index, cpus: parse_list(&read("cpulist")), memory: total_memory(&read("meminfo")) }
        })
        .collect();
    numa.sort_by_key(|node| node.index);
    let processors = numbered(CPUS, "cpu");
    let cores: BTreeSet<(String, String)> = processors
        .iter()
        .filter_map(|cpu| {
            let read = |file: &str| std::fs::read_to_string(format!("{CPUS}/cpu{cpu}/topology/{file}")).ok();
            Some((read("physical_package_id")?, read("core_id")?))
        })
        .collect();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    // Some virtual machines do not report which processors share a core.
    let cores = if cores.is_empty() { processors.len() } else { cores.len() };
    Hardware { cores: count(cores), processors: count(processors.len()), numa, devices: Vec::new() }
}

/// Returns the NUMA node that contains all of `cpus`.
pub fn numa_of(hardware: &Hardware, cpus: &[u32]) -> Option<u32> {
    let has_all = |node: &&NumaNode| !cpus.is_empty() && cpus.iter().all(|cpu| node.cpus.contains(cpu));
    hardware.numa.iter().find(has_all).map(|node| node.index)
}

/// Returns the numbers of the entries named `prefix` and a number.
fn numbered(folder: &str, prefix: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(Path::new(folder)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()).collect()
}

/// Parses the kernel's form of a set of numbers: `0-3,8`.
fn parse_list(text: &str) -> Vec<u32> {
    let parts = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    });
    parts.flatten().collect()
}

fn total_memory(meminfo: &str) -> u64 {
    let kib = meminfo
        .lines()
        .find_map(|line| line.split_once("MemTotal:"))
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_sets_are_read() {
        assert_eq!(parse_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_list("5"), [5]);
        assert!(parse_list("\n").is_empty());
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(total_memory("Node 0 MemTotal:       24689216 kB\nNode 0 MemFree: 1 kB\n"), 24_689_216 << 10);
        assert_eq!(total_memory(""), 0);
    }
}
