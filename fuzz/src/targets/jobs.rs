//! Messages about jobs: requests of tools to the coordinator, its answers, and records of agents.

use accord_proto::bounds::{Bounded, read};
use accord_proto::v1;
use accord_types::{HeldDevice, JobGrant, JobToken, SessionId, SessionKey};
use prost::Message;

/// Decodes a message of one kind, then encodes the result and decodes that again.
pub(super) fn messages(kind: u8, bytes: &[u8]) {
    match kind % 23 {
        0 => round::<v1::QueueRequest>(bytes),
        1 => round::<v1::QueueReply>(bytes),
        2 => round::<v1::JobRequest>(bytes),
        3 => round::<v1::JobReply>(bytes),
        4 => round::<v1::ExplainReply>(bytes),
        5 => round::<v1::WhatIfRequest>(bytes),
        6 => round::<v1::WhatIfReply>(bytes),
        7 => round::<v1::HistoryRequest>(bytes),
        8 => round::<v1::HistoryReply>(bytes),
        9 => round::<v1::UsageRequest>(bytes),
        10 => round::<v1::UsageReply>(bytes),
        11 => round::<v1::ChangeJobRequest>(bytes),
        12 => round::<v1::PauseRequest>(bytes),
        13 => round::<v1::PauseReply>(bytes),
        14 => round::<v1::ApplyPolicyRequest>(bytes),
        15 => round::<v1::ApplyPolicyReply>(bytes),
        16 => round::<v1::JobReleased>(bytes),
        17 => round::<v1::ReleaseJob>(bytes),
        18 => {
            let text = String::from_utf8_lossy(bytes);
            if let Ok(token) = text.parse::<JobToken>() {
                assert_eq!(token.to_text().parse(), Ok(token));
            }
        }
        20 => round::<v1::SuspendJobRequest>(bytes),
        21 => round::<v1::SuspendJob>(bytes),
        22 => round::<v1::JobSuspended>(bytes),
        _ => {
            if let Ok(grant) = read::<v1::JobGrant>(bytes)
                && let Ok(grant) = JobGrant::try_from(grant)
            {
                assert_eq!(JobGrant::try_from(v1::JobGrant::from(grant.clone())), Ok(grant));
            }
        }
    }
}

fn round<M: Message + Bounded + Default>(bytes: &[u8]) {
    if let Ok(message) = read::<M>(bytes) {
        let again = message.encode_to_vec();
        drop(message);
        assert_eq!(read::<M>(&again).map(|message| message.encode_to_vec()), Ok(again));
    }
}

/// Messages with their kinds.
pub(super) fn seeds() -> Vec<(u8, Vec<u8>)> {
    let devices = v1::JobDevices {
        node_name: "h3".into(),
        model: "nvidia/h200".into(),
        ordinals: vec![0, 1],
        share_milli: 500,
        memory: 1 << 30,
        exclusive: true,
    };
    let job = v1::Job {
        job: 17,
        user: "ada".into(),
        account: "site/lab".into(),
        request: "2:nvidia limit=2h".into(),
        program: "app".into(),
        state: v1::JobState::Waiting.into(),
        started_unix_ms: Some(5),
        devices: vec![devices.clone()],
        why: "devices".into(),
        ..v1::Job::default()
    };
    let events = vec![v1::JobEvent { unix_ms: 4, text: "it ends in 2 min".into() }];
    let ended =
        v1::EndedJob { job: 17, devices: vec![devices.clone()], why: "done".into(), events, ..v1::EndedJob::default() };
    let queue = v1::QueueReply { view: 1, jobs: vec![job.clone()], next: Some(2), ..v1::QueueReply::default() };
    let explained = v1::ExplainReply { job: Some(job.clone()), lines: vec!["why".into()], unix_ms: 1 };
    let what_if = v1::WhatIfReply { outcome: 2, devices: vec![devices], position: 1, ..v1::WhatIfReply::default() };
    let row =
        v1::UsageRow { name: "ada".into(), device_ms: 1, billed_ms: 2, jobs: 3, busy_ms: 1, ..v1::UsageRow::default() };
    let usage = v1::UsageReply { rows: vec![row], next: Some(1), since_unix_ms: 1, unix_ms: 2 };
    let finding = v1::PolicyFinding { line: 1, column: 2, message: "no account".into(), marked: "^".into() };
    let applied = v1::ApplyPolicyReply {
        findings: vec![finding],
        changes: vec![v1::PolicyChange { line: 3, column: 1, message: "job 17 waits".into() }],
        more_changes: 1,
        policy_version: 2,
    };
    let token = JobToken { job: 17, key: SessionKey(std::array::from_fn(|at| (at * at * 7 + 1) as u8)) };
    let grant = JobGrant {
        token,
        user: "ada".into(),
        account: "site/lab".into(),
        ends_in_ms: Some(1),
        devices: vec![HeldDevice {
            ordinal: 1,
            milli: 500,
            memory: 1 << 30,
            exclusive: false,
            milli_cores: 500,
            host_memory: 3,
        }],
        sessions: vec![SessionId(7)],
        is_suspended: true,
    };
    let asked = v1::WhatIfRequest { version: 1, request: "2:nvidia".into(), node_name: "h3".into() };
    let policy = v1::ApplyPolicyRequest { version: 1, policy: "[account.a]\n".into(), check_only: true };
    vec![
        (0, v1::QueueRequest { version: 1, from: 2, view: 3 }.encode_to_vec()),
        (1, queue.encode_to_vec()),
        (2, v1::JobRequest { version: 1, job: 17 }.encode_to_vec()),
        (3, v1::JobReply { job: Some(job) }.encode_to_vec()),
        (4, explained.encode_to_vec()),
        (5, asked.encode_to_vec()),
        (6, what_if.encode_to_vec()),
        (8, v1::HistoryReply { jobs: vec![ended], next: Some(1), since_unix_ms: 1 }.encode_to_vec()),
        (10, usage.encode_to_vec()),
        (11, v1::ChangeJobRequest { version: 1, job: 17, limit_ms: Some(1), first: true }.encode_to_vec()),
        (14, policy.encode_to_vec()),
        (15, applied.encode_to_vec()),
        (18, token.to_text().into_bytes()),
        (19, v1::JobGrant::from(grant).encode_to_vec()),
        (20, v1::SuspendJobRequest { version: 1, job: 17, reason: "a drill".into() }.encode_to_vec()),
        (22, v1::JobSuspended { job: vec![7; 32], suspend: true, why: "no memory".into() }.encode_to_vec()),
    ]
}
