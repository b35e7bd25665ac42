//! Control groups of sessions' processes, with version 2 where the agent may create groups below its own. The kernel
//! then ends all processes of a session at once. It enforces the session's limits if the agent's group has the
//! controllers.

use crate::cgroup_controllers::{Controllers, delegate};
use crate::device_filter::{DeviceFile, DeviceFilter, DeviceFilters};
use crate::session_limits::SessionLimits;
use accord_device::own_cgroup;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Prefix of the name of an agent's group; the agent's process number follows.
const NAME: &str = "accord-agent-";
/// Numbers to try if a name is taken, as by an agent of another container.
const NAMES_MAX: u32 = 16;
/// Pause between tries to remove a group that is being emptied.
const PAUSE: Duration = Duration::from_millis(2);

/// The parent group of the groups of an agent's sessions.
#[derive(Debug)]
pub(crate) struct AgentCgroup {
    folder: PathBuf,
    /// Locked for as long as the agent lives.
    _lock: File,
    /// The controllers of the sessions' groups, or the reason for having none.
    controllers: Result<Controllers, String>,
    filters: DeviceFilters,
}

impl AgentCgroup {
    /// Creates the group below the calling process's own, and ends groups that killed agents have left. Returns `None`
    /// if the system does not permit it.
    pub(crate) fn make() -> Option<Self> {
        Self::make_in(&own_cgroup::folder()?)
    }

    fn make_in(parent: &Path) -> Option<Self> {
        remove_abandoned(parent);
        (0..NAMES_MAX).find_map(|number| {
            let folder = parent.join(format!("{NAME}{}-{number}", std::process::id()));
            // Other users can't open it, because a process that holds the lock would make the group look like a living
            // agent's. Their executors read their own groups' events below it.
            DirBuilder::new().mode(0o711).create(&folder).ok()?;
            let lock =
                File::open(&folder).and_then(|file| Ok(flock(&file, FlockOperation::LockExclusive).map(|()| file)?));
            match lock {
                // `cgroup.kill` needs Linux 5.14. Another starting agent may have removed the group as abandoned before
                // it was locked.
                Ok(lock) if folder.join("cgroup.kill").exists() => {
                    let controllers = delegate(parent, &folder);
                    Some(Self { folder, _lock: lock, controllers, filters: DeviceFilters::default() })
                }
                _ => {
                    let _ = fs::remove_dir(&folder);
                    None
                }
            }
        })
    }

    /// Tries a filter that denies nothing.
    ///
    /// # Errors
    /// Returns the reason if groups can have no filter.
    pub(crate) fn try_filter(&self) -> Result<(), String> {
        self.filters.attach(&self.folder, &[]).map(drop)
    }

    /// Creates a group for one executor and its descendants, with `limits` as far as the controllers allow, which may
    /// not open the files `denied`.
    ///
    /// # Errors
    /// Returns the system's error if it refuses the group, as when there are too many, a limit, or the filter.
    pub(crate) fn of_executor(
        &self,
        number: u64,
        limits: &SessionLimits,
        denied: &[DeviceFile],
    ) -> io::Result<SessionCgroup> {
        let folder = self.folder.join(number.to_string());
        fs::create_dir(&folder)?;
        let mut group = SessionCgroup { folder, _filter: None };
        if !denied.is_empty() {
            group._filter = Some(self.filters.attach(&group.folder, denied).map_err(io::Error::other)?);
        }
        if let Ok(controllers) = &self.controllers {
            controllers.limit(&group.folder, limits)?;
        }
        Ok(group)
    }

    /// Returns the limits that the kernel enforces in the sessions' groups.
    ///
    /// # Errors
    /// Returns the reason if the kernel enforces no limits.
    pub(crate) fn controllers(&self) -> Result<&Controllers, &str> {
        self.controllers.as_ref().map_err(String::as_str)
    }

