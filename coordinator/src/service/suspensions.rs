//! Suspends jobs for their owners and for administrators, and resumes them.

use super::driver::Driver;
use super::job_errors::no_job;
use super::viewer::Viewer;
use accord_cluster::{Cluster, Input};
use accord_scheduler::policy::SuspendBy;
use accord_scheduler::units::long_time_text;
use accord_scheduler::{Input as Scheduled, JobId, Phase, SuspensionCause, SuspensionStage};
use accord_telemetry::log::AUDIT;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tonic::Status;

/// The longest wait for the agents' answers. A call that ends earlier says in which state the job is.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
/// The interval at which the job's state is read. A suspension copies gigabytes.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The right by which a caller suspends a job or resumes it.
pub(super) enum Right {
    /// That of its owner, by name.
    Owner(String),
    /// That of an administrator, by name.
    Administrator(String),
}

impl Right {
    fn into_name(self) -> String {
        match self {
            Self::Owner(name) | Self::Administrator(name) => name,
        }
    }
}

/// Returns the right of a caller who may change a job.
///
/// # Errors
/// Returns `permission_denied` to an owner if the policy lets only administrators suspend jobs.
pub(super) fn right_of(driver: &Driver, viewer: Viewer, id: JobId) -> Result<Right, Status> {
    let Viewer { called, user, is_admin } = viewer;
    match user.filter(|_| !is_admin) {
        None => Ok(Right::Administrator(called)),
        Some(user) => match driver.with_cluster(Cluster::suspend_by) {
            SuspendBy::Owners => Ok(Right::Owner(user)),
            SuspendBy::Administrators => {
                tracing::warn!(target: AUDIT, "{called} may not suspend or resume job {id}");
                Err(Status::permission_denied(format!(
                    "the policy lets only administrators suspend and resume jobs, such as job {id}: ask one of them"
                )))
            }
        },
    }
}

/// Suspends a running job. Returns once it is suspended. An administrator may take over the suspension of an owner or a job.
///
/// # Errors
/// Returns `failed_precondition` with the reason if the job can't be suspended.
pub(super) async fn suspend(driver: &Arc<Driver>, id: JobId, by: Right, reason: String) -> Result<(), Status> {
    let SuspensionState { phase, suspension, owner_waits_ms } = state(driver, id)?;
    let refused = match (phase, &suspension, &by) {
        (Phase::Running, None, Right::Owner(_)) if owner_waits_ms > 0 => Some(format!(
            "job {id} went on a moment ago: suspend it again in {}",
            long_time_text(owner_waits_ms.next_multiple_of(1_000))
        )),
        (Phase::Running, None, _) => None,
        (Phase::Running, Some((stage, cause)), Right::Administrator(_))
            if *cause != SuspensionCause::Administrator && stage.may_be_taken_over() =>
        {
            None
        }
        (Phase::Waiting, ..) => Some(format!("job {id} waits: only running jobs are suspended; see `accord hold`")),
        (Phase::Releasing, ..) => Some(format!("job {id} has ended already; see `accord history`")),
        (Phase::Running, Some((stage, _)), _) => {
            Some(format!("job {id} {} already; see `accord explain job`", words(*stage)))
        }
    };
    if let Some(refused) = refused {
        return Err(Status::failed_precondition(refused));
    }
    driver.input(Input::Schedule(Scheduled::Suspend { job: id, by: by.into_name(), reason }));
    driver.durable().await?;
    settled(driver, id, "suspended", |stage| matches!(stage, Some(SuspensionStage::Suspending))).await
}

/// Resumes a suspended job. Returns once it runs again, or waits for its devices. Owners resume what they have suspended.
///
/// # Errors
/// Returns `failed_precondition` with the reason if the job can't be resumed, and `permission_denied` to an owner who has not suspended it.
pub(super) async fn resume(driver: &Arc<Driver>, id: JobId, by: Right) -> Result<(), Status> {
    let SuspensionState { phase, suspension, .. } = state(driver, id)?;
    let Some((stage, cause)) = suspension.filter(|_| phase == Phase::Running) else {
        return Err(Status::failed_precondition(format!("job {id} is not suspended; see `accord queue`")));
    };
    match (&by, cause) {
        (Right::Owner(_), SuspensionCause::Administrator) => {
            let cause = format!("an administrator has suspended job {id}, and only an administrator resumes it");
            return Err(Status::permission_denied(cause));
        }
        (Right::Owner(_), SuspensionCause::Preemption { by }) => {
            let cause = format!("job {id} gave way to job {by}, and goes on by itself; see `accord explain job {id}`");
            return Err(Status::permission_denied(cause));
        }
        (Right::Owner(_), SuspensionCause::Owner) | (Right::Administrator(_), _) => {}
    }
    let may_hasten = matches!(by, Right::Administrator(_)) && cause != SuspensionCause::Administrator;
    if stage != SuspensionStage::Suspended && !(may_hasten && stage == SuspensionStage::Waiting) {
        let cause = format!("job {id} {}; see `accord explain job`", words(stage));
        return Err(Status::failed_precondition(cause));
    }
    driver.input(Input::Schedule(Scheduled::Resume { job: id, by: by.into_name() }));
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

/// What decides whether a job may be suspended or resumed.
struct SuspensionState {
    phase: Phase,
    suspension: Option<(SuspensionStage, SuspensionCause)>,
    /// The time for which its owner can't suspend it again.
    owner_waits_ms: u64,
}

fn state(driver: &Driver, id: JobId) -> Result<SuspensionState, Status> {
    let found = driver.with_cluster(|cluster| {
        let scheduler = cluster.scheduler();
        let phase = scheduler.job(id)?.phase;
        let suspension = scheduler.suspension(id).map(|suspension| (suspension.stage, suspension.cause));
        let owner_waits_ms =
            scheduler.owner_may_suspend_from(id).map_or(0, |from| from.0.saturating_sub(driver.now().0));
        Some(SuspensionState { phase, suspension, owner_waits_ms })
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
