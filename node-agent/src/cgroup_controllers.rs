//! Controllers of control groups, which count and limit the processes of sessions. A group can delegate controllers
//! only if no process is in it (cgroups(7)). So an agent that is alone in its group moves into a group below.

use crate::session_limits::{Cores, SessionLimits};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The agent's own group while its parent delegates controllers.
const OWN: &str = "agent";
const CONTROLLERS: &str = "cgroup.controllers";
const HANDED_ON: &str = "cgroup.subtree_control";
const PROCESSES: &str = "cgroup.procs";
const SWAP_MAX: &str = "memory.swap.max";
/// The period of the bandwidth of processors, in microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// The shortest bandwidth that the kernel takes, in microseconds a period.
const BANDWIDTH_MIN_US: u64 = 1_000;

/// A controller of the kernel that limits sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Controller {
    Memory,
    Processes,
    /// Time of processors: weights and bandwidth.
    CpuTime,
    /// The processors to run on.
    CpuSet,
}

impl Controller {
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::Processes, Self::CpuTime, Self::CpuSet];

    /// Returns the kernel's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "pids",
            Self::CpuTime => "cpu",
            Self::CpuSet => "cpuset",
        }
    }
}

/// The controllers of the groups of sessions.
#[derive(Debug)]
pub(crate) struct Controllers {
    enabled: Vec<Controller>,
    /// The group that the agent has left.
    left: Option<PathBuf>,
}

/// Delegates the controllers to the groups below `folder`. `folder` is below `parent`, the calling process's group.
///
/// # Errors
/// Returns the reason if the controllers can't be delegated.
pub(crate) fn delegate(parent: &Path, folder: &Path) -> Result<Controllers, String> {
    let known = read_words(parent, CONTROLLERS);
    let is_known = |controller: &Controller| known.iter().any(|word| word == controller.name());
    let wanted: Vec<Controller> = Controller::ALL.into_iter().filter(is_known).collect();
    if wanted.is_empty() {
        return Err("the agent's control group has none of the controllers memory, pids, cpu and cpuset".to_owned());
    }
    let failed =
        |group: &Path, error: io::Error| format!("{} can't be changed: {error}", group.join(HANDED_ON).display());
    let mut controllers = Controllers { enabled: wanted.clone(), left: None };
    let mut enabled = hand_on(parent, &wanted);
    if enabled.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
        if read_words(parent, PROCESSES) != [std::process::id().to_string()] {
            return Err("other processes are in the agent's control group".to_owned());
        }
        enter(&folder.join(OWN)).map_err(|error| failed(parent, error))?;
        controllers.left = Some(parent.to_owned());
        enabled = hand_on(parent, &wanted);
    }
    let enabled = enabled
        .map_err(|error| failed(parent, error))
        .and_then(|enabled| hand_on(folder, &enabled).map_err(|error| failed(folder, error)));
    match enabled {
        Ok(enabled) => Ok(Controllers { enabled, ..controllers }),
        Err(why) => {
            controllers.give_back(folder);
            Err(why)
        }
    }
}

/// Delegates controllers to the groups below `group`. Returns those that the kernel takes.
///
/// # Errors
/// Returns the system's error if it takes none, or processes are in the group.
fn hand_on(group: &Path, wanted: &[Controller]) -> io::Result<Vec<Controller>> {
    let there = read_words(group, HANDED_ON);
    if wanted.iter().all(|controller| there.iter().any(|word| word == controller.name())) {
        return Ok(wanted.to_vec());
    }
    let order = |wanted: &[Controller]| fs::write(group.join(HANDED_ON), orders('+', wanted));
    match order(wanted) {
        Ok(()) => Ok(wanted.to_vec()),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(error),
        Err(error) => {
            // The kernel takes all of an order or nothing, and refuses cpu where real-time processes are below.
            let taken: Vec<Controller> = wanted.iter().copied().filter(|one| order(&[*one]).is_ok()).collect();
            if taken.is_empty() { Err(error) } else { Ok(taken) }
        }
    }
}

fn orders(sign: char, controllers: &[Controller]) -> String {
    controllers.iter().map(|controller| format!("{sign}{}", controller.name())).collect::<Vec<_>>().join(" ")
}

/// Creates a group and moves the calling process into it.
fn enter(group: &Path) -> io::Result<()> {
    fs::create_dir(group)?;
    fs::write(group.join(PROCESSES), std::process::id().to_string())
}

