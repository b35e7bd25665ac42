//! Controllers of control groups: what the kernel counts and bounds in the groups of sessions. A group hands controllers on to those below it only while no
//! process is in it itself (cgroups(7)), so an agent that is alone in its group goes into one of its own below.

use crate::session_limits::SessionLimits;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The group that the agent itself is in while its parent hands controllers on.
const OWN: &str = "agent";
const CONTROLLERS: &str = "cgroup.controllers";
const HANDED_ON: &str = "cgroup.subtree_control";
const PROCESSES: &str = "cgroup.procs";

/// The limits that the kernel enforces in the groups of sessions.
#[derive(Debug)]
pub(crate) struct Controllers {
    pub(crate) memory: bool,
    pub(crate) processes: bool,
    /// The group that the agent has left, and what that has handed on since.
    left: Option<(PathBuf, String)>,
}

/// Has the kernel bound what is in the groups below `folder`, which is below `parent`, the group of the calling process.
///
/// # Errors
/// Returns why it can't, in words.
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

/// Puts the calling process into a group, which is made.
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
    /// Returns the system's error if it takes no limit.
    pub(crate) fn limit(&self, group: &Path, limits: SessionLimits) -> io::Result<()> {
        if self.memory {
            fs::write(group.join("memory.max"), limits.memory.to_string())?;
        }
        if self.processes {
            fs::write(group.join("pids.max"), limits.processes.to_string())?;
        }
        Ok(())
    }

    /// Brings the agent back to the group that it has left, if nothing below that needs the controllers any more.
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

    /// A folder with the files of a group.
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
