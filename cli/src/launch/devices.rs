//! The devices of each host of a local cluster.

use super::parts::own_program;
use super::processes::{Processes, ending};
use super::signals::{Event, Signals};
use crate::args::ClusterSize;
use crate::failure::{Failure, Result};
use crate::output::print;
use accord_gpu::VISIBLE;
use accord_types::{NodeId, settings};
use nix::sys::wait::WaitStatus;
use std::ffi::OsString;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Share of the machine's free memory that all CPU devices together get, in percent.
const MEMORY_PERCENT: u64 = 80;
/// The time limit of listing the GPUs. Drivers of machines with many GPUs take seconds to start.
const LISTING_MAX: Duration = Duration::from_secs(30);
/// The name of the process that lists GPUs.
const GPU_LISTING: &str = "gpus";
/// Prefix of its output line for each GPU, with the driver's number; another line has the note.
const GPU: &str = "gpu: ";
const NOTE: &str = "note: ";

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gpu {
    /// The driver's number in this process, and in processes that see the same GPUs.
    number: u32,
    /// Its name in [`VISIBLE`].
    name: String,
}

/// The GPUs of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Share(Vec<Gpu>);

impl Share {
    /// Returns the value of [`VISIBLE`].
    fn names(&self) -> String {
        self.0.iter().map(|gpu| gpu.name.as_str()).collect::<Vec<_>>().join(",")
    }

    /// Returns the value for an agent that sees all of the GPUs.
    fn numbers(&self) -> String {
        self.0.iter().map(|gpu| gpu.number.to_string()).collect::<Vec<_>>().join(",")
    }
}

/// The devices of each host.
pub(super) struct HostDevices {
    size: ClusterSize,
    /// The first host with devices: 1 if the program's own host 0 has none.
    first: u32,
    /// The GPUs of each host.
    gpus: Vec<Share>,
    /// Bytes of each CPU device, if agents need this setting because they don't know of each other.
    memory: Option<u64>,
}

impl HostDevices {
    /// Distributes this machine's GPUs that are visible to the caller, if the cluster is to have GPUs.
    ///
    /// # Errors
    /// Returns an error if there are too few GPUs, the driver can't be queried, or a signal arrives.
    pub(super) fn new(
        processes: &mut Processes<'_>,
        signals: &mut Signals,
        size: ClusterSize,
        remote_only: bool,
    ) -> Result<Self> {
        let first = u32::from(remote_only);
        let mut gpus = vec![Share::default(); index(first + size.hosts)];
        if size.gpus {
            let (pool, note) = pool(processes, signals)?;
            let shares = deal(&pool, size).ok_or_else(|| too_few(size, &pool, note.as_deref()))?;
            gpus.splice(index(first).., shares);
        }
        let memory = (!size.gpus).then(|| memory_of_each(size)).flatten();
        Ok(Self { size, first, gpus, memory })
    }

    /// Returns the hosts with devices.
    pub(super) fn hosts(&self) -> Range<u32> {
        self.first..self.first + self.size.hosts
    }

    /// Returns the requested size.
    pub(super) fn size(&self) -> ClusterSize {
        self.size
    }

    /// Returns the number of devices of this many hosts.
    pub(super) fn of(&self, hosts: u32) -> usize {
        index(hosts * self.size.devices)
    }

    /// Returns the number of devices of all hosts.
    pub(super) fn all(&self) -> usize {
        self.of(self.size.hosts)
    }

    /// Returns the number of CPU devices of a host.
    pub(super) fn cpus(&self, host: u32) -> u32 {
        if self.size.gpus || !self.hosts().contains(&host) { 0 } else { self.size.devices }
    }

    /// Returns the variables that make a host's devices visible to a program, and hide other hosts' GPUs.
    pub(super) fn environment(&self, host: u32) -> Vec<(&'static str, OsString)> {
        let mut environment = self.common_environment(host);
        environment.push((VISIBLE, self.share(host).names().into()));
        environment
    }

    fn share(&self, host: u32) -> &Share {
        const NONE: &Share = &Share(Vec::new());
        self.gpus.get(index(host)).unwrap_or(NONE)
    }

