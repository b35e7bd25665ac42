//! The cluster service: views of the cluster for people and tools.

use super::board::{Boards, Watcher};
use super::caller::{Caller, over_quota};
use super::driver::{Driver, unix_ms};
use super::page::Site;
use super::page_space::PageSpace;
use super::session_logs::session_logs;
use super::tenants::Tenants;
use super::viewer;
use super::watching::{self, REPLIES_WAITING_MAX};
use accord_cluster::{Cluster, Input, MeasuredPath, Millis, Node, NodeState, Session, Viewer};
use accord_proto::bounds::PAGE_ITEMS_MAX;
use accord_proto::convert::{Malformed, check_version, device_kind, labels, order_policy};
use accord_proto::v1;
use accord_trust::access::Act;
use accord_types::texts::{WORDS_MAX, cut};
use accord_types::{DeviceUse, NodeId, SessionId, Source};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// The cluster service.
pub(super) struct Describer {
    driver: Arc<Driver>,
    tenants: Arc<Tenants>,
    boards: Arc<Boards>,
    /// The page; `None`: the coordinator serves none.
    page: Option<Arc<Site>>,
}

impl Describer {
    pub(super) fn new(
        driver: Arc<Driver>,
        tenants: Arc<Tenants>,
        boards: Arc<Boards>,
        page: Option<Arc<Site>>,
    ) -> Self {
        Self { driver, tenants, boards, page }
    }
}

#[tonic::async_trait]
impl v1::cluster_server::Cluster for Describer {
    async fn describe(&self, request: Request<v1::DescribeRequest>) -> Result<Response<v1::ClusterView>, Status> {
        let caller = viewer::Viewer::of(Caller::check(&request, Act::Describe)?);
        let request = request.into_inner();
        check_version(request.version)?;
        if request.measure {
            self.driver.input(Input::MeasureSoon);
        }
        Ok(Response::new(page(&self.driver, &caller, &request)?))
    }

    async fn session_logs(
        &self,
        request: Request<v1::SessionLogsRequest>,
    ) -> Result<Response<v1::SessionLogsReply>, Status> {
        session_logs(&self.driver, request).await
    }

