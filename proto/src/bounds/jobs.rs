//! Bounds of the messages about jobs and policies.

use super::{Bounded, NODE_DEVICES_MAX, PAGE_ITEMS_MAX, all, within};
use crate::convert::Malformed;
use crate::v1;
use accord_types::texts::{NAME_MAX, WORDS_MAX};

/// Longest text of a request, in bytes.
pub const JOB_TEXT_MAX: usize = 32 << 10;
/// Longest text of a request in a what-if query, in bytes.
pub const WHAT_IF_TEXT_MAX: usize = 8 << 10;
/// Most lines of an explanation.
pub const EXPLANATION_LINES_MAX: usize = 64;
/// Longest text of a policy, in bytes.
pub const POLICY_TEXT_MAX: usize = 4 << 20;
/// Longest message with a policy, in bytes.
pub const POLICY_REQUEST_MAX: usize = POLICY_TEXT_MAX + (1 << 10);
/// Most events of a job.
pub const JOB_EVENTS_MAX: usize = 16;
/// Most findings in a policy.
pub const POLICY_FINDINGS_MAX: usize = 256;
/// Most changes of a policy for jobs.
pub const POLICY_CHANGES_MAX: usize = 256;

impl Bounded for v1::JobDevices {
    fn check(&self) -> Result<(), Malformed> {
        let Self { node_name, model, ordinals, share_milli: _, memory: _, exclusive: _ } = self;
        within(node_name.len(), NAME_MAX, "JobDevices.node_name is too long")?;
        within(model.len(), NAME_MAX, "JobDevices.model is too long")?;
        within(ordinals.len(), NODE_DEVICES_MAX, "JobDevices.ordinals is too long")
    }
}

impl Bounded for v1::Job {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            job: _,
            user,
            account,
            request,
            program,
            state: _,
            asked_unix_ms: _,
            started_unix_ms: _,
            ends_unix_ms: _,
            devices,
            position: _,
            why,
            starts_unix_ms: _,
            reserved: _,
            held_ms: _,
            busy_ms: _,
            bytes_in: _,
            bytes_out: _,
            suspended_unix_ms: _,
        } = self;
        within(user.len(), NAME_MAX, "Job.user is too long")?;
        within(account.len(), NAME_MAX, "Job.account is too long")?;
        within(request.len(), JOB_TEXT_MAX, "Job.request is too long")?;
        within(program.len(), NAME_MAX, "Job.program is too long")?;
        all(devices, PAGE_ITEMS_MAX, "Job.devices is too long")?;
        within(why.len(), WORDS_MAX, "Job.why is too long")
    }
}

impl Bounded for v1::QueueReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { view: _, jobs, next: _, others_running: _, others_waiting: _, paused: _, unix_ms: _ } = self;
        all(jobs, PAGE_ITEMS_MAX, "QueueReply.jobs is too long")
    }
}

impl Bounded for v1::SuspendJobRequest {
    fn check(&self) -> Result<(), Malformed> {
        let Self { version: _, job: _, reason } = self;
        within(reason.len(), WORDS_MAX, "SuspendJobRequest.reason is too long")
    }
}

impl Bounded for v1::JobReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { job } = self;
        job.check()
    }
}

impl Bounded for v1::ExplainReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { job, lines, unix_ms: _ } = self;
        job.check()?;
        within(lines.len(), EXPLANATION_LINES_MAX, "ExplainReply.lines is too long")?;
        lines
            .iter()
            .try_for_each(|line| within(line.len(), WORDS_MAX, "ExplainReply.lines has a line that is too long"))
    }
}

impl Bounded for v1::WhatIfRequest {
    fn check(&self) -> Result<(), Malformed> {
        let Self { version: _, request, node_name } = self;
        within(request.len(), WHAT_IF_TEXT_MAX, "WhatIfRequest.request is too long")?;
        within(node_name.len(), NAME_MAX, "WhatIfRequest.node_name is too long")
    }
}

impl Bounded for v1::WhatIfReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { outcome: _, account, why, devices, position: _, starts_unix_ms: _, reserved: _, unix_ms: _ } = self;
        within(account.len(), NAME_MAX, "WhatIfReply.account is too long")?;
        within(why.len(), WORDS_MAX, "WhatIfReply.why is too long")?;
        all(devices, PAGE_ITEMS_MAX, "WhatIfReply.devices is too long")
    }
}

impl Bounded for v1::EndedJob {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            job: _,
            user,
            account,
            request,
            program,
            asked_unix_ms: _,
            started_unix_ms: _,
            ended_unix_ms: _,
            waited_ms: _,
            ran_ms: _,
            devices,
            device_ms: _,
            billed_ms: _,
            why,
            busy_ms: _,
            bytes_in: _,
            bytes_out: _,
            events,
        } = self;
        all(events, JOB_EVENTS_MAX, "EndedJob.events is too long")?;
        within(user.len(), NAME_MAX, "EndedJob.user is too long")?;
        within(account.len(), NAME_MAX, "EndedJob.account is too long")?;
        within(request.len(), JOB_TEXT_MAX, "EndedJob.request is too long")?;
        within(program.len(), NAME_MAX, "EndedJob.program is too long")?;
        all(devices, PAGE_ITEMS_MAX, "EndedJob.devices is too long")?;
        within(why.len(), WORDS_MAX, "EndedJob.why is too long")
    }
}

impl Bounded for v1::HistoryReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { jobs, next: _, since_unix_ms: _ } = self;
        all(jobs, PAGE_ITEMS_MAX, "HistoryReply.jobs is too long")
    }
}

impl Bounded for v1::JobEvent {
    fn check(&self) -> Result<(), Malformed> {
        let Self { unix_ms: _, text } = self;
        within(text.len(), WORDS_MAX, "JobEvent.text is too long")
    }
}

impl Bounded for v1::UsageRow {
    fn check(&self) -> Result<(), Malformed> {
        let Self { name, device_ms: _, billed_ms: _, jobs: _, busy_ms: _, unknown_ms: _, bytes_in: _, bytes_out: _ } =
            self;
        within(name.len(), NAME_MAX, "UsageRow.name is too long")
    }
}

impl Bounded for v1::UsageReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { rows, next: _, since_unix_ms: _, unix_ms: _ } = self;
        all(rows, PAGE_ITEMS_MAX, "UsageReply.rows is too long")
    }
}

impl Bounded for v1::ApplyPolicyRequest {
    fn check(&self) -> Result<(), Malformed> {
        let Self { version: _, policy, check_only: _ } = self;
        within(policy.len(), POLICY_TEXT_MAX, "ApplyPolicyRequest.policy is too long")
    }
}

impl Bounded for v1::PolicyFinding {
    fn check(&self) -> Result<(), Malformed> {
        let Self { line: _, column: _, message, marked } = self;
        within(message.len(), WORDS_MAX, "PolicyFinding.message is too long")?;
        within(marked.len(), WORDS_MAX, "PolicyFinding.marked is too long")
    }
}

impl Bounded for v1::PolicyChange {
    fn check(&self) -> Result<(), Malformed> {
        let Self { line: _, column: _, message } = self;
        within(message.len(), WORDS_MAX, "PolicyChange.message is too long")
    }
}

impl Bounded for v1::ApplyPolicyReply {
    fn check(&self) -> Result<(), Malformed> {
        let Self { findings, changes, more_changes: _, policy_version: _ } = self;
        all(findings, POLICY_FINDINGS_MAX, "ApplyPolicyReply.findings is too long")?;
        all(changes, POLICY_CHANGES_MAX, "ApplyPolicyReply.changes is too long")
    }
}
