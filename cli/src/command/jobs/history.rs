//! `accord history`: ended jobs.

use super::export::export;
use super::paged;
use super::words::{ago, devices, hours};
use crate::client::Coordinator;
use crate::failure::Result;
use crate::job_args::HistoryArgs;
use crate::output::{Table, age, print, show};
use accord_proto::json;
use accord_proto::v1::EndedJob;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs `accord history`.
pub(crate) fn history(args: &HistoryArgs) -> Result<u8> {
    let mut coordinator = Coordinator::required()?;
    if args.export {
        print(&export(&mut coordinator)?);
        return Ok(0);
    }
    let (mut jobs, mut since) = (Vec::new(), 0);
    let enough =
        args.page.page().map(|page| usize::try_from(page.saturating_mul(args.page.rows())).unwrap_or(usize::MAX));
    coordinator.history(|page| {
        since = page.since_unix_ms;
        jobs.extend(page.jobs.into_iter().filter(|job| args.whose.fit(&job.user, &job.account)));
        enough.is_none_or(|enough| jobs.len() < enough)
    })?;
    let displayed = paged(args.page, &jobs)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    if args.json {
        let jobs = displayed.iter().map(ended_json).collect::<Vec<_>>();
        print(&format!("{:#}\n", json!({ "since_unix_ms": since, "jobs": jobs })));
    } else {
        show(&format!("{}\nsince {}\n", table(displayed, now), ago(since, now)));
    }
    Ok(0)
}

fn table(jobs: &[EndedJob], now: u64) -> String {
    let mut table = Table::new(&[
        ">JOB",
        "USER",
        "ACCOUNT",
        "PROGRAM",
        "REQUEST",
        "DEVICES",
        "WAITED",
        "RAN",
        ">DEVICE-HOURS",
        ">USED",
        "ENDED",
        "WHY IT ENDED",
    ]);
    for job in jobs {
        table.row([
            job.job.to_string(),
            job.user.clone(),
            job.account.clone(),
            job.program.clone(),
            job.request.clone(),
            devices(&job.devices),
            age(job.waited_ms),
            if job.started_unix_ms.is_some() { age(job.ran_ms) } else { "-".to_owned() },
            hours(job.device_ms),
            job.busy_ms.map_or_else(|| "unknown".to_owned(), hours),
            ago(job.ended_unix_ms, now),
            job.why.clone(),
        ]);
    }
    if table.is_empty() { "no ended jobs\n".to_owned() } else { table.to_string() }
}

fn ended_json(job: &EndedJob) -> Value {
    json!({
        "job": job.job,
        "user": job.user,
        "account": job.account,
        "program": job.program,
        "request": job.request,
        "asked_unix_ms": job.asked_unix_ms,
        "started_unix_ms": job.started_unix_ms,
        "ended_unix_ms": job.ended_unix_ms,
        "waited_ms": job.waited_ms,
        "ran_ms": job.ran_ms,
        "devices": json::devices(&job.devices),
        "device_ms": job.device_ms,
        "billed_ms": job.billed_ms,
        "why": job.why,
        "busy_ms": job.busy_ms,
        "bytes_in": job.bytes_in,
        "bytes_out": job.bytes_out,
        "events": job.events.iter().map(|event| json!({ "unix_ms": event.unix_ms, "text": event.text })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_never_started_ran_not() {
        let job = EndedJob {
            job: 7,
            user: "eva".into(),
            account: "physics".into(),
            program: "heat".into(),
            request: "2:cpu".into(),
            waited_ms: 60_000,
            ended_unix_ms: 60_000,
            why: "cancelled by eva".into(),
            busy_ms: Some(0),
            ..EndedJob::default()
        };
        let expected = "\
JOB  USER  ACCOUNT  PROGRAM  REQUEST  DEVICES  WAITED  RAN  DEVICE-HOURS   USED  ENDED    WHY IT ENDED
  7  eva   physics  heat     2:cpu    -        60 s    -           0.000  0.000  5 s ago  cancelled by eva
";
        assert_eq!(table(std::slice::from_ref(&job), 65_000), expected);
        assert_eq!(table(&[], 0), "no ended jobs\n");
        assert_eq!(
            (&ended_json(&job)["started_unix_ms"], &ended_json(&job)["waited_ms"]),
            (&Value::Null, &Value::from(60_000))
        );
    }
}
