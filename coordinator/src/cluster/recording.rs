//! The cluster's side of a state that outlasts the coordinator: each input says what it has changed of it.

use super::record::{Records, Step, json, keys};
use super::recorder::Recorder;
use super::saved_job::read_jobs;
use super::state::Cluster;

impl Cluster {
    /// Notes what an input has changed.
    pub(super) fn record(&mut self) {
        match &mut self.recorder {
            Some(recorder) => recorder.collect(&mut self.allocations, &mut self.nodes, &mut self.device_uses),
            None => {
                drop(self.nodes.take_changed());
                self.allocations.new_users.clear();
                self.allocations.new_ranks.clear();
                drop(self.allocations.reservations.take_changed());
            }
        }
    }

    /// Returns what the inputs since the last call have changed of what is kept.
    pub fn take_step(&mut self) -> Step {
        self.recorder.as_mut().map(Recorder::take).unwrap_or_default()
    }

    /// Puts what jobs hold by now into their records, as [`Self::all_records`] has them. For tests.
    ///
    /// # Errors
    /// Returns what is damaged.
    pub fn with_holds(records: &Records) -> Result<Records, String> {
        let mut whole = records.clone();
        whole.retain(|key, _| !key.starts_with(keys::HOLDS));
        for job in read_jobs(records)? {
            whole.insert(format!("{}{}", keys::JOBS, job.scheduler.id()), json(&job));
        }
        Ok(whole)
    }

    /// Returns all that is kept, as if nothing had been recorded before. For tests.
    pub fn all_records(&self) -> Records {
        Recorder::all(&self.allocations, &self.nodes, &self.device_uses)
    }
}