    /// Returns the variables for an agent, which offers what [`HostDevices::offered`] says. It also sees other hosts'
    /// GPUs, because the driver copies faster to visible ones.
    pub(super) fn environment_of_agent(&self, host: u32) -> Vec<(&'static str, OsString)> {
        let mut environment = self.common_environment(host);
        if self.share(host).0.is_empty() {
            environment.push((VISIBLE, OsString::new()));
        }
        environment
    }

    fn common_environment(&self, host: u32) -> Vec<(&'static str, OsString)> {
        let mut environment = vec![(settings::CPU_DEVICES.name, self.cpus(host).to_string().into())];
        if let Some(memory) = self.memory {
            environment.push((settings::CPU_MEMORY.name, memory.to_string().into()));
        }
        environment
    }

    /// Returns the value of an agent's `--gpus`.
    pub(super) fn offered(&self, host: u32) -> String {
        let share = self.share(host);
        if share.0.is_empty() { "off".to_owned() } else { share.numbers() }
    }

    /// Returns the option of `accord __exec` for ranks, because mpirun gives all hosts the same environment.
    pub(super) fn option(&self) -> Option<OsString> {
        let shares = || self.gpus.iter().map(Share::names).collect::<Vec<_>>().join(";");
        self.size.gpus.then(|| format!("--gpus={}", shares()).into())
    }
}

/// Runs `accord __gpus`: prints the usable GPUs.
pub(crate) fn print_gpus() {
    let found = accord_backends::find(NodeId(0), "");
    for gpu in found.devices {
        print(&format!("{GPU}{}\n", gpu.id.ordinal));
    }
    if let Some(note) = found.note {
        print(&format!("{NOTE}{note}\n"));
    }
}

/// Returns the usable GPUs, and why there are no more, as far as known. A child process queries the driver, because it
/// may crash or hang, and keeps resources until it ends.
fn pool(processes: &mut Processes<'_>, signals: &mut Signals) -> Result<(Vec<Gpu>, Option<String>)> {
    processes.start_part(GPU_LISTING, None, &[own_program()?.into(), "__gpus".into()], &[])?;
    let deadline = Instant::now() + LISTING_MAX;
    let failed = |why: String| Failure::new(format!("can't look for GPUs (see what nvidia-smi says): {why}"));
    loop {
        match signals.next(Some(deadline))? {
            Event::Ended(pid, status) => match (processes.ended_part(pid), status) {
                (Some(_), WaitStatus::Exited(_, 0)) => break,
                (Some(_), _) => {
                    return Err(failed(format!("{}\n{}", ending(status), processes.log(GPU_LISTING).trim_end())));
                }
                (None, _) => {}
            },
            Event::Signal { signal, .. } => return Err(Failure::interrupted(signal as i32)),
            Event::Orphaned => return Err(Failure::new("the launcher is gone")),
            Event::Timeout => return Err(failed(format!("the driver does not answer for {LISTING_MAX:?}"))),
        }
    }
    let named = std::env::var(VISIBLE).ok();
    let log = processes.log(GPU_LISTING);
    let numbers = log.lines().filter_map(|line| line.strip_prefix(GPU)?.parse().ok());
    let note = log.lines().find_map(|line| line.strip_prefix(NOTE)).map(str::to_owned);
    Ok((numbers.map(|number| Gpu { number, name: name_of(number, named.as_deref()) }).collect(), note))
}

/// Returns the name of the driver's GPU number `ordinal` in a process that sees the GPUs in `named`, or all.
fn name_of(ordinal: u32, named: Option<&str>) -> String {
    let name = named.and_then(|named| named.split(',').nth(index(ordinal)));
    name.map_or_else(|| ordinal.to_string(), |name| name.trim().to_owned())
}

/// Returns each host's share of `pool`, or `None` if that is too small.
fn deal(pool: &[Gpu], size: ClusterSize) -> Option<Vec<Share>> {
    let shares: Vec<_> = pool.chunks_exact(index(size.devices)).take(index(size.hosts)).collect();
    (shares.len() == index(size.hosts)).then(|| shares.into_iter().map(|share| Share(share.to_vec())).collect())
}

