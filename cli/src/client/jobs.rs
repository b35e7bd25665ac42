//! Requests about jobs and policies.

use super::{ATTEMPTS, Coordinator, answered, answered_within};
use crate::failure::Result;
use accord_proto::v1::jobs_client::JobsClient;
use accord_proto::v1::policies_client::PoliciesClient;
use accord_proto::v1::{
    ApplyPolicyReply, ApplyPolicyRequest, ChangeJobRequest, ExplainReply, HistoryReply, HistoryRequest, Job, JobReply,
    JobRequest, PauseReply, PauseRequest, QueueReply, QueueRequest, SuspendJobRequest, UsageBy, UsageReply,
    UsageRequest, WhatIfReply, WhatIfRequest,
};
use std::collections::BTreeSet;
use std::time::Duration;
use tonic::Status;
use tonic::transport::Channel;

const VERSION: u32 = accord_proto::VERSION;

/// The time limit of an answer that needs a forecast.
const FORECAST_LIMIT: Duration = Duration::from_secs(60);

/// The time limit of an answer for which the coordinator waits for agents, 60 s at most.
const SUSPENSION_LIMIT: Duration = Duration::from_secs(75);

/// An action of a user on a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobAct {
    Cancel,
    Hold,
    Release,
}

impl Coordinator {
    fn jobs(&self) -> JobsClient<Channel> {
        JobsClient::new(self.channel.clone())
    }

    /// Returns all pages of the queue, each job once. Starts over if the queue changes meanwhile, a limited number of
    /// times.
    pub(crate) fn queue(&mut self) -> Result<QueueReply> {
        let mut client = self.jobs();
        let mut attempts = ATTEMPTS;
        let mut page = |from: u64, view: u64| -> Result<QueueReply, Status> {
            let request = QueueRequest { version: VERSION, from, view };
            answered_within(&self.runtime, FORECAST_LIMIT, client.queue(request))
        };
        'anew: loop {
            attempts -= 1;
            let mut all = page(0, 0).map_err(|status| self.explain(&status))?;
            let mut seen: BTreeSet<u64> = all.jobs.iter().map(|job| job.job).collect();
            loop {
                let Some(from) = all.next.take() else { return Ok(all) };
                let more = page(from, all.view).map_err(|status| self.explain(&status))?;
                if more.view != all.view && attempts > 0 {
                    continue 'anew;
                }
                all.jobs.extend(more.jobs.into_iter().filter(|job| seen.insert(job.job)));
                all.next = more.next.filter(|next| *next > from);
            }
        }
    }

    /// Changes a job. Returns its new state, or `None` if it has ended.
    pub(crate) fn change_job(&mut self, job: u64, act: JobAct) -> Result<Option<Job>> {
        let (mut client, request) = (self.jobs(), JobRequest { version: VERSION, job });
        let reply = match act {
            JobAct::Cancel => answered(&self.runtime, client.cancel_job(request)),
            JobAct::Hold => answered(&self.runtime, client.hold_job(request)),
            JobAct::Release => answered(&self.runtime, client.release_job(request)),
        };
        reply.map(|reply| reply.job).map_err(|status| self.explain(&status))
    }

    /// Suspends a running job. Returns its new state, or `None` if it has ended.
    pub(crate) fn suspend_job(&mut self, job: u64, reason: &str) -> Result<Option<Job>> {
        let request = SuspendJobRequest { version: VERSION, job, reason: reason.to_owned() };
        let reply = answered_within(&self.runtime, SUSPENSION_LIMIT, self.jobs().suspend_job(request));
        reply.map(|reply| reply.job).map_err(|status| self.explain(&status))
    }

    /// Resumes a suspended job. Returns its new state, or `None` if it has ended.
    pub(crate) fn resume_job(&mut self, job: u64) -> Result<Option<Job>> {
        let request = JobRequest { version: VERSION, job };
        let reply = answered_within(&self.runtime, SUSPENSION_LIMIT, self.jobs().resume_job(request));
        reply.map(|reply| reply.job).map_err(|status| self.explain(&status))
    }

    /// Changes a job's time limit, or moves it to the front of the queue.
    pub(crate) fn set_job(&mut self, job: u64, limit_ms: Option<u64>, first: bool) -> Result<Option<Job>> {
        let request = ChangeJobRequest { version: VERSION, job, limit_ms, first };
        let reply: Result<JobReply, Status> = answered(&self.runtime, self.jobs().change_job(request));
        reply.map(|reply| reply.job).map_err(|status| self.explain(&status))
    }

    /// Returns why a job waits, or why it got its devices.
    pub(crate) fn explain_job(&mut self, job: u64) -> Result<ExplainReply> {
        let request = JobRequest { version: VERSION, job };
        let reply = answered_within(&self.runtime, FORECAST_LIMIT, self.jobs().explain_job(request));
        reply.map_err(|status| self.explain(&status))
    }

    /// Returns when a request of a program on a node would start.
    pub(crate) fn what_if(&mut self, request: String, node_name: String) -> Result<WhatIfReply> {
        let request = WhatIfRequest { version: VERSION, request, node_name };
        let reply = answered_within(&self.runtime, FORECAST_LIMIT, self.jobs().what_if(request));
        reply.map_err(|status| self.explain(&status))
    }

    /// Passes pages of ended jobs, latest first, to `take`, until it returns `false`.
    pub(crate) fn history(&mut self, mut take: impl FnMut(HistoryReply) -> bool) -> Result<()> {
        let (mut client, mut before) = (self.jobs(), None);
        loop {
            let request = HistoryRequest { version: VERSION, before };
            let page = answered(&self.runtime, client.history(request)).map_err(|status| self.explain(&status))?;
            let next = page.next.filter(|next| before.is_none_or(|before| *next < before));
            if !take(page) || next.is_none() {
                return Ok(());
            }
            before = next;
        }
    }

    /// Returns all rows of a usage table.
    pub(crate) fn usage(&mut self, by: UsageBy) -> Result<UsageReply> {
        let mut client = self.jobs();
        let mut all = UsageReply { next: Some(0), ..UsageReply::default() };
        while let Some(from) = all.next.take() {
            let request = UsageRequest { version: VERSION, by: by.into(), from };
            let page = answered(&self.runtime, client.usage(request)).map_err(|status| self.explain(&status))?;
            all.rows.extend(page.rows);
            (all.since_unix_ms, all.unix_ms) = (page.since_unix_ms, page.unix_ms);
            all.next = page.next.filter(|next| *next > from);
        }
        Ok(all)
    }

    /// Stops jobs from starting, or lets them start again.
    pub(crate) fn pause(&mut self, pause: bool) -> Result<PauseReply> {
        let reply = answered(&self.runtime, self.jobs().pause(PauseRequest { version: VERSION, pause }));
        reply.map_err(|status| self.explain(&status))
    }

    /// Applies a policy, or only reports what it would change.
    pub(crate) fn apply_policy(&mut self, policy: String, check_only: bool) -> Result<ApplyPolicyReply> {
        let mut client = PoliciesClient::new(self.channel.clone());
        let request = ApplyPolicyRequest { version: VERSION, policy, check_only };
        let reply = answered_within(&self.runtime, FORECAST_LIMIT, client.apply_policy(request));
        reply.map_err(|status| self.explain(&status))
    }
}
