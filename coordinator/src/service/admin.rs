//! The admin service: drains, quarantines, closing sessions, shutdown.

use super::caller::{Caller, over_quota};
use super::driver::Driver;
use super::tenants::Tenants;
use accord_cluster::{Cluster, Input};
use accord_proto::convert::check_version;
use accord_proto::v1;
use accord_scheduler::{DrainTarget, Millis};
use accord_telemetry::log::AUDIT;
use accord_trust::access::Act;
use accord_types::{DeviceId, SessionId};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// Timeout for stopped agents to disconnect.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which their number is polled.
const GOODBYE_POLL: Duration = Duration::from_millis(20);
/// Time for the reply to be sent before the coordinator ends.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// Most messages in flight to a caller that watches a drain.
const USES_WAITING_MAX: usize = 1;
/// Shortest time between two such messages.
const USES_INTERVAL: Duration = Duration::from_millis(50);

/// The admin service.
pub(super) struct Administrator {
    driver: Arc<Driver>,
    tenants: Arc<Tenants>,
}

impl Administrator {
    pub(super) fn new(driver: Arc<Driver>, tenants: Arc<Tenants>) -> Self {
        Self { driver, tenants }
    }
}

/// Returns the drain target that the request names.
fn target(cluster: &Cluster, node_name: &str, ordinal: Option<u32>) -> Result<DrainTarget, Status> {
    let unknown = |why: String| Status::not_found(format!("{why}; see `accord info`"));
    let node = cluster.node_named(node_name).ok_or_else(|| unknown(format!("there is no node {node_name}")))?;
    match ordinal {
        None => Ok(DrainTarget::Node(node.id)),
        Some(ordinal) if node.device(ordinal).is_some() => Ok(DrainTarget::Device(DeviceId { node: node.id, ordinal })),
        Some(ordinal) => Err(unknown(format!("node {node_name} has no device {ordinal}"))),
    }
}

/// Returns the sessions that use a node or device, and the jobs that hold devices there.
fn uses(cluster: &Cluster, node_name: &str, ordinal: Option<u32>) -> Result<v1::DrainNodeReply, Status> {
    let target = target(cluster, node_name, ordinal)?;
    let uses = cluster.sessions().filter(|session| match target {
        DrainTarget::Node(node) => session.executors.contains(&node),
        DrainTarget::Device(device) => session.used.contains(&device),
    });
    let devices = cluster.node_named(node_name).into_iter().flat_map(|node| {
        let ordinals = node.devices.iter().map(|device| device.id);
        ordinals.filter(|device| target.covers(*device))
    });
    let jobs = cluster.scheduler().holders(devices);
    Ok(v1::DrainNodeReply {
        sessions: uses.map(|session| session.id.0).collect(),
        jobs: jobs.into_iter().map(|job| job.0).collect(),
    })
}

#[tonic::async_trait]
impl v1::admin_server::Admin for Administrator {
    async fn drain_node(&self, request: Request<v1::DrainNodeRequest>) -> Result<Response<v1::DrainNodeReply>, Status> {
        let user_name = Caller::check(&request, Act::DrainNode)?.called();
        let request = request.into_inner();
        check_version(request.version)?;
        let v1::DrainNodeRequest { version: _, node_name, drain, ordinal, in_ms, end, reason } = request;
        let known = self
            .driver
            .with_cluster(|cluster| Ok((target(cluster, &node_name, ordinal)?, uses(cluster, &node_name, ordinal)?)));
        let (target, reply) = known.inspect_err(|why: &Status| {
            tracing::warn!(target: AUDIT, "{user_name} is refused a drain: {}", why.message());
        })?;
        self.driver.input(Input::Schedule(if drain {
            let by_time = Millis(self.driver.now().0.saturating_add(in_ms));
            let reason = if reason.is_empty() { "accord drain".to_owned() } else { reason };
            accord_scheduler::Input::Drain { target, by_time, end, reason, by: user_name }
        } else {
            accord_scheduler::Input::Undrain { target, by: user_name }
        }));
        if ordinal.is_none() {
            // Drains sessions of programs without a request, too, whose end can't be predicted.
            self.driver.input(Input::Drain { node_name, drain });
        }
        self.driver.durable().await?;
        Ok(Response::new(reply))
    }