fn too_few(size: ClusterSize, pool: &[Gpu], note: Option<&str>) -> Failure {
    let visible = std::env::var(VISIBLE).map(|value| format!(", {VISIBLE}={value}")).unwrap_or_default();
    let note = note.map_or_else(|| visible.replacen(", ", " with ", 1), |note| format!(" ({note}{visible})"));
    let needed = size.hosts * size.devices;
    let number = |count: usize| if count == 1 { "1 GPU".to_owned() } else { format!("{count} GPUs") };
    Failure::new(format!(
        "a local cluster of {size} takes {}, and this machine has {}{note}; \
         use fewer, or {}x{} for CPU devices",
        number(index(needed)),
        number(pool.len()),
        size.hosts,
        size.devices
    ))
}

/// Returns an equal share of this machine's memory for each device; `None` if that is set, or unknown.
fn memory_of_each(size: ClusterSize) -> Option<u64> {
    if std::env::var_os(settings::CPU_MEMORY.name).is_some() {
        return None;
    }
    let devices = u64::from(size.hosts) * u64::from(size.devices);
    Some(memory_available()? / 100 * MEMORY_PERCENT / devices)
}

/// Returns the bytes that programs can still allocate.
fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// Converts a number of hosts or devices, which is small.
fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> ClusterSize {
        text.parse().unwrap()
    }

    fn pool(names: &[&str]) -> Vec<Gpu> {
        (0..).zip(names).map(|(number, &name)| Gpu { number, name: name.to_owned() }).collect()
    }

    #[test]
    fn hosts_get_gpus_in_their_order_and_some_may_stay_idle() {
        let gpus = pool(&["4", "GPU-12", "2", "3", "0"]);
        let shares = |text: &str| {
            deal(&gpus, size(text)).unwrap().iter().map(|share| (share.names(), share.numbers())).collect::<Vec<_>>()
        };
        let both = |names: &str, numbers: &str| (names.to_owned(), numbers.to_owned());
        assert_eq!(shares("2x2gpu"), [both("4,GPU-12", "0,1"), both("2,3", "2,3")]);
        assert_eq!(shares("5x1gpu")[4], both("0", "4"));
        assert_eq!(deal(&gpus, size("3x2gpu")), None);
        assert_eq!(deal(&[], size("1x1gpu")), None);
    }

    #[test]
    fn the_callers_own_choice_of_gpus_is_kept() {
        assert_eq!(name_of(1, None), "1");
        assert_eq!(name_of(1, Some("3, GPU-8932f937,0")), "GPU-8932f937");
    }

    #[test]
    fn only_hosts_with_cpu_devices_are_told_of_some() {
        let devices = HostDevices { size: size("2x3"), first: 1, gpus: vec![Share::default(); 3], memory: None };
        assert_eq!(devices.hosts(), 1..3);
        assert_eq!([0, 1, 2].map(|host| devices.cpus(host)), [0, 3, 3]);
        assert_eq!(devices.environment(2), [("ACCORD_CPU_DEVICES", "3".into()), (VISIBLE, OsString::new())]);
        assert_eq!((devices.offered(2).as_str(), devices.environment_of_agent(2)), ("off", devices.environment(2)));
    }

    #[test]
    fn agents_are_told_what_they_offer_and_see_the_others_gpus_and_programs_see_their_hosts() {
        let size = size("2x1gpu");
        let gpus = deal(&pool(&["GPU-12", "7"]), size).unwrap();
        let devices = HostDevices { size, first: 0, gpus, memory: None };
        assert_eq!([0, 1].map(|host| devices.offered(host)), ["0", "1"]);
        let of_cpus: [(&str, OsString); 1] = [("ACCORD_CPU_DEVICES", "0".into())];
        assert_eq!(devices.environment_of_agent(1), of_cpus);
        assert_eq!(devices.environment(1), [&of_cpus[..], &[(VISIBLE, "7".into())]].concat());
    }
}
