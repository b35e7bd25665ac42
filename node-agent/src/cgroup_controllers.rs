//! Controllers of control groups, which count and limit the processes of sessions. A group can delegate controllers
//! only if no process is in it (cgroups(7)). So an agent that is alone in its group moves into a group below.

use crate::session_limits::SessionLimits;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The agent's own group while its parent delegates controllers.
const OWN: &str = "agent";
const CONTROLLERS: &str = "cgroup.controllers";
const HANDED_ON: &str = "cgroup.subtree_control";
const PROCESSES: &str = "cgroup.procs";

/// The limits that the kernel enforces in the groups of sessions.
#[derive(Debug)]
pub(crate) struct Controllers {
    pub(crate) memory: bool,
    pub(crate) processes: bool,
    /// The group that the agent has left, and the orders that revoke its delegation.
    left: Option<(PathBuf, String)>,
}

/// Delegates the controllers to the groups below `folder`. `folder` is below `parent`, the calling process's group.
///
/// # Errors
/// Returns the reason if the controllers can't be delegated.
pub(crate) fn delegate(parent: &Path, folder: &Path) -> Result<Controllers, String> {
    let known = read_words(parent, CONTROLLERS);
    let [memory, processes] = ["memory", "pids"].map(|name| known.iter().any(|word| word == name));
    if !memory && !processes {
        return Err("the agent's control group has neither the memory nor the pids controller".to_owned());
    }
    let wanted: Vec<&str> = [memory.then_some("memory"), processes.then_some("pids")].into_iter().flatten().collect();
    let orders = |sign: char| wanted.iter().map(|name| format!("{sign}{name}")).collect::<Vec<_>>().join(" ");
    let handed_on = read_words(parent, HANDED_ON);
    let mut controllers = Controllers { memory, processes, left: None };
    if !wanted.iter().all(|name| handed_on.iter().any(|word| word == name))
        && let Err(error) = fs::write(parent.join(HANDED_ON), orders('+'))
    {
        let failed = |error: io::Error| format!("{} can't be changed: {error}", parent.join(HANDED_ON).display());
        let is_busy = error.kind() == io::ErrorKind::ResourceBusy;
        if !is_busy {
            return Err(failed(error));
        }
        if read_words(parent, PROCESSES) != [std::process::id().to_string()] {
            return Err("other processes are in the agent's control group".to_owned());
        }
        enter(&folder.join(OWN)).map_err(failed)?;
        controllers.left = Some((parent.to_owned(), orders('-')));
        if let Err(error) = fs::write(parent.join(HANDED_ON), orders('+')) {
            controllers.give_back(folder);
            return Err(failed(error));
        }
    }
    if let Err(error) = fs::write(folder.join(HANDED_ON), orders('+')) {
        controllers.give_back(folder);
        return Err(format!("{} can't be changed: {error}", folder.join(HANDED_ON).display()));
    }
    Ok(controllers)
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
    /// Sets the limits of a session's group.
    ///
    /// # Errors
    /// Returns the system's error if it refuses a limit.
    pub(crate) fn limit(&self, group: &Path, limits: SessionLimits) -> io::Result<()> {
        if self.memory {
            fs::write(group.join("memory.max"), limits.memory.to_string())?;
        }
        if self.processes {
            fs::write(group.join("pids.max"), limits.processes.to_string())?;
        }
        Ok(())
    }

    /// Moves the agent back to its original group, and revokes the delegation.
    pub(crate) fn give_back(&self, folder: &Path) {
        let Some((parent, orders)) = &self.left else { return };
        let _ = fs::write(folder.join(HANDED_ON), orders);
        let _ = fs::write(parent.join(HANDED_ON), orders);
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

    #[test]
    fn only_what_the_kernel_has_is_bounded() {
        const LIMITS: SessionLimits = SessionLimits { memory: 5, processes: 7 };
        let top = tempfile::tempdir().unwrap();
        let (parent, below, session) = (top.path(), top.path().join("a"), top.path().join("a/1"));
        let read = |file: PathBuf| fs::read_to_string(file).ok();
        for (known, handed_on, [memory, processes]) in [
            ("cpu memory pids\n", "+memory +pids", [Some("5"), Some("7")]),
            ("memory\n", "+memory", [Some("5"), None]),
            ("io pids\n", "+pids", [None, Some("7")]),
        ] {
            let _ = fs::remove_dir_all(&below);
            group(parent, known, "1\n");
            group(&below, "", "");
            fs::create_dir(&session).unwrap();
            let controllers = delegate(parent, &below).unwrap();
            assert_eq!(read(parent.join(HANDED_ON)).as_deref(), Some(handed_on));
            assert_eq!(read(below.join(HANDED_ON)).as_deref(), Some(handed_on));
            controllers.limit(&session, LIMITS).unwrap();
            assert_eq!(read(session.join("memory.max")).as_deref(), memory);
            assert_eq!(read(session.join("pids.max")).as_deref(), processes);
        }
        group(parent, "cpu hugetlb\n", "1\n");
        assert!(delegate(parent, &below).unwrap_err().contains("neither the memory nor the pids"));
    }
}
