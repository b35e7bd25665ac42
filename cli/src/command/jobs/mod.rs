//! Commands of users and administrators for jobs.

mod explain;
mod export;
mod history;
mod queue;
mod suspend;
mod usage;
mod words;

pub(crate) use explain::{explain, what_if};
pub(crate) use history::history;
pub(crate) use queue::queue;
pub(crate) use suspend::{resume, suspend};
pub(crate) use usage::usage;
pub(crate) use words::{ago, devices};

use super::admin::each;
use crate::client::{Coordinator, JobAct};
use crate::failure::{Failure, Result};
use crate::job_args::{ChangeArgs, JobsArgs, PageArgs, PauseArgs};
use crate::output::{count, print, show};
use accord_proto::v1::{Job, JobState};
use words::ahead;

/// Runs `accord cancel`. All jobs are tried; the first refusal is the error.
pub(crate) fn cancel(args: &JobsArgs) -> Result<u8> {
    act(args, JobAct::Cancel)
}

/// Runs `accord hold`. All jobs are tried; the first refusal is the error.
pub(crate) fn hold(args: &JobsArgs) -> Result<u8> {
    act(args, JobAct::Hold)
}

/// Runs `accord release`. All jobs are tried; the first refusal is the error.
pub(crate) fn release(args: &JobsArgs) -> Result<u8> {
    act(args, JobAct::Release)
}

fn act(args: &JobsArgs, act: JobAct) -> Result<u8> {
    let mut coordinator = Coordinator::required()?;
    each(&args.jobs, |&job| {
        let after = coordinator.change_job(job, act)?;
        show(&done(job, act, after.as_ref()));
        Ok(())
    })
}

/// Returns the outcome of an action on a job, in words.
fn done(job: u64, act: JobAct, after: Option<&Job>) -> String {
    let state = after.map_or(JobState::Unspecified, Job::state);
    match (act, state) {
        (JobAct::Cancel, JobState::Unspecified) => format!("job {job} is withdrawn\n"),
        (JobAct::Cancel, _) => format!("job {job} is ended; its devices are free once their agents confirm it\n"),
        (JobAct::Hold, _) => format!("job {job} is on hold; accord release {job} lets it start\n"),
        (JobAct::Release, JobState::Running) => format!("job {job} runs\n"),
        (JobAct::Release, _) => {
            let place = after.map_or_else(String::new, |after| {
                format!(": {}, {} before it", after.why, count(after.position.into(), "job"))
            });
            format!("job {job} waits{place}\n")
        }
    }
}

/// Runs `accord change`.
pub(crate) fn change(args: &ChangeArgs) -> Result<u8> {
    let mut coordinator = Coordinator::required()?;
    let limit_ms = args.limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    each(&args.jobs, |&job| {
        let after = coordinator.set_job(job, limit_ms, args.first)?;
        let (limit, first) =
            (limit_ms.map(accord_scheduler::units::time_text), args.first.then_some("is before all others"));
        let limit = limit.map(|limit| format!("has a limit of {limit}"));
        let printed: Vec<String> = limit.into_iter().chain(first.map(str::to_owned)).collect();
        let waits = if after.is_some_and(|after| after.state() == JobState::Running) { " and runs" } else { "" };
        show(&format!("job {job} {}{waits}\n", printed.join(" and ")));
        Ok(())
    })
}

/// Runs `accord pause`.
pub(crate) fn pause(args: &PauseArgs) -> Result<u8> {
    let reply = Coordinator::required()?.pause(!args.undo)?;
    let (waiting, running) = (count(reply.waiting.into(), "job"), count(reply.running.into(), "job"));
    let start = if args.undo { "jobs start again" } else { "no job starts until accord pause --undo" };
    print(&format!("{start}: waiting {waiting}, running {running}\n"));
    Ok(0)
}

/// Returns the rows of a page, or an error with the number of pages.
fn paged<T>(page: PageArgs, rows: &[T]) -> Result<&[T]> {
    match page.of(rows.len()) {
        Some(displayed) => Ok(&rows[displayed]),
        None => {
            let pages = u64::try_from(rows.len()).unwrap_or(u64::MAX).div_ceil(page.rows()).max(1);
            let pages = count(pages, "page");
            Err(Failure::usage(format!(
                "--page {} is beyond the last one: there are {pages}",
                page.page().unwrap_or(0)
            )))
        }
    }
}

/// Returns when a job starts, for tables.
fn start_text(starts_unix_ms: Option<u64>, reserved: bool, unix_ms: u64) -> String {
    match starts_unix_ms {
        Some(at) if reserved => format!("{}, reserved", ahead(at, unix_ms)),
        Some(at) => ahead(at, unix_ms),
        None => "not known".to_owned(),
    }
}
