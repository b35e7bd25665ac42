//! Detects whether the system has killed processes because memory ran out. Such a process looks like any other killed one.

use crate::own_cgroup;
use std::fs;
use std::path::Path;

/// The words for people.
pub const CAUSE: &str = "most likely by the system's out-of-memory killer, which has ended a process since it started";

/// Remedies for a session whose processes had more host memory than they may have.
pub const MORE_MEMORY: &str =
    "use less memory, ask for more (ram= in the request), or have the node's agent allow more (--session-memory)";

/// The system's count of such kills when the value was created.
#[derive(Clone, Copy, Debug)]
pub struct OutOfMemory(Option<u64>);

impl OutOfMemory {
    /// Starts to count.
    pub fn watch() -> Self {
        Self(kills())
    }

    /// Returns the memory, in bytes, that this process's control group may have, if the kernel has killed a process since and one of the group
    /// for having more.
    pub fn exceeded_limit(self) -> Option<u64> {
        let group = own_cgroup::folder().filter(|_| self.has_killed())?;
        let killed = own_cgroup::events(&group, "memory.events", "oom_kill") > 0;
        fs::read_to_string(group.join("memory.max")).ok()?.trim().parse().ok().filter(|_| killed)
    }

    /// Whether the system has killed a process since.
    pub fn has_killed(self) -> bool {
        self.0.zip(kills()).is_some_and(|(before, now)| now > before)
    }
}

/// Returns the number of kills, counted before the process is signalled, by machine or control group; `None` if the system does not report it.
fn kills() -> Option<u64> {
    count(&fs::read_to_string(Path::new("/proc/vmstat")).ok()?)
}

fn count(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_count_is_found() {
        assert_eq!(count("nr_free_pages 5\noom_kill_other 9\noom_kill 12\npgfault 3\n"), Some(12));
        assert_eq!(count("nr_free_pages 5\n"), None);
        assert!(!OutOfMemory(None).has_killed() && !OutOfMemory(Some(u64::MAX)).has_killed());
    }
}