    /// Removes the group. A group with a session in it stays, and the next agent removes it as abandoned.
    pub(crate) fn remove(&self) {
        if let Ok(controllers) = &self.controllers {
            controllers.give_back(&self.folder);
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The group of one executor and its descendants, removed on drop.
#[derive(Debug)]
pub(crate) struct SessionCgroup {
    folder: PathBuf,
    /// Denies the session the device files of GPUs that it has not leased.
    _filter: Option<DeviceFilter>,
}

impl SessionCgroup {
    /// Moves a process into the group.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub(crate) fn add(&self, process: u32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), process.to_string())
    }

    /// Kills all processes of the group.
    pub(crate) fn kill(&self) {
        kill(&self.folder);
    }

    /// Whether the kernel has killed a process because the session's processes exceeded their memory.
    pub(crate) fn was_out_of_memory(&self) -> bool {
        own_cgroup::events(&self.folder, "memory.events", "oom_kill") > 0
    }

    /// Whether the kernel has refused the session a process or thread beyond its limit.
    pub(crate) fn was_out_of_processes(&self) -> bool {
        own_cgroup::events(&self.folder, "pids.events", "max") > 0
    }
}

impl Drop for SessionCgroup {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

fn kill(folder: &Path) {
    // A removed group has no processes.
    let _ = fs::write(folder.join("cgroup.kill"), "1");
}

/// Removes an empty group, which the kernel may consider busy for a moment.
fn remove(folder: &Path) {
    const WITHIN: Duration = Duration::from_millis(200);
    let end = Instant::now() + WITHIN;
    while let Err(error) = fs::remove_dir(folder) {
        if error.kind() == io::ErrorKind::NotFound || Instant::now() > end {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Ends the processes of killed agents' groups: groups whose lock no process holds.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let folder = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(NAME) {
            continue;
        }
        let Ok(lock) = File::open(&folder) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        tracing::info!("an agent has left {}, which is ended now", folder.display());
        kill(&folder);
        for session in fs::read_dir(&folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
            remove(&session.path());
        }
        remove(&folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup_controllers::Controller;
    use crate::session_limits::Cores;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Child, Command, Stdio};

    fn limits() -> SessionLimits {
        SessionLimits { memory: 64 << 20, processes: 16, cores: Cores::These(vec![0]), weight: 25 }
    }

    /// Starts a shell that runs `script` once it is in the group.
    fn shell(group: &SessionCgroup, script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("read line; {script}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        group.add(child.id()).unwrap();
        drop(child.stdin.take());
        child
    }

    #[test]
    fn a_sessions_processes_stay_within_its_limits() {
        let Some(agent) = AgentCgroup::make() else { return println!("skipped: no control groups to make here") };
        let group = agent.of_executor(1, &limits(), &[]).unwrap();
        match agent.controllers() {
            Ok(controllers) if Controller::ALL.iter().all(|controller| controllers.has(*controller)) => {}
            known => return println!("skipped: the kernel does not bound groups here: {known:?}"),
        }
        assert!(!group.was_out_of_memory() && !group.was_out_of_processes());
        let output = shell(&group, "grep Cpus_allowed_list /proc/self/status").wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "Cpus_allowed_list:\t0");
        // `tail` keeps the last line, which never ends.
        let output = shell(&group, "head -c 200000000 /dev/zero | tail -n 1 | wc -c").wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0", "{output:?}");
        assert!(group.was_out_of_memory());
        let output = shell(&group, "for n in $(seq 40); do sleep 100 > /dev/null 2>&1 & done; echo all")
            .wait_with_output()
            .unwrap();
        assert!(!String::from_utf8_lossy(&output.stdout).contains("all"), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("fork"), "{output:?}");
        assert!(group.was_out_of_processes());
        group.kill();
        drop(group);
        let (own, parent) = (agent.folder.clone(), agent.folder.parent().unwrap().to_owned());
        agent.remove();
        assert!(!own.exists(), "the agent's group stays");
        assert_eq!(own_cgroup::folder(), Some(parent), "this process is in another group than before");
    }

    /// Tries to open a device file, which is /dev/full.
    fn opens(group: &SessionCgroup) -> bool {
        let output = shell(group, "exec 3< /dev/full && exec 4< /dev/zero && echo opened").wait_with_output().unwrap();
        let zero = shell(group, "exec 3< /dev/zero").wait_with_output().unwrap();
        assert!(zero.status.success(), "another file is denied: {zero:?}");
        output.status.success()
    }

    #[test]
    fn a_group_opens_no_device_file_that_it_is_denied() {
        let Some(agent) = AgentCgroup::make() else { return println!("skipped: no control groups to make here") };
        if let Err(why) = agent.try_filter() {
            return println!("skipped: control groups can have no filter here: {why}");
        }
        const FULL: DeviceFile = DeviceFile { major: 1, minor: 7 };
        let others: Vec<DeviceFile> = (0..8).map(|minor| DeviceFile { major: 195, minor }).collect();
        let [free, denied] = [others.clone(), [others, vec![FULL]].concat()];
        let [free, denied] =
            [(1, free), (2, denied)].map(|(number, denied)| agent.of_executor(number, &limits(), &denied).unwrap());
        assert!(opens(&free) && !opens(&denied));
        drop([free, denied]);
        agent.remove();
    }

    #[test]
    fn a_group_ends_all_that_is_in_it_and_what_a_killed_agent_left_goes_too() {
        let Some(agent) = AgentCgroup::make() else { return println!("skipped: no control groups to make here") };
        let mode = fs::metadata(&agent.folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o711, "others could hold its lock, or not read their own groups below");
        let session = agent.of_executor(1, &limits(), &[]).unwrap();
        let start = |group: &SessionCgroup| {
            let child = Command::new("sleep").arg("100").spawn().unwrap();
            group.add(child.id()).unwrap();
            child
        };
        let mut child = start(&session);
        session.kill();
        assert!(!child.wait().unwrap().success());
        let folder = session.folder.clone();
        drop(session);
        assert!(!folder.exists());

        // As if the agent had been killed: its lock is released and its groups are left.
        let left = agent.of_executor(2, &limits(), &[]).unwrap();
        let mut child = start(&left);
        let (parent, own) = (agent.folder.parent().unwrap().to_owned(), agent.folder.clone());
        if let Ok(controllers) = agent.controllers() {
            // A killed process is in no group.
            controllers.give_back(&agent.folder);
        }
        flock(&agent._lock, FlockOperation::Unlock).unwrap();
        remove_abandoned(&parent);
        assert!(!child.wait().unwrap().success());
        assert!(!own.exists());
    }
}
