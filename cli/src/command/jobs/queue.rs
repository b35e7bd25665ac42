//! `accord queue`: running and waiting jobs.

use super::words::{ago, ahead, busy_part, devices};
use super::{paged, start_text};
use crate::client::Coordinator;
use crate::command::reservation;
use crate::failure::Result;
use crate::job_args::QueueArgs;
use crate::output::{Table, bytes, count, print, show};
use accord_proto::json;
use accord_proto::v1::{Job, JobState, QueueReply};
use serde_json::{Value, json};

/// Runs `accord queue`.
pub(crate) fn queue(args: &QueueArgs) -> Result<u8> {
    let mut coordinator = Coordinator::required()?;
    let mut queue = coordinator.queue()?;
    let (reservations, unix_ms) = coordinator.reservations()?;
    queue.jobs.retain(|job| args.whose.fit(&job.user, &job.account));
    let jobs = paged(args.page, &queue.jobs)?;
    if args.json {
        let mut displayed = as_json(&queue, jobs);
        displayed["reservations"] = reservations.iter().map(reservation::row_json).collect();
        print(&format!("{displayed:#}\n"));
    } else {
        show(&format!("{}{}", tables(&queue, jobs), reservation::lines(&reservations, unix_ms)));
    }
    Ok(0)
}

fn tables(queue: &QueueReply, jobs: &[Job]) -> String {
    let mut text = String::new();
    if queue.paused {
        text.push_str("no job starts: an administrator has paused all\n\n");
    }
    let now = queue.unix_ms;
    let mut running = Table::new(&[
        ">JOB", "USER", "ACCOUNT", "PROGRAM", "REQUEST", "STARTED", "ENDS", ">BUSY", ">IN", ">OUT", "DEVICES",
    ]);
    let mut waiting =
        Table::new(&[">JOB", "USER", "ACCOUNT", "PROGRAM", "REQUEST", "ASKED", ">BEFORE", "STARTS", "WHY IT WAITS"]);
    for job in jobs {
        let head =
            [job.job.to_string(), job.user.clone(), job.account.clone(), job.program.clone(), job.request.clone()];
        if !matches!(job.state(), JobState::Waiting | JobState::OnHold) {
            let ends = match job.ends_unix_ms {
                _ if job.state() == JobState::Releasing => "being cleared".to_owned(),
                _ if job.suspended_unix_ms.is_some() => suspended(job, now),
                Some(at) => ahead(at, now),
                None => "-".to_owned(),
            };
            let started = job.started_unix_ms.map_or_else(|| "-".to_owned(), |at| ago(at, now));
            let busy = match job.busy_ms {
                Some(busy) => busy_part(job.held_ms, 0, busy),
                None => busy_part(job.held_ms, job.held_ms, 0),
            };
            let (bytes_in, bytes_out) = (bytes(job.bytes_in), bytes(job.bytes_out));
            running.row(head.into_iter().chain([started, ends, busy, bytes_in, bytes_out, devices(&job.devices)]));
        } else {
            let held = job.state() == JobState::OnHold;
            let before = if held { "-".to_owned() } else { job.position.to_string() };
            let starts = if held { "-".to_owned() } else { start_text(job.starts_unix_ms, job.reserved, now) };
            waiting.row(head.into_iter().chain([ago(job.asked_unix_ms, now), before, starts, job.why.clone()]));
        }
    }
    match (running.is_empty(), waiting.is_empty()) {
        (true, true) => text.push_str("no jobs\n"),
        (false, true) => text.push_str(&format!("{running}")),
        (true, false) => text.push_str(&format!("{waiting}")),
        (false, false) => text.push_str(&format!("{running}\n{waiting}")),
    }
    let others = [(queue.others_running, "runs", "run"), (queue.others_waiting, "waits", "wait")];
    let others: Vec<String> = others
        .into_iter()
        .filter(|(jobs, ..)| *jobs > 0)
        .map(|(jobs, one, many)| {
            format!("{} of other users {}", count(jobs.into(), "job"), if jobs == 1 { one } else { many })
        })
        .collect();
    if !others.is_empty() {
        text.push_str(&format!("\n{}\n", others.join(", ")));
    }
    text
}

