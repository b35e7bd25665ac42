//! Control groups that tests put processes into.

use std::path::{Path, PathBuf};

/// A control group for so many processes and threads; removed at the end.
pub struct ProcessGroup(PathBuf);

impl ProcessGroup {
    /// None where it can't be had.
    pub fn new(most: u32) -> Option<Self> {
        let roots = [Path::new("/sys/fs/cgroup/pids"), Path::new("/sys/fs/cgroup")];
        let root = roots.into_iter().find(|root| root.join("cgroup.procs").exists())?;
        let group = Self(root.join(format!("accord-processes-{}-{most}", std::process::id())));
        std::fs::create_dir(&group.0).ok()?;
        std::fs::write(group.0.join("pids.max"), most.to_string()).ok()?;
        Some(group)
    }

    /// What a shell does to be in it.
    pub fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.0.display())
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
