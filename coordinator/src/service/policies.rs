//! The policies service, for administrators.

use super::caller::Caller;
use super::driver::Driver;
use accord_cluster::Input;
use accord_proto::bounds::{POLICY_CHANGES_MAX, POLICY_FINDINGS_MAX};
use accord_proto::convert::check_version;
use accord_proto::threads::on_thread;
use accord_proto::v1;
use accord_scheduler::policy::{Change, Finding, KeyPosition, KeyPositions, SitePolicy};
use accord_telemetry::log::AUDIT;
use accord_trust::access::Act;
use accord_types::Count;
use accord_types::texts::{WORDS_MAX, cut};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Response, Status};

/// Most policies that are parsed at one time.
const READ_MAX: usize = 2;

/// The service for policies.
pub(super) struct Policies {
    driver: Arc<Driver>,
    reads: Arc<Semaphore>,
}

impl Policies {
    pub(super) fn new(driver: Arc<Driver>) -> Self {
        Self { driver, reads: Arc::new(Semaphore::new(READ_MAX)) }
    }

    /// Waits until a policy may be parsed.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, Status> {
        let turn = self.reads.clone().acquire_owned().await;
        turn.map_err(|_| Status::unavailable("the coordinator stops"))
    }
}

/// Refuses callers who may not apply a policy before the message is read, which may be long.
pub(super) fn is_allowed(request: Request<()>) -> Result<Request<()>, Status> {
    Caller::check(&request, Act::ApplyPolicy)?;
    Ok(request)
}

#[tonic::async_trait]
impl v1::policies_server::Policies for Policies {
    async fn apply_policy(
        &self,
        request: Request<v1::ApplyPolicyRequest>,
    ) -> Result<Response<v1::ApplyPolicyReply>, Status> {
        let user_name = Caller::check(&request, Act::ApplyPolicy)?.called();
        let v1::ApplyPolicyRequest { version, policy: text, check_only } = request.into_inner();
        check_version(version)?;
        let turn = self.turn().await?;
        let file: Arc<str> = text.into();
        let text = file.clone();
        let read = on_thread("accord-policy", turn, move || SitePolicy::read(&text, None)).await;
        let read = read.map_err(|error| Status::internal(error.to_string()))?;
        let version = || self.driver.with_cluster(|cluster| cluster.policy_version());
        let policy = match read {
            Ok(policy) => policy,
            Err(findings) => {
                if !check_only {
                    tracing::warn!(target: AUDIT, "{user_name} is refused a policy with {}", Count(findings.len(), "finding"));
                }
                let findings = findings.iter().take(POLICY_FINDINGS_MAX).map(finding).collect();
                let reply =
                    v1::ApplyPolicyReply { findings, policy_version: version(), ..v1::ApplyPolicyReply::default() };
                return Ok(Response::new(reply));
            }
        };
        if let Err(why) = self.driver.flags().check(&policy) {
            if !check_only {
                tracing::warn!(target: AUDIT, "{user_name} is refused a policy: {why}");
            }
            return Err(Status::failed_precondition(why));
        }
        let changes = self.driver.with_cluster(|cluster| cluster.policy_changes(&policy));
        let more = changes.len().saturating_sub(POLICY_CHANGES_MAX);
        let turn = self.turn().await?;
        let placed = on_thread("accord-policy", turn, move || {
            let keys = KeyPositions::new(&file);
            let placed = changes.iter().take(POLICY_CHANGES_MAX);
            let placed: Vec<_> = placed.map(|one| change(one, one.position(&policy, &keys))).collect();
            (policy, placed)
        });
        let (policy, changes) = placed.await.map_err(|error| Status::internal(error.to_string()))?;
        if !check_only {
            self.driver.input(Input::ApplyPolicy { policy: Box::new(policy), by: user_name });
            self.driver.durable().await?;
        }
        Ok(Response::new(v1::ApplyPolicyReply {
            changes,
            more_changes: u32::try_from(more).unwrap_or(u32::MAX),
            policy_version: version(),
            findings: Vec::new(),
        }))
    }
}

fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

fn change(change: &Change, position: Option<KeyPosition>) -> v1::PolicyChange {
    v1::PolicyChange {
        line: position.map_or(0, |position| number(position.line)),
        column: position.map_or(0, |position| number(position.column)),
        message: cut(&change.to_string(), WORDS_MAX).to_owned(),
    }
}

fn finding(found: &Finding) -> v1::PolicyFinding {
    v1::PolicyFinding {
        line: number(found.line),
        column: number(found.column),
        message: cut(found.error.message(), WORDS_MAX).to_owned(),
        marked: cut(&found.error.marked(), WORDS_MAX).to_owned(),
    }
}
