//! Agents' measurements of each hop, compared with what any hardware should achieve.

use super::item::Item;
use crate::cluster::{Cluster, NodeRow, PathRow};
use crate::output::{rate, time};
use accord_types::{GpuAware, NodeFigures, NodeId, PathTimes};

/// Lowest plausible rate of host memory: slower memory is faulty or fully used.
const HOST_MIN: u64 = 2_000_000_000;
/// Lowest plausible rate of a device, in percent of host memory's.
const DEVICE_MIN: u64 = 5;
/// Lowest plausible rate of a path, in percent of this machine's line.
const LINE_MIN: u64 = 30;
/// Longest plausible time of 8 B between machines, in nanoseconds.
const PATH_MAX: u64 = 2_000_000;
/// The name of agents' findings on MPI.
pub(super) const GPU_AWARE: &str = "MPI with GPUs' memory";
/// Largest accepted difference of clocks.
const CLOCK_MAX_MS: u64 = 2_000;

/// Returns the findings on all nodes and measured paths. `own` is this machine's node; `line` is the rate of its
/// fastest line in bytes per second.
pub(super) fn items(cluster: &Cluster, own_version: &str, own: &str, line: Option<u64>) -> Vec<Item> {
    let mut items: Vec<Item> = cluster.nodes.iter().flat_map(|node| of_node(node, own_version)).collect();
    items.extend(cluster.paths.iter().map(|row| {
        let what = format!("path between {} and {}", name(cluster, row.ends.0), name(cluster, row.ends.1));
        path(what, row, line.filter(|_| leaves(cluster, row, own)))
    }));
    if cluster.nodes.len() > 1 && cluster.paths.is_empty() {
        let how = "sessions come first: look again when none uses the nodes, or see what accord info shows of them";
        items.push(Item::unknown("paths between nodes", "none was measured", how));
    }
    items
}

fn of_node(node: &NodeRow, own_version: &str) -> Vec<Item> {
    let Some(figures) = &node.figures else {
        let how = "sessions come first: look again when none uses it; an agent with --measure off never does";
        return vec![Item::unknown(
            format!("node {}", node.name),
            format!("{}, and has not measured", node.state),
            how,
        )];
    };
    let mut items = vec![version(&node.name, &figures.agent_version, own_version)];
    items.extend(memory(&node.name, figures));
    items.extend(devices(&node.name, figures));
    items.extend(figures.gpu_aware.as_ref().map(|aware| gpu_aware(&node.name, aware)));
    if !figures.note.is_empty() {
        let how = "its agent's log says more (ACCORD_LOG=info)";
        items.push(Item::unknown(format!("figures of node {}", node.name), figures.note.as_str(), how));
    }
    items
}

fn version(node: &str, theirs: &str, own: &str) -> Item {
    let what = format!("agent of node {node}");
    if theirs == own {
        return Item::ok(what, format!("version {theirs}"));
    }
    Item::error(what, format!("version {theirs}, and {own} here"), format!("install {own} there, or theirs here"))
}

fn memory(node: &str, figures: &NodeFigures) -> Option<Item> {
    let what = format!("memory of node {node}");
    let bytes = figures.host_copy?.stream_bytes_per_s;
    let is = speed(bytes);
    Some(if bytes < HOST_MIN {
        Item::warning(what, is, "see what else runs there, and whether all memory channels have memory")
    } else {
        Item::ok(what, is)
    })
}

fn devices(node: &str, figures: &NodeFigures) -> Vec<Item> {
    let least = figures.host_copy.map_or(0, |times| times.stream_bytes_per_s / 100 * DEVICE_MIN);
    let item = |device: &accord_types::DeviceFigures| {
        let what = format!("device {} of node {node}", device.ordinal);
        let [to, from] = [device.to_device, device.from_device].map(|times| times.stream_bytes_per_s);
        let launch = time(device.launch_ns as f64 / 1e3);
        let is = format!("{} in, {} out, launch and wait {launch}", speed(to), speed(from));
        match to.min(from) < least {
            true => {
                Item::warning(what, is, "look at its link to the machine (PCIe width and speed), and what else uses it")
            }
            false => Item::ok(what, is),
        }
    };
    figures.devices.iter().map(item).collect()
}

/// Returns the finding on an agent's test of MPI.
fn gpu_aware(node: &str, aware: &GpuAware) -> Item {
    let what = format!("{GPU_AWARE} on node {node}");
    match aware {
        GpuAware::Yes => Item::ok(what, "copies from and to it"),
        GpuAware::No(why) => Item::warning(
            what,
            format!("GPUs' bytes go through the host's memory: {why}"),
            "build Accord's MPI part for an MPI that knows CUDA (as Open MPI with such a UCX), and have its settings name that (--mca pml ucx)",
        ),
        GpuAware::Untried => {
            Item::unknown(what, "not used (--mpi-gpus off)", "start the agents without that: they try it")
        }
    }
}

/// Whether a path leads from this machine's node to another machine.
fn leaves(cluster: &Cluster, row: &PathRow, own: &str) -> bool {
    let ends = [row.ends.0, row.ends.1].map(|id| cluster.nodes.iter().find(|node| node.id == id));
    let [Some(a), Some(b)] = ends else { return false };
    let host = |node: &NodeRow| Some(node.endpoint.as_ref()?.as_str().rsplit_once(':')?.0.to_owned());
    (a.name == own || b.name == own) && host(a).zip(host(b)).is_some_and(|(a, b)| a != b && !a.starts_with("127."))
}

fn name(cluster: &Cluster, id: NodeId) -> &str {
    cluster.nodes.iter().find(|node| node.id == id).map_or("?", |node| node.name.as_str())
}

