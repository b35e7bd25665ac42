//! Control groups that tests put processes into.

use std::path::{Path, PathBuf};

/// A control group for this many processes and threads, removed on drop.
pub struct ProcessGroup(PathBuf);

impl ProcessGroup {
    /// Returns `None` if the group can't be created.
    pub fn new(most: u32) -> Option<Self> {
        let roots = [Path::new("/sys/fs/cgroup/pids"), Path::new("/sys/fs/cgroup")];
        let root = roots.into_iter().find(|root| root.join("cgroup.procs").exists())?;
        let group = Self(root.join(format!("accord-processes-{}-{most}", std::process::id())));
        std::fs::create_dir(&group.0).ok()?;
        std::fs::write(group.0.join("pids.max"), most.to_string()).ok()?;
        Some(group)
    }

    /// Returns the shell command that moves a shell into it.
    pub fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.0.display())
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
