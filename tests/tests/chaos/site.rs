//! A cluster, a program in it, and the faults.

use crate::clocks::Clocks;
use crate::launcher::on_accord_run;
use crate::table::{Fault, Lanes, Phase, Role};
use accord_tests::{Cluster, Finished, Running, test_program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io::PipeWriter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The time limit of a silent peer, instead of 30 s.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);
/// The time for which a program retries to open its session, instead of 30 s: longer than the coordinator is stopped.
const OPEN_TIMEOUT: &str = "12s";
/// The time after which a silent agent is lost, instead of 10 s.
const LOST_AFTER: &str = "3s";
pub(crate) const SHORT: Duration = Duration::from_secs(2);
pub(crate) const LONG: Duration = Duration::from_secs(9);
/// Longer than an agent may be silent by default, and shorter than the limit for other peers.
pub(crate) const BY_DEFAULT: Duration = Duration::from_secs(15);
/// The time limit of a try: a longer one hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How long the target process may take to start.
const COMES: Duration = Duration::from_millis(1_500);

/// The host of the device that the program uses in every phase.
const USED_HOST: usize = 2;

/// The outcome of a try.
pub(crate) struct Outcome {
    pub(crate) finished: Finished,
    /// Time from the fault to the program's end, without the duration of the fault if the program outlives it.
    pub(crate) took: Duration,
    /// Whether a process was hit; `false` if none of the role existed any more.
    pub(crate) hit: bool,
    /// Processes that should have ended.
    pub(crate) left: Vec<String>,
    /// The standard error of the cluster's parts.
    pub(crate) printed: String,
}

impl Outcome {
    pub(crate) fn leaves_something(&self) -> bool {
        !self.finished.left_behind.is_empty() || !self.left.is_empty()
    }
}

/// The cluster for each kind of lanes, used for many tries.
pub(crate) struct Site<'a> {
    clusters: BTreeMap<Lanes, (Kind, Cluster)>,
    clocks: &'a Clocks,
}

/// The kind of a cluster: whether it has default times, and clocks that can be set back.
type Kind = [bool; 2];

impl<'a> Site<'a> {
    pub(crate) fn new(clocks: &'a Clocks) -> Self {
        Self { clusters: BTreeMap::new(), clocks }
    }

    fn cluster(&mut self, fault: Fault, lanes: Lanes) -> &mut Cluster {
        let kind = [fault.has_default_times(), fault == Fault::ClockBack];
        if self.clusters.get(&lanes).is_some_and(|(of, _)| *of != kind) {
            self.clusters.remove(&lanes);
        }
        let start = || {
            let builder = Cluster::builder().hosts(3).devices(1).memory("64M");
            let builder = transport(lanes).into_iter().fold(builder, |builder, (name, value)| builder.env(name, value));
            let builder =
                if fault.has_default_times() { builder } else { builder.env("ACCORD_LOST_AFTER", LOST_AFTER) };
            let builder = if kind[1] { builder.preload(self.clocks.object()) } else { builder };
            (kind, builder.start().unwrap())
        };
        &mut self.clusters.entry(lanes).or_insert_with(start).1
    }

    /// Discards the clusters: the next tries get new ones.
    pub(crate) fn give_up(&mut self) {
        self.clusters.clear();
    }

    /// Performs one try. `jitter` moves the fault within its phase.
    pub(crate) fn attempt(
        &mut self,
        role: Role,
        (fault, phase): (Fault, Phase),
        lanes: Lanes,
        jitter: Duration,
    ) -> Outcome {
        match role {
            Role::Run | Role::Rank => on_accord_run(role, (fault, phase), lanes, jitter, self.clocks),
            _ if fault.is_link() => on_accord_run(role, (fault, phase), lanes, jitter, self.clocks),
            _ => self.on_cluster(role, (fault, phase), lanes, jitter),
        }
    }

