//! Whether the system has ended processes because memory ran out. A process that it ends so looks like any other that was killed.

use std::path::Path;

/// The words for people.
pub const CAUSE: &str = "most likely by the system's out-of-memory killer, which has ended a process since it started";

/// The system's count of such ends when this was made.
#[derive(Clone, Copy, Debug)]
pub struct OutOfMemory(Option<u64>);

impl OutOfMemory {
    /// Counts from now on.
    pub fn watch() -> Self {
        Self(kills())
    }

    /// Whether it has done so since.
    pub fn has_killed(self) -> bool {
        self.0.zip(kills()).is_some_and(|(before, now)| now > before)
    }
}

/// Counted before the process is told, by machine and by control group alike; none where the system does not say.
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
