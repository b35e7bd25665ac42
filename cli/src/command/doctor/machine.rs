//! Findings from the kernel about this machine: huge pages, clock rates and stolen time of cores, network interfaces
//! and adapters, GPUs' links.

use super::item::Item;
use std::path::Path;

/// The kernel's files.
const PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const CORES: &str = "/sys/devices/system/cpu/cpufreq";
const TIMES: &str = "/proc/stat";
const NET: &str = "/sys/class/net";
const INFINIBAND: &str = "/sys/class/infiniband";
const PCI: &str = "/sys/bus/pci/devices";
/// Vendors and classes of GPUs, as the kernel writes them.
const NVIDIA: &str = "0x10de";
const GPU_CLASSES: [&str; 2] = ["0x0300", "0x0302"];
/// What agents load to find adapters.
const HWLOC: &str = "libhwloc.so.15";
/// Highest share of stolen time in the cores' time, in percent. With 10 to 24 % stolen, one short copy in ten took 0.3
/// to 3 ms instead of 0.07 (docs/performance.md). On a quiet machine it was at most 0.7 in any series of copies.
const STOLEN_MAX: f64 = 2.0;

/// Returns all findings.
pub(super) fn items() -> Vec<Item> {
    let mut items = vec![hwloc(accord_openacc::loads(HWLOC)), huge_pages(&text(Path::new(PAGES)))];
    items.push(core_clocks(Path::new(CORES)));
    items.push(stolen_time(&text(Path::new(TIMES))));
    items.extend(interfaces().iter().map(|(name, speed, duplex)| line_rate(name, speed, duplex)));
    items.extend(ports().into_iter().map(|(name, rate)| Item::ok(format!("network adapter {name}"), rate)));
    items.extend(folders(PCI).iter().filter_map(|folder| gpu(folder)));
    items
}

fn hwloc(is_there: bool) -> Item {
    if is_there {
        return Item::ok(HWLOC, "there");
    }
    let is = "not installed: an agent of this machine does not know its adapters, nor where they are attached";
    Item::absent(HWLOC, is, "install libhwloc15 (Debian, Ubuntu) or hwloc-libs")
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Returns the folders in a folder, by name.
fn folders(of: impl AsRef<Path>) -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(of).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Parses the setting; the selected value is in brackets.
fn huge_pages(setting: &str) -> Item {
    const WHAT: &str = "huge pages";
    let chosen = setting.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match chosen {
        None => Item::unknown(WHAT, format!("no {PAGES}"), "look there on the machine itself, outside of containers"),
        Some("never") => {
            let remedy = format!("have root write madvise into {PAGES}: large arrays are copied faster");
            Item::warning(WHAT, "never", remedy)
        }
        Some(chosen) => Item::ok(WHAT, chosen),
    }
}

/// Returns the governor of the cores' clock rates, by the folder of its policies. Drivers called pstate also raise them
/// under `powersave`; others keep the lowest rate.
fn core_clocks(folder: &Path) -> Item {
    const WHAT: &str = "cores' clock rates";
    let policies: Vec<_> =
        folders(folder).into_iter().filter(|policy| policy.join("scaling_governor").exists()).collect();
    let read = |policy: &Path, file: &str| text(&policy.join(file));
    let mhz = |policy: &Path, file: &str| read(policy, file).parse::<u64>().unwrap_or_default() / 1000;
    for policy in &policies {
        let (governor, driver) = (read(policy, "scaling_governor"), read(policy, "scaling_driver"));
        if governor == "powersave" && !driver.contains("pstate") {
            let is = format!("powersave by {driver}: the lowest rate there is");
            return Item::warning(
                WHAT,
                is,
                "have root run cpupower frequency-set -g performance, or tuned-adm profile hpc-compute",
            );
        }
        let (now, most) = (mhz(policy, "scaling_max_freq"), mhz(policy, "cpuinfo_max_freq"));
        if now < most {
            let is = format!("at most {now} MHz, of {most} that the cores can");
            return Item::warning(WHAT, is, format!("have root run cpupower frequency-set -u {most}MHz"));
        }
    }
    match policies.first() {
        None => {
            Item::unknown(WHAT, "the kernel does not set them here", "look on the host, if this is a virtual machine")
        }
        Some(first) => Item::ok(
            WHAT,
            format!(
                "{} by {}, up to {} MHz",
                read(first, "scaling_governor"),
                read(first, "scaling_driver"),
                mhz(first, "scaling_max_freq")
            ),
        ),
    }
}

/// Returns the share of time in which the hypervisor gave a runnable thread no core. A launch or a short copy waits for
/// several threads, each of which must run at once. `times` is the kernel's first line of times, over all cores: user,
/// nice, system, idle, iowait, irq, softirq, steal.
fn stolen_time(times: &str) -> Item {
    const WHAT: &str = "cores' time";
    let of_all = times.lines().next().and_then(|line| line.strip_prefix("cpu "));
    let ticks: Vec<u64> =
        of_all.into_iter().flat_map(str::split_whitespace).map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks[..] else {
        return Item::unknown(WHAT, format!("no {TIMES}"), "vmstat 1 on the machine itself: its column st");
    };
    let wanted = user + nice + system + irq + softirq + steal;
    let share = 100.0 * steal as f64 / wanted.max(1) as f64;
    let is = format!("a hypervisor took {share:.2} % of it since the machine started");
    if share > STOLEN_MAX {
        let remedy = "have the virtual machine given cores of its own; vmstat 1 shows it now, in its column st";
        return Item::warning(WHAT, format!("{is}: short copies and launches may take many times as long"), remedy);
    }
    Item::ok(WHAT, is)
}

/// Returns the interfaces that are up, except the loopback: name, line rate and duplex.
fn interfaces() -> Vec<(String, String, String)> {
    let up = folders(NET).into_iter().filter(|folder| text(&folder.join("operstate")) == "up");
    let items = up.filter_map(|folder| {
        let name = folder.file_name()?.to_string_lossy().into_owned();
        Some((name, text(&folder.join("speed")), text(&folder.join("duplex"))))
    });
    items.collect()
}

/// Returns the active ports of InfiniBand and Omni-Path adapters, with rates as the kernel writes them: `200 Gb/sec (4X
/// HDR)`.
fn ports() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for adapter in folders(INFINIBAND) {
        for port in folders(adapter.join("ports")) {
            if text(&port.join("state")).ends_with("ACTIVE") {
                let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                all.push((format!("{} port {}", name(&adapter), name(&port)), text(&port.join("rate"))));
            }
        }
    }
    all
}