fn read_words(group: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(group.join(file)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

impl Controllers {
    /// Whether the groups of sessions have a controller.
    pub(crate) fn has(&self, controller: Controller) -> bool {
        self.enabled.contains(&controller)
    }

    /// Sets the limits of a session's group.
    ///
    /// # Errors
    /// Returns the system's error if it refuses a limit.
    pub(crate) fn limit(&self, group: &Path, limits: &SessionLimits) -> io::Result<()> {
        let set = |file: &str, value: String| fs::write(group.join(file), value);
        for controller in &self.enabled {
            match (controller, &limits.cores) {
                (Controller::Memory, _) => {
                    set("memory.max", limits.memory.to_string())?;
                    // Without it a session beyond its memory swaps instead. Kernels without swap have no such file.
                    if group.join(SWAP_MAX).exists() {
                        set(SWAP_MAX, "0".to_owned())?;
                    }
                }
                (Controller::Processes, _) => set("pids.max", limits.processes.to_string())?,
                (Controller::CpuTime, cores) => {
                    set("cpu.weight", limits.weight.to_string())?;
                    if let Cores::Some(milli) = cores {
                        let bandwidth = (milli.saturating_mul(PERIOD_US) / 1_000).max(BANDWIDTH_MIN_US);
                        set("cpu.max", format!("{bandwidth} {PERIOD_US}"))?;
                    }
                }
                (Controller::CpuSet, Cores::These(cpus)) => {
                    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
                    set("cpuset.cpus", cpus.join(","))?;
                }
                (Controller::CpuSet, Cores::All | Cores::Some(_)) => {}
            }
        }
        Ok(())
    }

    /// Moves the agent back to its original group, and revokes the delegation.
    pub(crate) fn give_back(&self, folder: &Path) {
        let Some(parent) = &self.left else { return };
        let orders = orders('-', &self.enabled);
        let _ = fs::write(folder.join(HANDED_ON), &orders);
        let _ = fs::write(parent.join(HANDED_ON), &orders);
        if fs::write(parent.join(PROCESSES), std::process::id().to_string()).is_ok() {
            let _ = fs::remove_dir(folder.join(OWN));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a folder with the files of a group.
    fn group(folder: &Path, controllers: &str, processes: &str) {
        fs::create_dir_all(folder).unwrap();
        for (file, text) in [(CONTROLLERS, controllers), (HANDED_ON, ""), (PROCESSES, processes)] {
            fs::write(folder.join(file), text).unwrap();
        }
    }

    fn limits(cores: Cores) -> SessionLimits {
        SessionLimits { memory: 5, processes: 7, cores, weight: 25 }
    }

    #[test]
    fn only_what_the_kernel_has_is_bounded() {
        let top = tempfile::tempdir().unwrap();
        let (parent, below, session) = (top.path(), top.path().join("a"), top.path().join("a/1"));
        let read = |file: PathBuf| fs::read_to_string(file).ok();
        for (known, handed_on, [memory, processes, weight, cpus]) in [
            ("cpuset cpu memory pids\n", "+memory +pids +cpu +cpuset", [Some("5"), Some("7"), Some("25"), Some("0,3")]),
            ("memory\n", "+memory", [Some("5"), None, None, None]),
            ("io pids\n", "+pids", [None, Some("7"), None, None]),
        ] {
            let _ = fs::remove_dir_all(&below);
            group(parent, known, "1\n");
            group(&below, "", "");
            fs::create_dir(&session).unwrap();
            let controllers = delegate(parent, &below).unwrap();
            assert_eq!(read(parent.join(HANDED_ON)).as_deref(), Some(handed_on));
            assert_eq!(read(below.join(HANDED_ON)).as_deref(), Some(handed_on));
            controllers.limit(&session, &limits(Cores::These(vec![0, 3]))).unwrap();
            assert_eq!(read(session.join("memory.max")).as_deref(), memory);
            assert_eq!(read(session.join("pids.max")).as_deref(), processes);
            assert_eq!(read(session.join("cpu.weight")).as_deref(), weight);
            assert_eq!(read(session.join("cpuset.cpus")).as_deref(), cpus);
            assert_eq!(read(session.join("cpu.max")), None);
        }
        group(parent, "io hugetlb\n", "1\n");
        assert!(delegate(parent, &below).unwrap_err().contains("none of the controllers"));
    }

    #[test]
    fn a_session_does_not_swap_where_the_kernel_can_swap() {
        let top = tempfile::tempdir().unwrap();
        let controllers = Controllers { enabled: vec![Controller::Memory], left: None };
        let swap = top.path().join(SWAP_MAX);
        controllers.limit(top.path(), &limits(Cores::All)).unwrap();
        assert!(!swap.exists());
        fs::write(&swap, "max").unwrap();
        controllers.limit(top.path(), &limits(Cores::All)).unwrap();
        assert_eq!(fs::read_to_string(&swap).unwrap(), "0");
    }

    #[test]
    fn a_session_that_asked_for_cores_has_their_time() {
        let top = tempfile::tempdir().unwrap();
        let controllers = Controllers { enabled: Controller::ALL.to_vec(), left: None };
        for (milli, bandwidth) in [(2_500, "250000 100000"), (1, "1000 100000")] {
            controllers.limit(top.path(), &limits(Cores::Some(milli))).unwrap();
            assert_eq!(fs::read_to_string(top.path().join("cpu.max")).unwrap(), bandwidth);
        }
        assert!(!top.path().join("cpuset.cpus").exists());
    }
}
