//! Memory limits of control groups that are raised while jobs are suspended.

use accord_device::own_cgroup;
use accord_types::SessionKey;
use accord_types::short_lock::ShortLock;
use accord_types::threads;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The interval and the number of attempts to lower a group's memory limit, while freed memory still counts.
const LOWER_INTERVAL: Duration = Duration::from_millis(500);
const LOWER_ATTEMPTS: u32 = 240;

/// Most jobs whose limits are kept, as many as may be suspended. Of more, the limits stay raised.
const JOBS_MAX: usize = 1_024;

/// Raised limits by job.
#[derive(Debug, Default)]
pub(crate) struct RaisedLimits(ShortLock<BTreeMap<SessionKey, Vec<RaisedLimit>>>);

impl RaisedLimits {
    /// Keeps the limits of a suspended job. Those of jobs without groups are dropped.
    pub(crate) fn keep(&self, job: SessionKey, limits: Vec<RaisedLimit>) {
        let mut kept = self.0.lock();
        kept.retain(|_, limits| limits.iter().any(RaisedLimit::is_there));
        if kept.len() < JOBS_MAX {
            kept.entry(job).or_default().extend(limits);
        }
    }

    /// Takes the limits of a job.
    pub(crate) fn take(&self, job: SessionKey) -> Vec<RaisedLimit> {
        self.0.lock().remove(&job).unwrap_or_default()
    }
}

/// The memory limit of an executor's control group, raised by what its suspended work may take.
#[derive(Debug)]
pub(crate) struct RaisedLimit {
    group: PathBuf,
    before: u64,
}

impl RaisedLimit {
    /// Raises the limit of a process's group. Returns `None` if it has no limit.
    pub(crate) fn raise(process: u32, by: u64) -> Option<Self> {
        let group = own_cgroup::folder_of_process(process)?;
        let before = limit(&group)?;
        // Without the right the process finds that its group has too little.
        fs::write(group.join("memory.max"), before.saturating_add(by).to_string()).ok()?;
        Some(Self { group, before })
    }

    /// Whether the group exists.
    fn is_there(&self) -> bool {
        self.group.exists()
    }

    /// Lowers the limit again, once the group's use permits it.
    pub(crate) fn lower(self) {
        let lower = move || {
            for _ in 0..LOWER_ATTEMPTS {
                let used = fs::read_to_string(self.group.join("memory.current")).ok();
                let used = used.and_then(|used| used.trim().parse::<u64>().ok());
                if used.is_none_or(|used| used < self.before) {
                    break;
                }
                std::thread::sleep(LOWER_INTERVAL);
            }
            // The group may have ended.
            let _ = fs::write(self.group.join("memory.max"), self.before.to_string());
        };
        if let Err(error) = threads::spawn("accord-limit", lower) {
            tracing::warn!("the memory limit of a session stays raised: cannot start a thread: {error}");
        }
    }
}

fn limit(group: &Path) -> Option<u64> {
    fs::read_to_string(group.join("memory.max")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_a_limit_gets_none() {
        let group = tempfile::tempdir().unwrap();
        assert_eq!(limit(group.path()), None);
        fs::write(group.path().join("memory.max"), "max\n").unwrap();
        assert_eq!(limit(group.path()), None);
        fs::write(group.path().join("memory.max"), "4096\n").unwrap();
        assert_eq!(limit(group.path()), Some(4096));
    }
}