/// Returns the rate of this machine's fastest line in bytes per second, if known.
pub(super) fn fastest_line() -> Option<u64> {
    let interfaces = interfaces().into_iter().filter_map(|(_, speed, _)| speed.parse::<u64>().ok());
    interfaces
        .map(|mbit| mbit * 1_000_000)
        .chain(ports().iter().filter_map(|(_, rate)| bits(rate)))
        .max()
        .map(|bits| bits / 8)
}

/// Parses the rate of a port in bits per second.
fn bits(rate: &str) -> Option<u64> {
    let gbit: f64 = rate.split_once(" Gb/sec")?.0.parse().ok()?;
    Some((gbit * 1e9) as u64)
}

/// Returns the finding on an interface; its speed is in megabits per second, -1 or empty if unknown.
fn line_rate(name: &str, speed: &str, duplex: &str) -> Item {
    let what = format!("network interface {name}");
    match (speed.parse::<i64>(), duplex) {
        (Ok(speed @ 1..), "half") => {
            let remedy = "set the switch's port and the interface to negotiate (ethtool -s NAME autoneg on)";
            Item::warning(what, format!("{speed} Mbit/s, half duplex"), remedy)
        }
        (Ok(speed @ 1..), _) => Item::ok(what, format!("{speed} Mbit/s")),
        _ => {
            Item::unknown(what, "its driver tells no line rate", "run ethtool NAME, or ask the network's administrator")
        }
    }
}

/// Returns the finding on a GPU's link, by its folder; `None` for other devices.
fn gpu(folder: &Path) -> Option<Item> {
    let read = |file: &str| text(&folder.join(file));
    let is_gpu = read("vendor") == NVIDIA && GPU_CLASSES.iter().any(|class| read("class").starts_with(class));
    let address = folder.file_name()?.to_string_lossy().into_owned();
    let link = ["current_link_speed", "current_link_width", "max_link_speed", "max_link_width"].map(read);
    is_gpu.then(|| pci_link(&address, &link))
}