fn path(what: String, row: &PathRow, line: Option<u64>) -> Item {
    let PathTimes { small_ns, stream_bytes_per_s, .. } = row.cost.times;
    let of_line = line.map(|line| format!(" of {} that the line has", speed(line))).unwrap_or_default();
    let [small, bytes] = [time(small_ns as f64 / 1e3), speed(stream_bytes_per_s)];
    let is = format!("{small} for 8 B, {bytes}{of_line}, by {}", row.transport);
    if line.is_some_and(|line| stream_bytes_per_s < line / 100 * LINE_MIN) {
        let remedy = match row.transport.as_str() {
            "mpi" => "see whether MPI uses that network (ucx_info -d, fi_info), and what else does",
            _ => {
                "start the agents as an MPI job (--fabric mpi), whose MPI knows that network, or see what else uses it"
            }
        };
        return Item::warning(what, is, remedy);
    }
    if small_ns > PATH_MAX {
        return Item::warning(
            what,
            is,
            "see whether the machines are busy, and by which network the agents' addresses go",
        );
    }
    Item::ok(what, is)
}

/// Compares this machine's clock with the coordinator's.
pub(super) fn clock(here_unix_ms: u64, there_unix_ms: u64) -> Item {
    const WHAT: &str = "clock, beside the coordinator's";
    let apart = here_unix_ms.abs_diff(there_unix_ms);
    if there_unix_ms == 0 {
        return Item::unknown(WHAT, "the coordinator does not tell it", "install the same version on both");
    }
    if apart > CLOCK_MAX_MS {
        let remedy = "have both set their clocks (chrony, systemd-timesyncd): certificates count from a time to a time";
        return Item::warning(WHAT, format!("{apart} ms apart"), remedy);
    }
    Item::ok(WHAT, format!("less than {CLOCK_MAX_MS} ms apart"))
}

fn speed(bytes_per_s: u64) -> String {
    rate(bytes_per_s as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{Cost, DeviceFigures, Source};

    fn figures(host: u64, device: u64) -> NodeFigures {
        let times = |rate| PathTimes::new(1_000, 2_000, rate);
        let device = DeviceFigures { ordinal: 0, to_device: times(device), from_device: times(host), launch_ns: 9_000 };
        NodeFigures { host_copy: Some(times(host)), devices: vec![device], ..NodeFigures::default() }
    }

    #[test]
    fn memory_and_devices_that_are_far_too_slow_are_found() {
        let good = figures(10_000_000_000, 5_000_000_000);
        assert!(memory("h1", &good).is_some_and(|item| item.remedy().is_none() && item.value == "10.0 GB/s"));
        let device = &devices("h1", &good)[0];
        assert_eq!(
            (device.remedy(), device.value.as_str()),
            (None, "5.0 GB/s in, 10.0 GB/s out, launch and wait 9.0 us")
        );
        let bad = figures(1_000_000_000, 40_000_000);
        assert!(memory("h1", &bad).is_some_and(|item| item.remedy().is_some()));
        assert!(devices("h1", &bad)[0].remedy().is_some_and(|remedy| remedy.contains("PCIe")));
        assert!(memory("h1", &NodeFigures::default()).is_none());
    }

    #[test]
    fn an_mpi_that_does_not_get_gpus_memory_is_found() {
        let of = |aware| gpu_aware("h1", &aware);
        assert!(of(GpuAware::Yes).remedy().is_none());
        let bad = of(GpuAware::No("it ended".to_owned()));
        assert!(
            bad.value.ends_with("host's memory: it ended") && bad.remedy().is_some_and(|remedy| remedy.contains("UCX"))
        );
        // The test was switched off on purpose.
        assert!(of(GpuAware::Untried).remedy().is_none());
    }

    #[test]
    fn a_path_that_gets_little_of_its_line_is_found() {
        let row = |rate, transport: &str| PathRow {
            ends: (NodeId(0), NodeId(1)),
            cost: Cost { times: PathTimes::new(20_000, 40_000, rate), source: Source::Measured },
            transport: transport.to_owned(),
        };
        let of = |rate, transport, line| path("path".to_owned(), &row(rate, transport), line);
        let well = of(4_000_000_000, "tls", Some(12_500_000_000));
        assert_eq!(
            (well.remedy(), well.value.as_str()),
            (None, "20.0 us for 8 B, 4.0 GB/s of 12.5 GB/s that the line has, by tls")
        );
        assert!(
            of(4_000_000_000, "tls", Some(25_000_000_000))
                .remedy()
                .is_some_and(|remedy| remedy.contains("--fabric mpi"))
        );
        assert!(
            of(4_000_000_000, "mpi", Some(25_000_000_000)).remedy().is_some_and(|remedy| remedy.contains("ucx_info"))
        );
        // A path within one machine, or an unknown line rate, has no bound.
        assert!(of(4_000_000_000, "tls", None).remedy().is_none());
    }

    #[test]
    fn clocks_and_versions_that_differ_are_found() {
        assert!(clock(1_000_000, 1_001_000).remedy().is_none() && clock(1_001_000, 1_000_000).remedy().is_none());
        assert!(clock(1_000_000, 1_005_000).remedy().is_some_and(|remedy| remedy.contains("chrony")));
        assert!(version("h1", "0.1.0", "0.1.0").remedy().is_none());
        assert!(version("h1", "0.2.0", "0.1.0").value.contains("0.2.0, and 0.1.0 here"));
        assert!(version("h1", "0.2.0", "0.1.0").remedy().is_some());
    }
}
