//! Invariants of jobs, checked after each step.

use super::allocations::Allocations;
use super::job::Stage;
use accord_scheduler::{JobId, SuspensionStage};
use accord_types::NodeId;
use std::collections::BTreeSet;

impl Allocations {
    /// Checks the allocations, see [`super::Cluster::check_invariants`].
    pub(super) fn check(&self) -> Result<(), String> {
        self.scheduler().check_invariants()?;
        if !self.inputs.is_empty() {
            return Err(format!("the scheduler has not had {:?}", self.inputs));
        }
        for (id, job) in self.jobs.iter() {
            if self.keys.get(&job.token.key) != Some(id) {
                return Err(format!("job {id} is not found by its key"));
            }
            if self.scheduler().job(*id).is_none() {
                return Err(format!("the scheduler has forgotten job {id}"));
            }
            if !job.openers.keys().all(|client| self.waiting.get(client) == Some(id)) {
                return Err(format!("programs wait for job {id} that are not known to"));
            }
            if !job.sessions.iter().all(|session| self.sessions.get(session) == Some(id)) {
                return Err(format!("sessions of job {id} are not known as such"));
            }
            let is_idle = matches!(job.stage, Stage::Running(_)) && !job.is_kept();
            if is_idle != job.idle_until.is_some() || job.idle_until.is_some_and(|at| !self.idle.contains(&(at, *id))) {
                return Err(format!("job {id} is {:?} and ends without a keeper at {:?}", job.stage, job.idle_until));
            }
            let held = job.devices().iter().filter(|leased| leased.exclusive && job.uses(leased.device.node));
            let is_parted = self.scheduler().stage_of(*id).is_some_and(SuspensionStage::is_without_devices);
            let held = held.filter(|_| !is_parted);
            if let Some(lost) = held.into_iter().find(|leased| self.exclusive.get(&leased.device) != Some(id)) {
                return Err(format!("{} is not kept for job {id}", lost.device));
            }
        }
        let by_node: BTreeSet<(NodeId, JobId)> =
            self.jobs.iter().flat_map(|(id, job)| job.nodes().map(|node| (node, *id))).collect();
        let kept: Vec<(NodeId, JobId)> =
            self.by_node.iter().flat_map(|(node, jobs)| jobs.iter().map(|id| (*node, *id))).collect();
        if !kept.iter().eq(&by_node) || self.by_node.values().any(BTreeSet::is_empty) {
            return Err(format!("{by_node:?} follows from the jobs, and kept is {:?}", self.by_node));
        }
        let openers: usize = self.jobs.values().map(|job| job.openers.len()).sum();
        let sessions: usize = self.jobs.values().map(|job| job.sessions.len()).sum();
        let counts = (self.waiting.len(), self.sessions.len(), self.keys.len());
        if counts != (openers, sessions, self.jobs.len()) {
            return Err(format!("{counts:?} of {openers} openers, {sessions} sessions and {} jobs", self.jobs.len()));
        }
        Ok(())
    }
}
