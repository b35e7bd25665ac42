//! Records the changes of each input for the state file.

use super::record::{Records, Step, json, keys};
use super::recorder::Recorder;
use super::saved_job::read_jobs;
use super::state::Cluster;

impl Cluster {
    /// Records the changes of an input.
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

    /// Returns the changes of the records since the last call.
    pub fn take_step(&mut self) -> Step {
        self.recorder.as_mut().map(Recorder::take).unwrap_or_default()
    }

    /// Merges the records of holds into those of jobs, to compare with [`Self::all_records`]. For tests.
    ///
    /// # Errors
    /// Returns the damaged record.
    pub fn with_holds(records: &Records) -> Result<Records, String> {
        let mut whole = records.clone();
        whole.retain(|key, _| !key.starts_with(keys::HOLDS));
        for job in read_jobs(records)? {
            whole.insert(format!("{}{}", keys::JOBS, job.scheduler.id()), json(&job));
        }
        Ok(whole)
    }

    /// Returns all records of the present state. For tests.
    pub fn all_records(&self) -> Records {
        Recorder::all(&self.allocations, &self.nodes, &self.device_uses)
    }
}
