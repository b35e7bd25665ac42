//! What an administrator may do.

use super::caller::Caller;
use super::driver::Driver;
use crate::cluster::Input;
use accord_proto::convert::check_version;
use accord_proto::v1;
use accord_scheduler::{DrainTarget, Millis};
use accord_telemetry::log::AUDIT;
use accord_trust::access::Act;
use accord_types::{DeviceId, SessionId};
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

/// How long agents that were told to stop may take to say goodbye.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(3);
/// How often it is looked whether they have.
const GOODBYE_POLL: Duration = Duration::from_millis(20);
/// How long the answer has to get out before the coordinator ends.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The admin service.
pub(super) struct Administrator {
    driver: Arc<Driver>,
}

impl Administrator {
    pub(super) fn new(driver: Arc<Driver>) -> Self {
        Self { driver }
    }
}

#[tonic::async_trait]
impl v1::admin_server::Admin for Administrator {
    async fn drain_node(&self, request: Request<v1::DrainNodeRequest>) -> Result<Response<v1::DrainNodeReply>, Status> {
        let who = Caller::check(&request, Act::DrainNode)?.called();
        let request = request.into_inner();
        check_version(request.version)?;
        let v1::DrainNodeRequest { version: _, node_name, drain, ordinal, in_ms, end, reason } = request;
        let what = if drain { "drains" } else { "undrains" };
        let device = ordinal.map(|ordinal| format!("device {ordinal} of ")).unwrap_or_default();
        tracing::warn!(target: AUDIT, "{who} {what} {device}node {node_name:?}");
        let known = self.driver.with_cluster(|cluster| {
            let node = cluster.node_named(&node_name).ok_or_else(|| format!("there is no node {node_name}"))?;
            if let Some(ordinal) = ordinal.filter(|ordinal| node.device(*ordinal).is_none()) {
                return Err(format!("node {node_name} has no device {ordinal}"));
            }
            let uses = cluster.sessions().filter(|session| match ordinal {
                None => session.executors.contains(&node.id),
                Some(ordinal) => session.used.contains(&DeviceId { node: node.id, ordinal }),
            });
            let sessions = uses.map(|session| session.id.0).collect();
            let jobs = cluster.jobs_holding(node.id, ordinal).map(|job| job.0).collect();
            Ok((node.id, v1::DrainNodeReply { sessions, jobs }))
        });
        let (node, reply) = known.map_err(|why| Status::not_found(format!("{why}; see `accord info`")))?;
        let target = match ordinal {
            None => DrainTarget::Node(node),
            Some(ordinal) => DrainTarget::Device(DeviceId { node, ordinal }),
        };
        self.driver.input(Input::Schedule(if drain {
            let by_time = Millis(self.driver.now().0.saturating_add(in_ms));
            let reason = if reason.is_empty() { "accord drain".to_owned() } else { reason };
            accord_scheduler::Input::Drain { target, by_time, end, reason, by: who }
        } else {
            accord_scheduler::Input::Undrain { target, by: who }
        }));
        if ordinal.is_none() {
            // Programs that ask for nothing last as long as they like.
            self.driver.input(Input::Drain { node_name, drain });
        }
        self.driver.durable().await?;
        Ok(Response::new(reply))
    }

    async fn close_session(
        &self,
        request: Request<v1::CloseSessionRequest>,
    ) -> Result<Response<v1::CloseSessionReply>, Status> {
        let who = Caller::check(&request, Act::CloseSession)?.called();
        let request = request.into_inner();
        check_version(request.version)?;
        tracing::warn!(target: AUDIT, "{who} closes session {}", SessionId(request.session));
        let session = SessionId(request.session);
        if self.driver.with_cluster(|cluster| cluster.session(session).is_none()) {
            return Err(Status::not_found(format!("there is no session {session}; see `accord info`")));
        }
        self.driver.input(Input::Close { session });
        Ok(Response::new(v1::CloseSessionReply {}))
    }

    async fn shutdown(&self, request: Request<v1::ShutdownRequest>) -> Result<Response<v1::ShutdownReply>, Status> {
        let who = Caller::check(&request, Act::Shutdown)?.called();
        let request = request.into_inner();
        check_version(request.version)?;
        tracing::warn!(target: AUDIT, "{who} stops the coordinator{}", if request.agents { " and all agents" } else { "" });
        if request.agents {
            self.driver.stop_agents();
            let goodbyes = async {
                while self.driver.agent_count() > 0 {
                    tokio::time::sleep(GOODBYE_POLL).await;
                }
            };
            let _ = tokio::time::timeout(GOODBYE_TIMEOUT, goodbyes).await;
        }
        let driver = self.driver.clone();
        tokio::spawn(async move {
            tokio::time::sleep(LAST_WORDS).await;
            driver.stop();
        });
        Ok(Response::new(v1::ShutdownReply {}))
    }
}