    async fn quarantine(
        &self,
        request: Request<v1::QuarantineRequest>,
    ) -> Result<Response<v1::QuarantineReply>, Status> {
        let user_name = Caller::check(&request, Act::DrainNode)?.called();
        let request = request.into_inner();
        check_version(request.version)?;
        let v1::QuarantineRequest { version: _, node_name, ordinal, release, reason } = request;
        let known = self.driver.with_cluster(|cluster| {
            let DrainTarget::Device(device) = target(cluster, &node_name, Some(ordinal))? else {
                return Err(Status::internal("a node is no device"));
            };
            let scheduler = cluster.scheduler();
            if release && scheduler.quarantine_of(device).is_none() {
                let why = format!("device {ordinal} of node {node_name} is not in quarantine; see `accord info`");
                return Err(Status::failed_precondition(why));
            }
            Ok((device, scheduler.holders([device]), cluster.uuid_of(device)))
        });
        let (device, jobs, uuid) = known.inspect_err(|why: &Status| {
            tracing::warn!(target: AUDIT, "{user_name} is refused a change of a quarantine: {}", why.message());
        })?;
        self.driver.input(Input::Schedule(if release {
            accord_scheduler::Input::Unquarantine { device, by: user_name }
        } else {
            let reason = if reason.is_empty() { "accord quarantine".to_owned() } else { reason };
            accord_scheduler::Input::Quarantine { device, reason, by: Some(user_name), charged: false, uuid }
        }));
        self.driver.durable().await?;
        Ok(Response::new(v1::QuarantineReply { jobs: jobs.into_iter().map(|job| job.0).collect() }))
    }

    type WatchDrainStream = ReceiverStream<Result<v1::DrainNodeReply, Status>>;

    async fn watch_drain(
        &self,
        request: Request<v1::WatchDrainRequest>,
    ) -> Result<Response<Self::WatchDrainStream>, Status> {
        let slot = self.tenants.watch(Caller::check(&request, Act::DrainNode)?.user_name());
        let slot = slot.map_err(|error| over_quota(&error))?;
        let v1::WatchDrainRequest { version, node_name, ordinal } = request.into_inner();
        check_version(version)?;
        let driver = self.driver.clone();
        driver.with_cluster(|cluster| target(cluster, &node_name, ordinal))?;
        let (replies, stream) = mpsc::channel(USES_WAITING_MAX);
        tokio::spawn(async move {
            let _slot = slot;
            let (mut changes, mut last) = (driver.watch_uses(), None);
            loop {
                changes.mark_unchanged();
                let reply = driver.with_cluster(|cluster| uses(cluster, &node_name, ordinal));
                // The last reply: the node is free, or no longer known.
                let is_last = reply.as_ref().map_or(true, |reply| reply.sessions.is_empty() && reply.jobs.is_empty());
                let known = reply.as_ref().ok().cloned();
                if is_last || known != last {
                    last = known;
                    if replies.send(reply).await.is_err() || is_last {
                        return;
                    }
                }
                tokio::select! {
                    () = replies.closed() => return,
                    changed = changes.changed() => if changed.is_err() { return },
                }
                tokio::time::sleep(USES_INTERVAL).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn close_session(
        &self,
        request: Request<v1::CloseSessionRequest>,
    ) -> Result<Response<v1::CloseSessionReply>, Status> {
        let user_name = Caller::check(&request, Act::CloseSession)?.called();
        let request = request.into_inner();
        check_version(request.version)?;
        tracing::warn!(target: AUDIT, "{user_name} closes session {}", SessionId(request.session));
        let session = SessionId(request.session);
        if self.driver.with_cluster(|cluster| cluster.session(session).is_none()) {
            return Err(Status::not_found(format!("there is no session {session}; see `accord info`")));
        }
        self.driver.input(Input::Close { session });
        Ok(Response::new(v1::CloseSessionReply {}))
    }

    async fn shutdown(&self, request: Request<v1::ShutdownRequest>) -> Result<Response<v1::ShutdownReply>, Status> {
        let user_name = Caller::check(&request, Act::Shutdown)?.called();
        let request = request.into_inner();
        check_version(request.version)?;
        tracing::warn!(target: AUDIT, "{user_name} stops the coordinator{}", if request.agents { " and all agents" } else { "" });
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