    fn on_cluster(&mut self, role: Role, (fault, phase): (Fault, Phase), lanes: Lanes, jitter: Duration) -> Outcome {
        let clocks = self.clocks;
        let cluster = self.cluster(fault, lanes);
        let (input, output) = std::io::pipe().unwrap();
        let job = cluster.job(0, &test_program("cluster/phases.c").unwrap()).unwrap();
        let job = job.arg(phase.argument()).stdin(input).timeout(LIMIT);
        let running = times(fault).into_iter().fold(job, |job, (name, time)| job.env(name, time)).start().unwrap();
        let mut output = Some(output);
        reach(&running, phase, jitter, &mut output);
        let targets = await_targets(cluster, &running, role);
        let begun = Instant::now();
        let mut lasted = strike(cluster, role, fault, &targets, clocks);
        if role == Role::Coordinator && fault == Fault::Killed {
            std::thread::sleep(Duration::from_secs(1));
            cluster.start_coordinator().unwrap();
            lasted = Duration::from_secs(1);
        }
        // The program works on for a while.
        std::thread::sleep(Duration::from_millis(150));
        drop(output);
        let held = matches!(fault, Fault::StoppedForEver);
        // A program that is about to end may have ended before it is stopped.
        let mut over = false;
        if held && role == Role::Program {
            std::thread::sleep(SHORT);
            over = running.signal(Signal::SIGKILL).is_err();
        }
        let finished = running.finish().unwrap();
        let took = begun.elapsed().saturating_sub(lasted);
        if held {
            targets.iter().for_each(|target| signal(*target, Signal::SIGCONT));
        }
        let left = cluster.processes_besides_parts(Duration::from_secs(15));
        let printed = cluster.messages();
        self.mend(role, fault, lanes);
        targets.iter().for_each(|target| clocks.forget(*target));
        Outcome { finished, took, hit: !targets.is_empty() && !over, left, printed }
    }

    /// Restarts or replaces the hit parts of the cluster.
    fn mend(&mut self, role: Role, fault: Fault, lanes: Lanes) {
        let Some((_, cluster)) = self.clusters.get_mut(&lanes) else { return };
        let mended = match (role, fault) {
            (Role::Agent, Fault::Killed) => {
                cluster.kill_agent(USED_HOST);
                cluster.start_agent(USED_HOST)
            }
            // A process keeps its limits and its changed clock.
            (Role::Agent | Role::Coordinator, _) if fault.is_limit() || fault == Fault::ClockBack => {
                self.clusters.remove(&lanes);
                return;
            }
            _ => Ok(()),
        };
        if mended.and_then(|()| cluster.await_devices(3)).is_err() {
            self.clusters.remove(&lanes);
        }
    }
}

/// Returns the setting of the transport; `None` where it is the default.
pub(crate) fn transport(lanes: Lanes) -> Option<(&'static str, &'static str)> {
    (lanes == Lanes::Tls).then_some(("ACCORD_TRANSPORT", "tls"))
}

/// Returns the settings of a program's time limits.
pub(crate) fn times(fault: Fault) -> Vec<(&'static str, String)> {
    if fault.has_default_times() {
        return Vec::new();
    }
    vec![("ACCORD_OPEN_TIMEOUT", OPEN_TIMEOUT.to_owned()), ("ACCORD_TIMEOUT", format!("{}s", TIMEOUT.as_secs()))]
}

/// Waits until the program is in the phase.
pub(crate) fn reach(running: &Running, phase: Phase, jitter: Duration, input: &mut Option<PipeWriter>) {
    running.await_output(if phase == Phase::Open { "opening" } else { "working" }).unwrap();
    if phase == Phase::Close {
        drop(input.take());
    }
    std::thread::sleep(jitter);
}

