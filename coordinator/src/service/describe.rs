//! The cluster for people and tools.

use super::caller::Caller;
use super::driver::Driver;
use crate::cluster::{Cluster, Input, MeasuredPath, Node, NodeState, Session, Viewer};
use accord_proto::convert::{Malformed, check_version, device_kind, order_policy};
use accord_proto::v1;
use accord_trust::access::Act;
use accord_types::{NodeId, Source};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// Views on their way to one watcher. A slow watcher misses views in between.
const VIEWS_WAITING_MAX: usize = 1;
/// Shortest time between two views of one watcher.
const VIEW_INTERVAL: Duration = Duration::from_millis(50);

/// Nodes that may be named for the paths between all of them.
const PATHS_OF_MAX: usize = 64;

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
        if request.paths_of.len() > PATHS_OF_MAX {
            return Err(Malformed("paths of too many nodes").into());
        }
        if request.measure {
            self.driver.input(Input::MeasureSoon);
        }
        Ok(Response::new(view(&self.driver, &request)?))
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
                if views.send(view(&driver, &request)).await.is_err() {
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

fn view(driver: &Driver, request: &v1::DescribeRequest) -> Result<v1::ClusterView, Status> {
    let (now, viewer) = (driver.now(), request.viewer.as_ref());
    driver.with_cluster(|cluster| {
        Ok(v1::ClusterView {
            version: cluster.version(),
            nodes: cluster.nodes().map(|node| node_view(cluster, node, now.since(node.heard))).collect(),
            sessions: cluster.sessions().map(|session| session_view(session, now.since(session.since))).collect(),
            numbering: viewer.map(|viewer| numbering(cluster, viewer)).transpose()?.unwrap_or_default(),
            uptime_ms: now.0,
            plain_tcp: cluster.limits().plain_tcp,
            paths: paths(cluster, &request.paths_of),
            unix_ms: unix_ms(),
            measuring: u32::try_from(cluster.measuring()).unwrap_or(u32::MAX),
        })
    })
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Those between the nodes that are named, or that were measured.
fn paths(cluster: &Cluster, of: &[u32]) -> Vec<v1::Path> {
    let path = |from: NodeId, to: NodeId, path: MeasuredPath, source: Source| v1::Path {
        from: from.0,
        to: to.0,
        times: Some(path.times.into()),
        source: match source {
            Source::Measured => v1::FigureSource::Measured,
            Source::Estimated => v1::FigureSource::Estimated,
            Source::Default => v1::FigureSource::Unspecified,
        }
        .into(),
        transport: path.transport,
    };
    if of.is_empty() {
        return cluster.measured_paths().map(|(a, b, known)| path(a, b, known.clone(), Source::Measured)).collect();
    }
    let pairs = of.iter().enumerate().flat_map(|(index, &a)| of[..index].iter().map(move |&b| (NodeId(b), NodeId(a))));
    pairs.filter_map(|(a, b)| cluster.path(a, b).map(|(known, source)| path(a, b, known, source))).collect()
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

fn node_view(cluster: &Cluster, node: &Node, heard_ms_ago: u64) -> v1::Node {
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
        figures: cluster.figures(node.id).cloned().map(Into::into),
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
