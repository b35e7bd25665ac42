//! Detects whether the system has killed processes because memory ran out. Such a process looks like any other killed one.

use std::path::Path;

/// The words for people.
pub const CAUSE: &str = "most likely by the system's out-of-memory killer, which has ended a process since it started";

/// The system's count of such kills when the value was created.
#[derive(Clone, Copy, Debug)]
pub struct OutOfMemory(Option<u64>);

impl OutOfMemory {
    /// Starts to count.
    pub fn watch() -> Self {
        Self(kills())
    }

    /// Whether the system has killed a process since.
    pub fn has_killed(self) -> bool {
        self.0.zip(kills()).is_some_and(|(before, now)| now > before)
    }
}

/// Returns the number of kills, counted before the process is signalled, by machine or control group; `None` if the system does not report it.
fn kills() -> Option<u64> {
    count(&std::fs::read_to_string(Path::new("/proc/vmstat")).ok()?)
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
