//! Events of programs that drive devices of this node themselves.

use super::drivers::{Driver, DriverId, ProcessId};
use super::effect::Effect;
use super::executors::ExecutorId;
use super::state::Node;
use accord_fabric::ending::ExecutorEnding;
use accord_types::texts::job_time_is_over;
use accord_types::{Error, ErrorCode, Result, SessionId, SessionKey};
use std::collections::BTreeSet;
use std::time::Duration;

/// Time in which a program must stop its devices after the end of its session, before an agent of root kills it. The
/// coordinator informs program and agent at the same time.
pub const HEED_MAX: Duration = Duration::from_secs(30);

impl Node {
    /// Records that a program drives devices of its session here.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the session has ended, or there are too many such programs, in all or of
    /// its user.
    pub fn drives(&mut self, now: Duration, session: SessionId, process: Option<ProcessId>) -> Result<DriverId> {
        let grant = self.grant(now, session)?;
        self.check_prolog(&grant)?;
        let job = grant.job;
        let driver = Driver { session, job, process, has_lane: true };
        let driver = self.drivers.add(driver, &grant.user, self.quota).map_err(|(why, remedy)| {
            let cause = format!("node {} can't take session {session}: {why}", self.name);
            Error::new(ErrorCode::DeviceUnavailable, cause).node(&self.name).remedy(remedy)
        })?;
        self.kept_changes += 1;
        Ok(driver)
    }

    /// Records that a program drives no device any more.
    pub fn drives_no_longer(&mut self, driver: DriverId) {
        self.overdue.remove(&driver);
        self.kept_changes += u64::from(self.drivers.remove(driver));
    }

    /// Returns the programs that drive devices here without a lane to this agent; their processes must be watched.
    pub fn unwatched_drivers(&self) -> Vec<(DriverId, ProcessId)> {
        let unwatched = self.drivers.all().filter(|(_, driver)| !driver.has_lane);
        unwatched.filter_map(|(id, driver)| Some((id, driver.process?))).collect()
    }

    /// Returns the sessions of a job whose programs drive devices here themselves.
    pub fn sessions_driven(&self, job: SessionKey) -> BTreeSet<SessionId> {
        self.drivers.of_job(job)
    }

    /// Returns the number by which users know a job.
    pub fn number_of(&self, job: SessionKey) -> Option<u64> {
        self.jobs.number(job)
    }

    /// Returns the running executors of a job.
    pub fn executors_of(&self, job: SessionKey) -> Vec<ExecutorId> {
        self.executors.of_job(job)
    }

    /// Sets the deadline by which the program of a session that the coordinator has ended must stop its devices.
    pub(super) fn expect_heed(&mut self, now: Duration, session: SessionId) {
        for (id, _) in self.drivers.all().filter(|(_, driver)| driver.session == session) {
            self.overdue.entry(id).or_insert(now + HEED_MAX);
        }
    }

    /// Ends the sessions of jobs past their end, also without a coordinator. Programs that drive devices themselves
    /// learn of it only from the coordinator.
    pub(super) fn end_jobs(&mut self, now: Duration, ends: &mut Vec<ExecutorId>) {
        for (job, key) in self.jobs.notice_ends(now) {
            tracing::warn!("job {job} has lasted as long as it was allowed to");
            let ending = ExecutorEnding::Session(job_time_is_over(job));
            for session in self.grants.of_job(key) {
                self.end_session(session, Some(&ending), ends);
            }
        }
    }

    /// Ends the processes that have missed their deadline.
    pub(super) fn end_overdue(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let over: Vec<DriverId> = self.overdue.iter().filter(|(_, by)| **by <= now).map(|(id, _)| *id).collect();
        for id in over {
            self.overdue.remove(&id);
            let driver = self.drivers.all().find(|(known, _)| *known == id);
            let process = driver.and_then(|(_, driver)| driver.process);
            effects.extend(process.map(|process| Effect::EndProcess(id, process)));
        }
    }
}