    type WatchStream = ReceiverStream<Result<v1::WatchReply, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<v1::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let caller = Caller::check(&request, Act::Describe)?.clone();
        let slot = self.tenants.watch(caller.user_name()).map_err(|error| over_quota(&error))?;
        let mut requests = request.into_inner();
        let first = watching::first(&mut requests).await?;
        let watcher = Watcher::new(viewer::Viewer::of(&caller), first);
        let (replies, stream) = mpsc::channel(REPLIES_WAITING_MAX);
        let (driver, boards) = (self.driver.clone(), self.boards.clone());
        tokio::spawn(async move {
            if let Err(status) = watching::serve(&driver, &boards, watcher, &mut requests, &replies).await {
                let _ = replies.send(Err(status)).await;
            }
            // The stream ends once the watcher's slot is free, so that the watcher can start a new call.
            drop(slot);
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn open_page(&self, request: Request<v1::OpenPageRequest>) -> Result<Response<v1::OpenPageReply>, Status> {
        let caller = Caller::check(&request, Act::Describe)?.clone();
        check_version(request.into_inner().version)?;
        let page = self.page.as_ref().ok_or_else(|| {
            Status::failed_precondition("it shows no page; start it with --page-listen, or use `accord top`")
        })?;
        Ok(Response::new(page.open(&caller)?))
    }
}

/// Returns the requested page of the view, with the sessions that the caller may see.
fn page(driver: &Driver, caller: &viewer::Viewer, request: &v1::DescribeRequest) -> Result<v1::ClusterView, Status> {
    let (now, viewer) = (driver.now(), request.viewer.as_ref());
    let (mut list, mut from) = request.page.map_or((v1::PageList::Nodes, 0), |start| (start.list(), start.from));
    driver.with_cluster(|cluster| {
        let mut view = v1::ClusterView {
            version: cluster.version(),
            uptime_ms: now.0,
            plain_tcp: cluster.limits().plain_tcp,
            unix_ms: unix_ms(),
            limits: Some(v1::SessionLimits {
                memory_quota: cluster.limits().memory_quota,
                stream_quota: cluster.limits().stream_quota,
                session_ms: cluster.limits().session_ms,
            }),
            ..v1::ClusterView::default()
        };
        if request.page.is_none() {
            view.measuring = u32::try_from(cluster.measuring()).unwrap_or(u32::MAX);
            let others =
                caller.only(cluster.others_jobs()).map(|user| cluster.session_count() - cluster.sessions_of(user));
            view.other_sessions = u32::try_from(others.unwrap_or(0)).unwrap_or(u32::MAX);
        }
        let mut space = PageSpace::new();
        loop {
            let rest = match list {
                v1::PageList::Nodes => {
                    let nodes = cluster.nodes_from(NodeId(u32::try_from(from).unwrap_or(u32::MAX)));
                    let nodes = nodes.map(|node| (node.id.0.into(), node_view(cluster, node, now)));
                    space.fill(&mut view.nodes, nodes)
                }
                v1::PageList::Sessions => {
                    let others = cluster.others_jobs();
                    let sessions = cluster.sessions_from(SessionId(from));
                    let sessions = sessions.filter(|session| caller.sees_user(&session.owner.user, others));
                    let sessions = sessions
                        .map(|session| (session.id.0, session_view(cluster, session, now.since(session.since))));
                    space.fill(&mut view.sessions, sessions)
                }
                v1::PageList::Numbering => {
                    let devices = viewer.map(|viewer| numbering(cluster, viewer)).transpose()?.unwrap_or_default();
                    space.fill(&mut view.numbering, (0..).zip(devices).skip(index(from)))
                }
                v1::PageList::Paths => {
                    space.fill(&mut view.paths, (0..).zip(paths(cluster, &request.paths_of)).skip(index(from)))
                }
                v1::PageList::Unspecified => return Err(Malformed("a page of no list").into()),
            };
            if let Some(from) = rest {
                view.next = Some(v1::PageStart { list: list.into(), from });
                return Ok(view);
            }
            (list, from) = match list {
                v1::PageList::Nodes => (v1::PageList::Sessions, 0),
                v1::PageList::Sessions => (v1::PageList::Numbering, 0),
                v1::PageList::Numbering => (v1::PageList::Paths, 0),
                v1::PageList::Paths | v1::PageList::Unspecified => return Ok(view),
            };
        }
    })
}

fn index(from: u64) -> usize {
    usize::try_from(from).unwrap_or(usize::MAX)
}

/// Returns the paths between the given nodes, or all measured paths.
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
    let nodes = of.iter().copied().map(NodeId).collect();
    cluster.paths_between(&nodes).into_iter().map(|(a, b, known, source)| path(a, b, known, source)).collect()
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

fn node_view(cluster: &Cluster, node: &Node, now: Millis) -> v1::Node {
    let quarantined = node.devices.iter().filter_map(|info| {
        let quarantine = cluster.scheduler().quarantine_of(info.id)?;
        Some(v1::Quarantined {
            ordinal: info.id.ordinal,
            reason: cut(&quarantine.reason, WORDS_MAX).to_owned(),
            since_unix_ms: unix_ms().saturating_sub(now.since(Millis(quarantine.since.0))),
            by_administrator: quarantine.by.is_some(),
            charged: quarantine.charged,
        })
    });
    let state = match node.state {
        NodeState::Up { .. } if node.is_drained() => v1::NodeState::Draining,
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
        hardware: Some(node.machine.hardware.clone().into()),
        heard_ms_ago: now.since(node.contact.last),
        figures: cluster.figures(node.id).cloned().map(Into::into),
        kernel_limits: Some(node.machine.kernel_limits.clone().into()),
        labels: labels(&node.machine.labels),
        quarantined: quarantined.collect(),
    }
}

fn session_view(cluster: &Cluster, session: &Session, age_ms: u64) -> v1::Session {
    let uses = cluster.device_uses(session.id).take(PAGE_ITEMS_MAX).map(|(device, used)| {
        let DeviceUse { busy_ms, bytes_in, bytes_out, held, fault: _ } = used;
        v1::SessionUse { node: device.node.0, ordinal: device.ordinal, busy_ms, bytes_in, bytes_out, held }
    });
    v1::Session {
        id: session.id.0,
        program: session.program.clone(),
        node_name: session.node_name.clone(),
        pid: session.pid,
        rank: session.rank.map(Into::into),
        order: v1::OrderPolicy::from(session.order).into(),
        device_count: u32::try_from(cluster.device_count_of(session)).unwrap_or(u32::MAX),
        executors: session.executors.iter().map(|node| node.0).collect(),
        lost: session.lost.iter().map(|node| node.0).collect(),
        attached: session.client.is_some(),
        age_ms,
        uses: uses.collect(),
        user: session.owner.user.clone(),
        share_milli: cluster.share_of(session).unwrap_or(0),
    }
}
