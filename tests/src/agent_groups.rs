//! Control groups of tests' agents.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Controllers that an agent needs to limit sessions.
const CONTROLLERS: [&str; 4] = ["memory", "pids", "cpu", "cpuset"];
/// How long a group whose processes were killed may stay.
const EMPTIED_WITHIN: Duration = Duration::from_secs(2);

/// The control group of a cluster's agents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AgentCgroup {
    /// That of the test.
    Inherited,
    /// One for each agent, as for a service of systemd with `Delegate=yes`; the test's where that can't be.
    Own,
    /// None that the agent could see, as in many containers.
    Hidden,
}

/// Returns where control groups of version 2 are mounted.
pub(crate) fn mounted() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    mount.split(' ').nth(4).map(PathBuf::from)
}

/// A control group for an agent, removed on drop with the processes in it.
pub(crate) struct AgentGroup(PathBuf);

impl AgentGroup {
    /// Returns `None` if no group with the controllers can be created.
    pub(crate) fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mount = mounted()?;
        let delegated = std::fs::read_to_string(mount.join("cgroup.subtree_control")).ok()?;
        if !CONTROLLERS.iter().all(|wanted| delegated.split_whitespace().any(|word| word == *wanted)) {
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = mount.join(format!("accord-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&group).ok()?;
        Some(Self(group))
    }

    /// Returns the file that moves a process into the group.
    pub(crate) fn processes(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }
}

impl Drop for AgentGroup {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        let end = Instant::now() + EMPTIED_WITHIN;
        while !remove(&self.0) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Removes a group and those below it. Returns whether it is gone.
fn remove(group: &Path) -> bool {
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    std::fs::remove_dir(group).is_ok() || !group.exists()
}
