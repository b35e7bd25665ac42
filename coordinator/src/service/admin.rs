//! What an administrator may do.

use super::caller::Caller;
use super::driver::Driver;
use crate::cluster::Input;
use accord_proto::convert::check_version;
use accord_proto::v1;
use accord_telemetry::log::AUDIT;
use accord_trust::access::Act;
use accord_types::SessionId;
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
        let what = if request.drain { "drains" } else { "undrains" };
        tracing::warn!(target: AUDIT, "{who} {what} node {:?}", request.node_name);
        let known = |name: &str| {
            self.driver.with_cluster(|cluster| {
                let node = cluster.node_named(name)?;
                let uses = cluster.sessions().filter(|session| session.executors.contains(&node.id));
                Some(uses.map(|session| session.id.0).collect::<Vec<_>>())
            })
        };
        let sessions = known(&request.node_name)
            .ok_or_else(|| Status::not_found(format!("there is no node {}; see `accord info`", request.node_name)))?;
        self.driver.input(Input::Drain { node_name: request.node_name, drain: request.drain });
        self.driver.durable().await?;
        Ok(Response::new(v1::DrainNodeReply { sessions }))
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
