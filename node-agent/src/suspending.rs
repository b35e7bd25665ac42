//! Suspends the work of a job's sessions on this node, and resumes it.

use crate::hosting::Hosting;
use crate::inventory::free_memory;
use crate::supervise::Supervisor;
use accord_types::SessionKey;

impl Supervisor {
    /// Suspends a job here, or resumes it. Takes as long as its regions, and as the copies of its memory.
    ///
    /// # Errors
    /// Returns the reason if a process of the job refuses. The job is as before then.
    pub(crate) fn suspend_job(&self, job: SessionKey, suspend: bool) -> Result<(), String> {
        if !suspend {
            return self.turns().resume(job);
        }
        if matches!(self.hosting(), Hosting::Here(_)) {
            return Err("its executors are in the process of an MPI job's agent, which can't be suspended".to_owned());
        }
        for session in self.inspect(|node, _| node.sessions_driven(job)) {
            if !self.turns().has_program(session) {
                return Err(format!(
                    "the program of session {session} drives devices itself and takes no orders of the agent; start it with this release's libacc"
                ));
            }
        }
        self.turns().suspend(job, self.suspension_room())
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
