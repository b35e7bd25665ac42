//! `accord suspend` and `accord resume`.

use crate::client::Coordinator;
use crate::command::admin::each;
use crate::failure::Result;
use crate::job_args::{ResumeArgs, SuspendArgs};
use crate::output::show;
use accord_proto::v1::{Job, JobState};

/// Runs `accord suspend`. All jobs are tried; the first refusal is the error.
pub(crate) fn suspend(args: &SuspendArgs) -> Result<u8> {
    let mut coordinator = Coordinator::required()?;
    let reason = args.reason.as_deref().unwrap_or_default();
    each(&args.jobs, |&job| {
        let after = coordinator.suspend_job(job, reason)?;
        show(&outcome(job, after.as_ref()));
        Ok(())
    })
}

/// Runs `accord resume`. All jobs are tried; the first refusal is the error.
pub(crate) fn resume(args: &ResumeArgs) -> Result<u8> {
    let mut coordinator = Coordinator::required()?;
    each(&args.jobs, |&job| {
        let after = coordinator.resume_job(job)?;
        show(&outcome(job, after.as_ref()));
        Ok(())
    })
}

/// Returns a job's state in words.
fn outcome(job: u64, after: Option<&Job>) -> String {
    match after.map_or(JobState::Unspecified, Job::state) {
        JobState::Running => format!("job {job} runs\n"),
        JobState::Suspending => format!("job {job} is being suspended; see accord queue\n"),
        JobState::Resuming => format!("job {job} is being resumed; see accord queue\n"),
        JobState::Suspended => {
            let why = after.map_or("", |after| after.why.as_str());
            format!("job {job} is suspended: {why}\n")
        }
        _ => format!("job {job} has ended\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_names_the_state() {
        let job = |state: JobState, why: &str| Job { state: state.into(), why: why.into(), ..Job::default() };
        let waits = job(JobState::Suspended, "it waits for its devices");
        assert_eq!(outcome(3, Some(&waits)), "job 3 is suspended: it waits for its devices\n");
        assert_eq!(outcome(3, Some(&job(JobState::Running, ""))), "job 3 runs\n");
        assert_eq!(outcome(3, None), "job 3 has ended\n");
    }
}
