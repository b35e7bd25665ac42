//! What a job's row shows, copied from the core. Its words are made outside of the core's lock.

use super::super::job_words::{account, devices, state, why_suspended};
use accord_cluster::Cluster;
use accord_proto::bounds::JOB_TEXT_MAX;
use accord_proto::v1;
use accord_scheduler::{DevicesOnNode, JobId, JobView, Millis, Request, WaitReason};
use accord_types::texts::{NAME_MAX, WORDS_MAX, cut};
use std::sync::Arc;

/// The facts of a job.
pub(super) struct JobFacts {
    view: JobView,
    state: v1::JobState,
    request: Option<Arc<Request>>,
    program: String,
    asked_unix_ms: u64,
    devices: Vec<DevicesOnNode>,
    reason: Option<WaitReason>,
    /// Why it is suspended, and since when.
    suspended: Option<(String, Millis)>,
}

impl JobFacts {
    /// Copies a job from the core; `None` if it has ended.
    pub(super) fn copy(cluster: &Cluster, job: JobId) -> Option<Self> {
        let scheduler = cluster.scheduler();
        let view = scheduler.job(job)?;
        let (program, asked_unix_ms) = cluster.program_of(job).unwrap_or_default();
        Some(Self {
            state: state(scheduler, &view),
            request: scheduler.request(job).cloned(),
            program: cut(program, NAME_MAX).to_owned(),
            asked_unix_ms,
            devices: scheduler.by_node(&view.devices),
            reason: scheduler.reason(job),
            suspended: why_suspended(scheduler, job).zip(scheduler.suspension(job).map(|suspension| suspension.since)),
            view,
        })
    }

    /// Returns the job's message, for a coordinator that started at this wall clock time.
    pub(super) fn message(self, started_unix_ms: u64) -> v1::Job {
        let unix_ms = |at: Millis| started_unix_ms.saturating_add(at.0);
        let request = self.request.map(|request| request.to_string()).unwrap_or_default();
        let why = self.reason.map(|why| why.to_string()).or_else(|| self.suspended.clone().map(|(why, _)| why));
        let why = why.unwrap_or_default();
        v1::Job {
            job: self.view.job.0,
            user: cut(&self.view.user, NAME_MAX).to_owned(),
            account: cut(account(&self.view), NAME_MAX).to_owned(),
            request: cut(&request, JOB_TEXT_MAX).to_owned(),
            program: self.program,
            state: self.state.into(),
            asked_unix_ms: self.asked_unix_ms,
            started_unix_ms: self.view.started.map(unix_ms),
            ends_unix_ms: self.view.ends.map(unix_ms),
            devices: devices(self.devices),
            suspended_unix_ms: self.suspended.as_ref().map(|(_, since)| unix_ms(*since)),
            why: cut(&why, WORDS_MAX).to_owned(),
            ..v1::Job::default()
        }
    }
}
