//! Suspends jobs for administrators, and resumes them.

use super::driver::Driver;
use super::job_errors::no_job;
use accord_cluster::Input;
use accord_scheduler::{Input as Scheduled, JobId, Phase, SuspensionStage};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tonic::Status;

/// The longest wait for the agents' answers. A call that ends earlier says in which state the job is.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
/// The interval at which the job's state is read. A suspension copies gigabytes.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Suspends a running job for an administrator. Returns once it is suspended.
///
/// # Errors
/// Returns `failed_precondition` with the reason if the job can't be suspended.
pub(super) async fn suspend(driver: &Arc<Driver>, id: JobId, by: String, reason: String) -> Result<(), Status> {
    let (phase, stage) = state(driver, id)?;
    let refused = match (phase, stage) {
        (Phase::Running, None) => None,
        (Phase::Waiting, _) => Some(format!("job {id} waits: only running jobs are suspended; see `accord hold`")),
        (Phase::Releasing, _) => Some(format!("job {id} has ended already; see `accord history`")),
        (Phase::Running, Some(stage)) => Some(format!("job {id} {} already; see `accord explain job`", words(stage))),
    };
    if let Some(refused) = refused {
        return Err(Status::failed_precondition(refused));
    }
    driver.input(Input::Schedule(Scheduled::Suspend { job: id, by, reason }));
    driver.durable().await?;
    settled(driver, id, "suspended", |stage| matches!(stage, Some(SuspensionStage::Suspending))).await
}

/// Resumes a suspended job for an administrator. Returns once it runs again, or waits for its devices.
///
/// # Errors
/// Returns `failed_precondition` with the reason if the job can't be resumed.
pub(super) async fn resume(driver: &Arc<Driver>, id: JobId, by: String) -> Result<(), Status> {
    let refused = match state(driver, id)? {
        (Phase::Running, Some(SuspensionStage::Suspended)) => None,
        (Phase::Running, Some(stage)) => Some(format!("job {id} {}; see `accord explain job`", words(stage))),
        (..) => Some(format!("job {id} is not suspended; see `accord queue`")),
    };
    if let Some(refused) = refused {
        return Err(Status::failed_precondition(refused));
    }
    driver.input(Input::Schedule(Scheduled::Resume { job: id, by }));
    driver.durable().await?;
    settled(driver, id, "resumed", |stage| {
        matches!(stage, Some(SuspensionStage::Resuming | SuspensionStage::Suspending))
    })
    .await
}

/// Returns what a job of this stage does.
pub(super) fn words(stage: SuspensionStage) -> &'static str {
    match stage {
        SuspensionStage::Suspending => "is being suspended",
        SuspensionStage::Suspended => "is suspended",
        SuspensionStage::Waiting => "is suspended, and waits for its devices to be resumed",
        SuspensionStage::Resuming => "is being resumed",
        SuspensionStage::Undoing => "goes on, as it can't be suspended",
    }
}

fn state(driver: &Driver, id: JobId) -> Result<(Phase, Option<SuspensionStage>), Status> {
    let found = driver.with_cluster(|cluster| {
        let scheduler = cluster.scheduler();
        scheduler.job(id).map(|job| (job.phase, scheduler.stage_of(id)))
    });
    found.ok_or_else(|| no_job(id.0))
}

/// Waits until the agents have answered, or a while. `goes_on`: the stage is one in which they have not.
async fn settled(
    driver: &Driver,
    id: JobId,
    what: &str,
    goes_on: impl Fn(Option<SuspensionStage>) -> bool,
) -> Result<(), Status> {
    let until = Instant::now() + ANSWERED_WITHIN;
    let is_unsettled = || {
        let stage = driver.with_cluster(|cluster| cluster.scheduler().stage_of(id));
        goes_on(stage)
    };
    while is_unsettled() && Instant::now() < until {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let why = driver.with_cluster(|cluster| cluster.scheduler().suspension_refused(id).map(str::to_owned));
    match why {
        Some(why) => Err(Status::failed_precondition(format!("job {id} can't be {what}: {why}"))),
        None => Ok(()),
    }
}
