//! The cluster for people and tools.

use super::caller::Caller;
use super::driver::Driver;
use crate::cluster::{Cluster, Node, NodeState, Session, Viewer};
use accord_proto::convert::{Malformed, check_version, device_kind, order_policy};
use accord_proto::v1;
use accord_trust::access::Act;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// Views on their way to one watcher. A slow watcher misses views in between.
const VIEWS_WAITING_MAX: usize = 1;
/// Shortest time between two views of one watcher.
const VIEW_INTERVAL: Duration = Duration::from_millis(50);

/// The cluster service.
pub(super) struct Describer {
    driver: Arc<Driver>,
}

impl Describer {
    pub(super) fn new(driver: Arc<Driver>) -> Self {
        Self { driver }
    }
}

#[tonic::async_trait]
impl v1::cluster_server::Cluster for Describer {
    async fn describe(&self, request: Request<v1::DescribeRequest>) -> Result<Response<v1::ClusterView>, Status> {
        Caller::check(&request, Act::Describe)?;
        let request = request.into_inner();
        check_version(request.version)?;
        Ok(Response::new(view(&self.driver, request.viewer.as_ref())?))
    }

    type WatchStream = ReceiverStream<Result<v1::ClusterView, Status>>;

    async fn watch(&self, request: Request<v1::DescribeRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Caller::check(&request, Act::Describe)?;
        let request = request.into_inner();
        check_version(request.version)?;
        let driver = self.driver.clone();
        let (views, stream) = mpsc::channel(VIEWS_WAITING_MAX);
        tokio::spawn(async move {
            let mut changes = driver.watch();
            loop {
                changes.mark_unchanged();
                if views.send(view(&driver, request.viewer.as_ref())).await.is_err() {
                    return;
                }
                tokio::select! {
                    () = views.closed() => return,
                    changed = changes.changed() => if changed.is_err() { return },
                }
                tokio::time::sleep(VIEW_INTERVAL).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

fn view(driver: &Driver, viewer: Option<&v1::Viewer>) -> Result<v1::ClusterView, Status> {
    let now = driver.now();
    driver.with_cluster(|cluster| {
        Ok(v1::ClusterView {
            version: cluster.version(),
            nodes: cluster.nodes().map(|node| node_view(node, now.since(node.heard))).collect(),
            sessions: cluster.sessions().map(|session| session_view(session, now.since(session.since))).collect(),
            numbering: viewer.map(|viewer| numbering(cluster, viewer)).transpose()?.unwrap_or_default(),
            uptime_ms: now.0,
            plain_tcp: cluster.limits().plain_tcp,
        })
    })
}

fn numbering(cluster: &Cluster, viewer: &v1::Viewer) -> Result<Vec<v1::DeviceRef>, Malformed> {
    let viewer = Viewer {
        node_name: &viewer.node_name,
        rank: viewer.rank.map(Into::into),
        kind: device_kind(viewer.kind)?,
        order: order_policy(viewer.order)?,
    };
    Ok(cluster.numbering(&viewer).into_iter().map(Into::into).collect())
}

fn node_view(node: &Node, heard_ms_ago: u64) -> v1::Node {
    let state = match node.state {
        NodeState::Up { .. } if node.draining => v1::NodeState::Draining,
        NodeState::Up { .. } => v1::NodeState::Up,
        NodeState::Lost => v1::NodeState::Lost,
        NodeState::Gone => v1::NodeState::Gone,
    };
    v1::Node {
        id: node.id.0,
        name: node.name.clone(),
        state: state.into(),
        incarnation: node.incarnation,
        links: vec![v1::Link { kind: v1::LinkKind::Tcp.into(), address: node.address.clone() }],
        devices: node.devices.iter().cloned().map(Into::into).collect(),
        hardware: Some(node.hardware.clone().into()),
        heard_ms_ago,
    }
}

fn session_view(session: &Session, age_ms: u64) -> v1::Session {
    v1::Session {
        id: session.id.0,
        program: session.program.clone(),
        node_name: session.node_name.clone(),
        pid: session.pid,
        rank: session.rank.map(Into::into),
        order: v1::OrderPolicy::from(session.order).into(),
        devices: session.lease.devices.iter().copied().map(Into::into).collect(),
        executors: session.executors.iter().map(|node| node.0).collect(),
        lost: session.lost.iter().map(|node| node.0).collect(),
        attached: session.client.is_some(),
        age_ms,
    }
}
