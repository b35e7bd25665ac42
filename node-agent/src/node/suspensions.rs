//! Jobs that the coordinator suspends and resumes.

use super::effect::{AgentReport, Effect};
use super::state::Node;
use super::suspended_jobs::{JOBS_MAX, JobSuspension, Suspensions};
use accord_types::SessionKey;
use std::time::Duration;

impl Node {
    /// Obeys the order to suspend a job, or to resume it. A job that is as ordered is confirmed at once.
    pub fn order_suspension(&mut self, job: SessionKey, suspend: bool) {
        let is_known = self.jobs.has(job);
        let Suspensions(known) = &mut self.suspensions;
        if known.len() >= JOBS_MAX && !known.contains_key(&job) {
            tracing::warn!("a job is one more than the {JOBS_MAX} that may be suspended here");
            return;
        }
        let of_job = known.entry(job).or_default();
        // Nothing of an unknown job is here. A job that was never said to be suspended may have processes whose suspension could
        // not be undone.
        if of_job.runs.is_none() && (suspend && of_job.is_suspended || !is_known) {
            of_job.ordered = None;
            of_job.answer = Some((suspend, Ok(())));
        } else {
            of_job.ordered = Some(suspend);
        }
    }

    /// Records the outcome of [`Effect::Suspend`]. The time of the job's sessions stands still while it is suspended.
    pub fn suspension_ended(&mut self, now: Duration, job: SessionKey, outcome: Result<(), String>) {
        let Some(of_job) = self.suspensions.0.get_mut(&job) else { return };
        let Some(suspend) = of_job.runs.take() else { return };
        if outcome.is_ok() {
            of_job.is_suspended = suspend;
            self.grants.stand_still(now, job, suspend);
            self.kept_changes += 1;
        }
        of_job.answer = Some((suspend, outcome));
    }

    /// Takes over a suspended job of an earlier agent.
    pub(super) fn was_suspended(&mut self, now: Duration, job: SessionKey) {
        self.suspensions.0.insert(job, JobSuspension { is_suspended: true, ..JobSuspension::default() });
        self.grants.stand_still(now, job, true);
    }

    /// Returns the keys of the suspended jobs.
    pub fn suspended_jobs(&self) -> impl Iterator<Item = SessionKey> {
        self.suspensions.0.iter().filter(|(_, known)| known.is_suspended).map(|(job, _)| *job)
    }

    /// Returns the keys of the suspended jobs, and of those that are being suspended or resumed.
    pub fn jobs_with_orders(&self) -> impl Iterator<Item = SessionKey> {
        self.suspensions.0.keys().copied()
    }

    /// Begins orders, and reports the outcomes of earlier ones.
    pub(super) fn attend_suspensions(&mut self, effects: &mut Vec<Effect>) {
        let is_in = self.is_in();
        for (job, known) in &mut self.suspensions.0 {
            if is_in && let Some((suspend, outcome)) = known.answer.take() {
                effects.push(Effect::Send(AgentReport::JobSuspended(*job, suspend, outcome)));
            }
            if known.runs.is_none()
                && let Some(suspend) = known.ordered.take()
            {
                known.runs = Some(suspend);
                effects.push(Effect::Suspend(*job, suspend));
            }
        }
        self.suspensions.0.retain(|_, known| !known.is_over());
    }
}
