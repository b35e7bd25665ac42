//! The control group (version 2) of this process.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folder of this process's group; `None` if no mount shows it.
pub fn folder() -> Option<PathBuf> {
    folder_in("self")
}

/// Returns the folder of another process's group.
pub fn folder_of_process(process: u32) -> Option<PathBuf> {
    folder_in(&process.to_string())
}

fn folder_in(process: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    folder_of(&mounts, &groups)
}

/// Parses proc_pid_mountinfo(5) and cgroups(7).
fn folder_of(mounts: &str, groups: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        if !file_system.starts_with("cgroup2 ") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let below = Path::new(own).strip_prefix(root).ok()?;
        Some(Path::new(at).join(below))
    })
}

/// Returns the bytes of memory that this process's group may still have.
pub(crate) fn memory_left() -> u64 {
    folder().map_or(u64::MAX, |folder| left_of(&folder))
}

fn left_of(group: &Path) -> u64 {
    let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    number("memory.max").map_or(u64::MAX, |max| max.saturating_sub(number("memory.current").unwrap_or(0)))
}

/// Returns the count of an event in a file of a group, such as `oom_kill` in `memory.events`; 0 without the file.
pub fn events(group: &Path, file: &str, event: &str) -> u64 {
    let text = fs::read_to_string(group.join(file)).unwrap_or_default();
    let count = |line: &str| line.strip_prefix(event)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_under_the_mount_that_shows_it() {
        let mounts = "25 30 0:22 / /sys rw,relatime shared:7 - sysfs sysfs rw\n\
                      42 32 0:39 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let of = |groups: &str| folder_of(mounts, groups);
        assert_eq!(of("4:memory:/x\n0::/a/b\n"), Some("/sys/fs/cgroup/unified/a/b".into()));
        assert_eq!(of("0::/\n"), Some("/sys/fs/cgroup/unified/".into()));
        assert_eq!(of("4:memory:/x\n"), None);
        let inside = "9 8 0:39 /box /sys/fs/cgroup ro - cgroup2 cgroup ro\n";
        assert_eq!(folder_of(inside, "0::/box/a\n"), Some("/sys/fs/cgroup/a".into()));
        assert_eq!(folder_of(inside, "0::/other\n"), None);
        assert_eq!(folder_of("", "0::/\n"), None);
    }

    #[test]
    fn memory_of_a_group_is_left_up_to_its_limit() {
        let group = tempfile::tempdir().unwrap();
        assert_eq!(left_of(group.path()), u64::MAX);
        fs::write(group.path().join("memory.max"), "max\n").unwrap();
        fs::write(group.path().join("memory.current"), "3\n").unwrap();
        assert_eq!(left_of(group.path()), u64::MAX);
        fs::write(group.path().join("memory.max"), "10\n").unwrap();
        assert_eq!(left_of(group.path()), 7);
    }

    #[test]
    fn events_of_a_group_are_counted_by_their_name() {
        let group = tempfile::tempdir().unwrap();
        assert_eq!(events(group.path(), "memory.events", "oom"), 0);
        fs::write(group.path().join("memory.events"), "oom_kill 3\noom 5\n").unwrap();
        assert_eq!(events(group.path(), "memory.events", "oom"), 5);
        assert_eq!(events(group.path(), "memory.events", "oom_kill"), 3);
    }
}