/// Compares a link with its maximum. An idle GPU's link speed falls; its width does not.
fn pci_link(address: &str, [speed, width, most_speed, most_width]: &[String; 4]) -> Item {
    let what = format!("PCIe link of GPU {address}");
    match (width.parse::<u32>(), most_width.parse::<u32>()) {
        (Ok(width), Ok(most)) if width < most => {
            let remedy = "put the GPU into a slot that has all its lanes, and look whether it sits well";
            Item::warning(what, format!("{width} lanes of {most}, {speed}"), remedy)
        }
        (Ok(width @ 1..), Ok(_)) => Item::ok(what, format!("{width} lanes, {speed} now, at most {most_speed}")),
        _ => Item::unknown(what, "the kernel does not tell it", "nvidia-smi -q shows it under GPU Link Info"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::Verdict;
    use super::*;

    #[test]
    fn a_machine_without_hwloc_is_found() {
        assert_eq!(hwloc(true).verdict, Verdict::Ok);
        assert!(matches!(hwloc(false).verdict, Verdict::Absent(_)));
    }

    #[test]
    fn huge_pages_that_are_switched_off_are_found() {
        assert_eq!(huge_pages("always [madvise] never").verdict, Verdict::Ok);
        assert!(huge_pages("always madvise [never]").remedy().is_some_and(|remedy| remedy.contains("madvise")));
        assert!(matches!(huge_pages("").verdict, Verdict::Unknown(_)));
    }

    #[test]
    fn cores_that_are_held_at_low_rates_are_found() {
        let of = |governor: &str, driver: &str, limit: &str| {
            let folder = tempfile::tempdir().unwrap();
            for policy in ["policy0", "policy1"] {
                let policy = folder.path().join(policy);
                std::fs::create_dir(&policy).unwrap();
                let limits = [("scaling_max_freq", limit), ("cpuinfo_max_freq", "3700000")];
                for (file, text) in
                    [("scaling_governor", governor), ("scaling_driver", driver)].into_iter().chain(limits)
                {
                    std::fs::write(policy.join(file), format!("{text}\n")).unwrap();
                }
            }
            core_clocks(folder.path())
        };
        let well = of("powersave", "intel_pstate", "3700000");
        assert_eq!((well.value.as_str(), &well.verdict), ("powersave by intel_pstate, up to 3700 MHz", &Verdict::Ok));
        assert!(
            of("powersave", "acpi-cpufreq", "3700000").remedy().is_some_and(|remedy| remedy.contains("performance"))
        );
        let limited = of("performance", "acpi-cpufreq", "2000000");
        assert!(limited.value.starts_with("at most 2000 MHz, of 3700") && limited.remedy().is_some());
        assert!(matches!(core_clocks(Path::new("/nowhere")).verdict, Verdict::Unknown(_)));
    }

    #[test]
    fn a_machine_whose_cores_are_taken_away_is_found() {
        let quiet = stolen_time("cpu  2324153 0 494727 3498326 12332 0 13203 1517 0 0\ncpu0 1 0 1 1 1 0 1 900 0 0");
        assert_eq!((quiet.value.contains("0.05 %"), &quiet.verdict), (true, &Verdict::Ok), "{}", quiet.value);
        let taken = stolen_time("cpu  195 0 126 3606 0 0 0 62 0 0");
        assert!(taken.value.contains("16.19 %") && taken.remedy().is_some(), "{}", taken.value);
        assert_eq!(stolen_time("cpu  0 0 0 0 0 0 0 0").verdict, Verdict::Ok);
        for unknown in ["", "cpu  1 2 3", "intr 1 2 3 4 5 6 7 8"] {
            assert!(matches!(stolen_time(unknown).verdict, Verdict::Unknown(_)), "{unknown}");
        }
    }

    #[test]
    fn an_interface_tells_its_line_rate_or_not() {
        let well = line_rate("eth0", "25000", "full");
        assert_eq!((well.value.as_str(), &well.verdict), ("25000 Mbit/s", &Verdict::Ok));
        assert!(line_rate("eth0", "100", "half").remedy().is_some());
        for unknown in ["-1", "", "x"] {
            assert!(matches!(line_rate("eth0", unknown, "full").verdict, Verdict::Unknown(_)), "{unknown}");
        }
    }

    #[test]
    fn a_port_tells_its_rate() {
        assert_eq!(bits("200 Gb/sec (4X HDR)"), Some(200_000_000_000));
        assert_eq!(bits("2.5 Gb/sec (1X SDR)"), Some(2_500_000_000));
        assert_eq!((bits(""), bits("fast Gb/sec")), (None, None));
    }

    #[test]
    fn a_gpu_with_fewer_lanes_than_it_has_is_found() {
        let link = |width: &str, most: &str| {
            pci_link("0000:3b:00.0", &["16.0 GT/s", width, "32.0 GT/s", most].map(str::to_owned))
        };
        assert_eq!(link("16", "16").verdict, Verdict::Ok);
        assert!(link("8", "16").value.starts_with("8 lanes of 16") && link("8", "16").remedy().is_some());
        assert!(matches!(link("", "").verdict, Verdict::Unknown(_)));
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), format!("{text}\n")).unwrap();
        file("vendor", "0x10de");
        file("class", "0x020000");
        assert!(gpu(folder.path()).is_none(), "it is a network adapter");
        file("class", "0x030200");
        assert!(gpu(folder.path()).is_some_and(|item| matches!(item.verdict, Verdict::Unknown(_))));
    }
}
