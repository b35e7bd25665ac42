//! Suspends the work of a job's sessions on this node, and resumes it.

use crate::hosting::Hosting;
use crate::raised_limits::RaisedLimit;
use crate::supervise::Supervisor;
use accord_types::SessionKey;
use std::time::Instant;

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
        self.turns().keep_suspended(&self.inspect(|node, _| node.jobs_with_orders().collect()));
        let room = self.turns().room_left();
        let raised: Vec<RaisedLimit> =
            self.executor_processes(job).into_iter().filter_map(|process| RaisedLimit::raise(process, room)).collect();
        match self.turns().suspend(job) {
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
}