/// Returns the state of a suspended job in place of its end.
fn suspended(job: &Job, now: u64) -> String {
    match job.state() {
        JobState::Suspending => "being suspended".to_owned(),
        JobState::Resuming => "being resumed".to_owned(),
        _ => {
            let since = ago(job.suspended_unix_ms.unwrap_or(now), now);
            let goes_on = job.starts_unix_ms.map(|at| format!(", goes on {}", ahead(at, now)));
            format!("suspended {since}{}", goes_on.unwrap_or_default())
        }
    }
}

fn as_json(queue: &QueueReply, jobs: &[Job]) -> Value {
    json!({
        "paused": queue.paused,
        "unix_ms": queue.unix_ms,
        "others_running": queue.others_running,
        "others_waiting": queue.others_waiting,
        "jobs": jobs.iter().map(job_json).collect::<Vec<_>>(),
    })
}

/// Returns a job as JSON.
pub(super) fn job_json(job: &Job) -> Value {
    let waits = matches!(job.state(), JobState::Waiting | JobState::OnHold);
    json!({
        "job": job.job,
        "user": job.user,
        "account": job.account,
        "program": job.program,
        "request": job.request,
        "state": json::job_state(job.state()),
        "asked_unix_ms": job.asked_unix_ms,
        "started_unix_ms": job.started_unix_ms,
        "ends_unix_ms": job.ends_unix_ms,
        "devices": json::devices(&job.devices),
        "position": (job.state() == JobState::Waiting).then_some(job.position),
        "why": (!job.why.is_empty() || waits).then_some(&job.why),
        "suspended_unix_ms": job.suspended_unix_ms,
        "starts_unix_ms": job.starts_unix_ms,
        "reserved": job.reserved,
        "held_ms": (!waits).then_some(job.held_ms),
        "busy_ms": job.busy_ms,
        "bytes_in": (!waits).then_some(job.bytes_in),
        "bytes_out": (!waits).then_some(job.bytes_out),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_two_tables_and_a_count_of_others() {
        let job = |job, state: JobState| Job {
            job,
            user: "eva".into(),
            account: "physics".into(),
            program: "heat".into(),
            request: "2:cpu".into(),
            state: state.into(),
            asked_unix_ms: 0,
            ..Job::default()
        };
        let waiting = Job {
            position: 1,
            why: "it needs 2 of cpu, and none is free for as long as its limit".into(),
            starts_unix_ms: Some(720_000),
            reserved: true,
            ..job(18, JobState::Waiting)
        };
        let queue = QueueReply {
            jobs: vec![
                Job { started_unix_ms: Some(1_000), ends_unix_ms: Some(4_000), ..job(17, JobState::Running) },
                waiting,
                job(19, JobState::OnHold),
            ],
            others_waiting: 3,
            others_running: 1,
            unix_ms: 2_000,
            ..QueueReply::default()
        };
        let expected = "\
JOB  USER  ACCOUNT  PROGRAM  REQUEST  STARTED  ENDS    BUSY   IN  OUT  DEVICES
 17  eva   physics  heat     2:cpu    1 s ago  in 2 s     -  0 B  0 B  -

JOB  USER  ACCOUNT  PROGRAM  REQUEST  ASKED    BEFORE  STARTS               WHY IT WAITS
 18  eva   physics  heat     2:cpu    2 s ago       1  in 11 min, reserved  it needs 2 of cpu, and none is free for as long as its limit
 19  eva   physics  heat     2:cpu    2 s ago       -  -

1 job of other users runs, 3 jobs of other users wait
";
        assert_eq!(tables(&queue, &queue.jobs), expected);
        assert_eq!(
            tables(&QueueReply { paused: true, ..QueueReply::default() }, &[]),
            "no job starts: an administrator has paused all\n\nno jobs\n"
        );
        let displayed = as_json(&queue, &queue.jobs);
        assert_eq!(displayed["jobs"][1]["why"], "it needs 2 of cpu, and none is free for as long as its limit");
        assert_eq!(
            (&displayed["jobs"][0]["position"], &displayed["jobs"][1]["position"]),
            (&Value::Null, &Value::from(1))
        );
    }
}