/// Returns the processes of a role. Some start only when the program needs them.
fn await_targets(cluster: &Cluster, running: &Running, role: Role) -> Vec<Pid> {
    let deadline = Instant::now() + COMES;
    loop {
        let found = targets(cluster, running, role);
        if !found.is_empty() || Instant::now() >= deadline {
            return found;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn targets(cluster: &Cluster, running: &Running, role: Role) -> Vec<Pid> {
    let pid = |id: u32| Pid::from_raw(i32::try_from(id).unwrap());
    let number = |line: &String| Some(Pid::from_raw(line.split(' ').next()?.parse().ok()?));
    match role {
        Role::Program => vec![pid(running.id())],
        Role::Coordinator => cluster.coordinator_id().map(pid).into_iter().collect(),
        Role::Agent => cluster.agent_id(USED_HOST).map(pid).into_iter().collect(),
        Role::Executor => {
            let mut found = cluster.processes_besides_parts(Duration::ZERO);
            found.retain(|line| line.ends_with(" executor"));
            found.iter().filter_map(number).collect()
        }
        Role::Worker => {
            let own = format!("{} ", running.id());
            let found = accord_tests::leftovers(running.mark());
            found.iter().filter(|line| !line.starts_with(&own)).filter_map(number).collect()
        }
        Role::Run | Role::Rank => Vec::new(),
    }
}

/// Applies the fault. Returns how long it lasted.
fn strike(cluster: &mut Cluster, role: Role, fault: Fault, targets: &[Pid], clocks: &Clocks) -> Duration {
    let begun = Instant::now();
    let stop_for = |time: Duration| {
        targets.iter().for_each(|target| signal(*target, Signal::SIGSTOP));
        std::thread::sleep(time);
        targets.iter().for_each(|target| signal(*target, Signal::SIGCONT));
        begun.elapsed()
    };
    match fault {
        Fault::Killed if role == Role::Coordinator => cluster.kill_coordinator(),
        Fault::Killed => targets.iter().for_each(|target| signal(*target, Signal::SIGKILL)),
        Fault::StoppedShort => return stop_for(SHORT),
        Fault::StoppedLong => return stop_for(LONG),
        Fault::StoppedByDefault => return stop_for(BY_DEFAULT),
        Fault::StoppedForEver => targets.iter().for_each(|target| signal(*target, Signal::SIGSTOP)),
        Fault::ClockBack => targets.iter().for_each(|target| clocks.set_back(*target)),
        _ => targets.iter().for_each(|target| bound(*target, fault)),
    }
    Duration::ZERO
}

/// Sets a limit for the target, if that is the fault.
pub(crate) fn bound(target: Pid, fault: Fault) {
    match fault {
        Fault::NoDescriptors => limit(target, "nofile", 3),
        Fault::NoMemory => limit(target, "as", 1 << 20),
        Fault::NoFileSpace => limit(target, "fsize", 4096),
        Fault::NoThreads => no_threads(target),
        _ => {}
    }
}

/// Sends a signal, unless the target has ended.
pub(crate) fn signal(target: Pid, signal: Signal) {
    let _ = kill(target, signal);
}

fn limit(target: Pid, name: &str, value: u64) {
    let set = Command::new("prlimit").args([format!("--pid={target}"), format!("--{name}={value}:")]).output();
    assert!(set.is_ok(), "prlimit of util-linux is needed");
}

/// Limits threads by a control group, because the limit on processes does not hold for root.
fn no_threads(target: Pid) {
    if !nix::unistd::geteuid().is_root() {
        return limit(target, "nproc", 0);
    }
    if let Some(group) = group_of_pids(1) {
        let _ = std::fs::write(group.join("cgroup.procs"), target.to_string());
    }
}

/// Creates a group for this many threads; [`remove_groups`] removes it when its processes have ended.
pub(crate) fn group_of_pids(most: u64) -> Option<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let group = pids_root()?.join(format!("{GROUP}{}-{number}", std::process::id()));
    std::fs::create_dir(&group).ok()?;
    std::fs::write(group.join("pids.max"), most.to_string()).ok().map(|()| group)
}

const GROUP: &str = "accord-chaos-";

fn pids_root() -> Option<PathBuf> {
    [Path::new("/sys/fs/cgroup/pids"), Path::new("/sys/fs/cgroup")]
        .into_iter()
        .find(|folder| folder.join("cgroup.procs").exists())
        .map(Path::to_owned)
}

/// Removes the groups that this process has created.
pub(crate) fn remove_groups() {
    let own = format!("{GROUP}{}-", std::process::id());
    for entry in pids_root().into_iter().filter_map(|root| std::fs::read_dir(root).ok()).flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&own) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

fn has(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|dir| dir.join(program).exists())
}

/// Whether hosts of `accord run` have networks of their own.
pub(crate) fn has_networks() -> bool {
    nix::unistd::geteuid().is_root() && has("ip") && has("tc")
}

/// Returns what this machine lacks for a fault, which is then skipped with a message.
pub(crate) fn lacks(role: Role, fault: Fault) -> Option<&'static str> {
    if fault.is_link() && !has_networks() {
        return Some("links: only root with ip and tc may change them");
    }
    if role == Role::Rank && !has("mpirun") {
        return Some("MPI: there is no mpirun");
    }
    if fault == Fault::NoThreads && nix::unistd::geteuid().is_root() && pids_root().is_none() {
        return Some("threads: there is no control group for processes");
    }
    None
}
