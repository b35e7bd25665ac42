//! Suspends the work of a job's sessions on this node, and resumes it.

use crate::hosting::Hosting;
use crate::inventory::free_memory;
use crate::supervise::Supervisor;
use accord_device::own_cgroup;
use accord_types::SessionKey;
use accord_types::threads;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The interval and the number of attempts to lower a group's memory limit, while freed memory still counts.
const LOWER_INTERVAL: Duration = Duration::from_millis(500);
const LOWER_ATTEMPTS: u32 = 240;

impl Supervisor {
    /// Suspends a job here, or resumes it. Takes as long as its regions, and as the copies of its memory.
    ///
    /// # Errors
    /// Returns the reason if a process of the job refuses. The job is as before then.
    pub(crate) fn suspend_job(&self, job: SessionKey, suspend: bool) -> Result<(), String> {
        let begun = Instant::now();
        if !suspend {
            let bytes = self.turns().suspended_bytes_of(job);
            self.turns().resume(job)?;
            self.report_suspension(job, "resumed", bytes, begun);
            self.limits_raised().take(job).into_iter().for_each(RaisedLimit::lower);
            return Ok(());
        }
        if matches!(self.hosting(), Hosting::Here(_)) {
            return Err("its executors are in the process of an MPI job's agent, which can't be suspended".to_owned());
        }
        for session in self.inspect(|node, _| node.sessions_driven(job)) {
            if !self.turns().has_program(session) {
                return Err(format!(
                    "the program of session {session} drives devices itself and takes no orders of the agent: it has just begun, or has another release's libacc; try again"
                ));
            }
        }
        let room = self.suspension_room();
        let raised: Vec<RaisedLimit> =
            self.executor_processes(job).into_iter().filter_map(|process| RaisedLimit::raise(process, room)).collect();
        match self.turns().suspend(job, room) {
            Ok(()) => {
                let bytes = self.turns().suspended_bytes_of(job);
                self.report_suspension(job, "suspended", bytes, begun);
                self.limits_raised().keep(job, raised);
                Ok(())
            }
            Err(why) => {
                raised.into_iter().for_each(RaisedLimit::lower);
                Err(why)
            }
        }
    }

    /// Logs what was done, and the job's bytes of device memory.
    fn report_suspension(&self, job: SessionKey, what: &str, bytes: u64, begun: Instant) {
        let number =
            self.inspect(|node, _| node.number_of(job)).map_or_else(String::new, |number| format!(" {number}"));
        tracing::info!(
            "job{number} is {what}: {} MiB of device memory in {} ms",
            bytes >> 20,
            begun.elapsed().as_millis()
        );
    }

    /// Returns the bytes of host memory that are left for suspended jobs.
    fn suspension_room(&self) -> u64 {
        let used = self.turns().suspended_bytes();
        let free = free_memory();
        // Half of what would be free without them.
        let budget = self.suspend_memory().unwrap_or_else(|| free.saturating_add(used) / 2);
        budget.saturating_sub(used).min(free)
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
    fn raise(process: u32, by: u64) -> Option<Self> {
        let group = own_cgroup::folder_of_process(process)?;
        let before = limit(&group)?;
        // Without the right the process finds that its group has too little.
        fs::write(group.join("memory.max"), before.saturating_add(by).to_string()).ok()?;
        Some(Self { group, before })
    }

    /// Whether the group exists.
    pub(crate) fn is_there(&self) -> bool {
        self.group.exists()
    }

    /// Lowers the limit again, once the group's use permits it.
    fn lower(self) {
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
