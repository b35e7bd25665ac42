//! A tenant's requests make the coordinator neither large nor slow, and shut no other tenant out: long lists and names,
//! many sessions and connections.

use crate::requests::{register, request};
use crate::watched::{Coordinator, HOUR};
use crate::watching::{rows_of, watch};
use accord_cluster::Limits;
use accord_coordinator::Background;
use accord_fabric::frame::session::{HEADER_LEN, Message, REPLY_MAX};
use accord_fabric::session_endpoint::{self, PROTOCOL};
use accord_fabric::transport::{PeerAddress, adopt, connect_tls};
use accord_proto::v1::cluster_client::ClusterClient;
use accord_proto::v1::registry_client::RegistryClient;
use accord_proto::{VERSION, channel, v1};
use accord_trust::issue::Authority;
use accord_trust::{Identity, Role, Trust};
use accord_types::SessionKey;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

const SOON: Duration = Duration::from_secs(20);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn tenant() -> Role {
    Role::Tenant("eva".into())
}

async fn connect(authority: &Authority, role: Role, to: SocketAddr) -> Result<Channel, Status> {
    let own = authority.identity(role, HOUR).unwrap();
    let reach = channel::Coordinator::new(&to.to_string(), Arc::new(Trust::fixed(own)), SOON);
    reach.connect(|endpoint| endpoint).await
}

/// Both directions of an agent's stream; the agent lives as long as these.
type Agent = (mpsc::Sender<v1::AgentMessage>, Streaming<v1::CoordinatorMessage>);

/// Registers an agent, and waits for the coordinator's answer.
async fn attend(authority: &Authority, to: SocketAddr, register: v1::Register) -> Result<Agent, Status> {
    let (outbox, messages) = mpsc::channel(4);
    let role = Role::Agent(register.node_name.clone());
    let body = Some(v1::agent_message::Body::Register(register));
    outbox.try_send(v1::AgentMessage { body }).unwrap();
    let channel = connect(authority, role, to).await?;
    let mut inbound = RegistryClient::new(channel).attend(ReceiverStream::new(messages)).await?.into_inner();
    inbound.message().await?.unwrap();
    Ok((outbox, inbound))
}

fn describe() -> v1::DescribeRequest {
    v1::DescribeRequest { version: VERSION, ..v1::DescribeRequest::default() }
}

/// Returns all pages of a view, and the size of the largest.
async fn all_pages(
    cluster: &mut ClusterClient<Channel>,
    request: v1::DescribeRequest,
) -> (Vec<v1::ClusterView>, usize) {
    let (mut pages, mut longest, mut page) = (Vec::new(), 0, None);
    loop {
        let view = cluster.describe(v1::DescribeRequest { page, ..request.clone() }).await.unwrap().into_inner();
        longest = longest.max(prost::Message::encoded_len(&view));
        page = view.next;
        pages.push(view);
        if page.is_none() {
            return (pages, longest);
        }
    }
}

#[test]
fn a_question_that_names_twenty_thousand_nodes_is_refused() {
    let coordinator = Coordinator::start(None);
    runtime().block_on(async {
        let agents = ["h1", "h2"].map(|name| attend(&coordinator.authority, coordinator.address, register(name)));
        let [one, two] = agents;
        let _agents = (one.await.unwrap(), two.await.unwrap());
        let mut cluster =
            ClusterClient::new(connect(&coordinator.authority, tenant(), coordinator.address).await.unwrap());
        let before = coordinator.cost();
        let paths_of = |many: u32| (0..many).map(|id| id & 1).collect();
        let request = v1::DescribeRequest { paths_of: paths_of(20_000), ..describe() };
        // Refused by its length in bytes, or by the number of elements.
        let code = cluster.describe(request).await.unwrap_err().code();
        assert!(matches!(code, Code::InvalidArgument | Code::OutOfRange), "{code:?}");
        let request = v1::DescribeRequest { paths_of: paths_of(65), ..describe() };
        let refused = cluster.describe(request).await.unwrap_err();
        assert!(refused.message().contains("DescribeRequest.paths_of is too long"), "{refused}");
        let request = v1::WatchRequest { user: "u".repeat(256), ..rows_of(v1::WatchTable::Devices) };
        let refused = watch(&mut cluster, request).await.map(drop).unwrap_err();
        assert!(refused.message().contains("WatchRequest.user is too long"), "{refused}");
        cluster.describe(describe()).await.unwrap();
        let grown = coordinator.cost().memory_kib.saturating_sub(before.memory_kib);
        assert!(grown < 16 << 10, "{grown} KiB more");
    });
}

/// Sends a request as a program would that does not shorten names.
fn open_as(own: &Identity, to: SocketAddr, program: &str) -> (u8, Vec<u8>) {
    let lane = adopt(TcpStream::connect(to).unwrap().into()).unwrap();
    let lane = connect_tls(lane, own.to_coordinator(PROTOCOL.as_bytes()).unwrap(), SOON).unwrap();
    let text = |text: &str| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let body = [&text("h9")[..], &1u32.to_le_bytes(), &text(program), &[0; 3]].concat();
    lane.send(&[&(body.len() as u32).to_le_bytes()[..], &[1, 0, 0, 0], &body].concat()).unwrap();
    let mut header = [0; HEADER_LEN];
    lane.read_exact(&mut header).unwrap();
    let (kind, length) = Message::header(&header, REPLY_MAX).unwrap();
    let mut body = vec![0; length];
    lane.read_exact(&mut body).unwrap();
    (kind, body)
}

#[test]
fn a_program_with_a_name_of_sixty_thousand_bytes_gets_no_session_and_is_told() {
    let coordinator = Coordinator::start(None);
    let runtime = runtime();
    let _agent = runtime.block_on(attend(&coordinator.authority, coordinator.address, register("h1"))).unwrap();
    let own = coordinator.authority.identity(tenant(), HOUR).unwrap();
    let (kind, body) = open_as(&own, coordinator.address, &"n".repeat(60_000));
    let Message::Refused(error) = Message::decode(kind, &body).unwrap() else { panic!("answer {kind}") };
    assert!(error.cause().contains("60000 bytes, at most 255"), "{error}");
    let (kind, body) = open_as(&own, coordinator.address, &"n".repeat(255));
    assert!(matches!(Message::decode(kind, &body).unwrap(), Message::Granted(_)));
    // The client shortens names itself.
    let long = accord_types::SessionRequest { program: "n".repeat(60_000), ..request("h9") };
    let lease = session_endpoint::open(&PeerAddress::new(coordinator.address), &own, SOON, &long);
    assert_eq!(lease.unwrap().0.devices.len(), 2);
}

#[test]
fn a_cluster_of_many_sessions_is_described_in_pages() {
    let authority = Authority::new("tests", HOUR).unwrap();
    let own = authority.identity(Role::Coordinator, HOUR).unwrap();
    let coordinator = Background::start("127.0.0.1:0".parse().unwrap(), own, Limits::default()).unwrap();
    let devices = |count: u32| {
        let device = register("h").devices.remove(0);
        let device = |ordinal| v1::Device { id: Some(v1::DeviceRef { node: 0, ordinal }), ..device.clone() };
        (0..count).map(device).collect::<Vec<_>>()
    };
    // As after a restart, agents report the sessions.
    let grant = |session| v1::SessionGrant {
        session,
        program: "p".repeat(255),
        node_name: "n".repeat(255),
        user: "u".repeat(253),
        ordinals: (0..256).collect(),
        key: (0..SessionKey::LEN).map(|at| (at * at * 7 + 5) as u8).collect(),
        ..v1::SessionGrant::default()
    };
    runtime().block_on(async {
        let mut agents = Vec::new();
        for name in ["h1", "h2", "h3"] {
            let sessions = if name == "h2" { (1..1_025).map(grant).collect() } else { Vec::new() };
            let registration = v1::Register { devices: devices(256), sessions, ..register(name) };
            agents.push(attend(&authority, coordinator.address(), registration).await.unwrap());
        }
        let admin = Role::Admin("boss".into());
        let mut cluster = ClusterClient::new(connect(&authority, admin, coordinator.address()).await.unwrap());
        let viewer = v1::Viewer { node_name: "h1".into(), ..v1::Viewer::default() };
        let request = v1::DescribeRequest { viewer: Some(viewer), ..describe() };
        let (pages, longest) = all_pages(&mut cluster, request.clone()).await;
        assert!(pages.len() > 3 && longest < 256 << 10, "{} pages of up to {longest} bytes", pages.len());
        let nodes: Vec<&str> = pages.iter().flat_map(|page| &page.nodes).map(|node| &node.name[..]).collect();
        assert_eq!(nodes, ["h1", "h2", "h3"]);
        let sessions: Vec<u64> = pages.iter().flat_map(|page| &page.sessions).map(|session| session.id).collect();
        assert_eq!(sessions, (1..1_025).collect::<Vec<u64>>());
        // Programs without a request may use all devices of the three agents.
        assert!(pages.iter().flat_map(|page| &page.sessions).all(|session| session.device_count == 768));
        let numbering: Vec<v1::DeviceRef> = pages.iter().flat_map(|page| page.numbering.clone()).collect();
        let expected = (0..3).flat_map(|node| (0..256).map(move |ordinal| v1::DeviceRef { node, ordinal }));
        assert_eq!(numbering, expected.collect::<Vec<_>>());
        // Another user only gets their number.
        let user = connect(&authority, tenant(), coordinator.address()).await.unwrap();
        let (pages, _) = all_pages(&mut ClusterClient::new(user), describe()).await;
        assert_eq!(pages[0].other_sessions, 1_024);
        assert!(pages.iter().all(|page| page.sessions.is_empty()));
    });
}

#[test]
fn a_user_has_four_calls_of_watch_at_one_time() {
    let coordinator = Coordinator::start(None);
    runtime().block_on(async {
        let mut cluster =
            ClusterClient::new(connect(&coordinator.authority, tenant(), coordinator.address).await.unwrap());
        let mut watched = Vec::new();
        let refused = loop {
            match watch(&mut cluster, rows_of(v1::WatchTable::Nodes)).await {
                Ok(stream) => watched.push(stream),
                Err(status) => break status,
            }
        };
        assert_eq!(refused.code(), Code::ResourceExhausted);
        let printed = refused.message();
        assert!(printed.contains("tenant eva has 4 calls of Watch, the quota of one user"), "{printed}");
        // Another user is not affected, and a freed slot can be used again.
        let admin = connect(&coordinator.authority, Role::Admin("boss".into()), coordinator.address).await.unwrap();
        let _watched = watch(&mut ClusterClient::new(admin), rows_of(v1::WatchTable::Nodes)).await.unwrap();
        drop(watched);
        let begin = Instant::now();
        while watch(&mut cluster, rows_of(v1::WatchTable::Nodes)).await.is_err() {
            assert!(begin.elapsed() < SOON);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn replies_that_a_watcher_does_not_read_are_not_made() {
    /// Bytes of unread data that a client accepts: the least window of HTTP/2.
    const WINDOW: u32 = 65_535;
    /// Number of requests, each answered with more than half of that.
    const REQUESTS: u64 = 60;
    let coordinator = Coordinator::start(None);
    runtime().block_on(async {
        let device = |ordinal| v1::Device {
            id: Some(v1::DeviceRef { node: 0, ordinal }),
            kind: v1::DeviceKind::Cpu.into(),
            name: "d".repeat(255),
            ..v1::Device::default()
        };
        let registration = v1::Register { devices: (0..256).map(device).collect(), ..register("h1") };
        let _agent = attend(&coordinator.authority, coordinator.address, registration).await.unwrap();
        let own = coordinator.authority.identity(tenant(), HOUR).unwrap();
        let reach = channel::Coordinator::new(&coordinator.address.to_string(), Arc::new(Trust::fixed(own)), SOON);
        let watcher = reach
            .connect(|endpoint| endpoint.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW))
            .await
            .unwrap();
        let request = rows_of(v1::WatchTable::Devices);
        let mut call = watch(&mut ClusterClient::new(watcher), request.clone()).await.unwrap();
        let first = call.replies.message().await.unwrap().unwrap();
        assert_eq!((first.rows, first.changed.len()), (256, 256));
        let before = coordinator.cost();
        for number in 1..=REQUESTS {
            call.requests.send(v1::WatchRequest { number, ..request.clone() }).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let grown = coordinator.cost().memory_kib.saturating_sub(before.memory_kib);
        assert!(grown < 2 << 10, "{grown} KiB more for replies of {} KiB", first_kib(&first));
        // All requests are answered once the replies are read.
        loop {
            let reply = call.replies.message().await.unwrap().unwrap();
            if reply.request == REQUESTS {
                break;
            }
        }
    });
}

fn first_kib(reply: &v1::WatchReply) -> usize {
    prost::Message::encoded_len(reply) >> 10
}

#[test]
fn a_watcher_who_asks_for_ever_is_answered_a_bounded_number_of_times_a_second() {
    let coordinator = Coordinator::start(None);
    runtime().block_on(async {
        let _agent = attend(&coordinator.authority, coordinator.address, register("h1")).await.unwrap();
        let mut cluster =
            ClusterClient::new(connect(&coordinator.authority, tenant(), coordinator.address).await.unwrap());
        let request = rows_of(v1::WatchTable::Devices);
        let mut call = watch(&mut cluster, request.clone()).await.unwrap();
        let begun = Instant::now();
        for number in 1..200 {
            call.requests.send(v1::WatchRequest { number, ..request.clone() }).await.unwrap();
        }
        let mut last = 0;
        while last < 199 {
            last = call.replies.message().await.unwrap().unwrap().request;
        }
        // 64 at once, and 64 more each second.
        assert!(begun.elapsed() > Duration::from_secs(2), "{:?}", begun.elapsed());
    });
}

#[test]
fn a_user_who_opens_sessions_for_ever_shuts_no_other_user_out() {
    let coordinator = Coordinator::start(Some(256));
    let runtime = runtime();
    let _agent = runtime.block_on(attend(&coordinator.authority, coordinator.address, register("h1"))).unwrap();
    let own = coordinator.authority.identity(tenant(), HOUR).unwrap();
    let address = PeerAddress::new(coordinator.address);
    let mut sessions = Vec::new();
    let refused = loop {
        match session_endpoint::open(&address, &own, SOON, &request("h9")) {
            Ok(session) => sessions.push(session),
            Err(error) => break error,
        }
        assert!(sessions.len() <= 256);
    };
    assert_eq!(sessions.len(), 64);
    let printed = refused.cause();
    assert!(printed.contains("tenant eva has 64 connections") && printed.contains("quota of one user"), "{refused}");
    assert!(refused.remedy_text().is_some_and(|remedy| remedy.contains("LimitNOFILE")), "{refused}");
    runtime.block_on(async {
        // Tools of the user are refused as well.
        let tool = connect(&coordinator.authority, tenant(), coordinator.address).await.unwrap();
        let refused = ClusterClient::new(tool).describe(describe()).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        assert!(refused.message().contains("quota of one user"), "{refused}");
        let admin = connect(&coordinator.authority, Role::Admin("boss".into()), coordinator.address).await.unwrap();
        let view = ClusterClient::new(admin).describe(describe()).await.unwrap().into_inner();
        assert_eq!((view.nodes.len(), view.sessions.len()), (1, 64));
        let _second = attend(&coordinator.authority, coordinator.address, register("h2")).await.unwrap();
    });
    let other = coordinator.authority.identity(Role::Tenant("ada".into()), HOUR).unwrap();
    session_endpoint::open(&address, &other, SOON, &request("h9")).unwrap();
    drop(sessions.pop());
    let begin = Instant::now();
    while session_endpoint::open(&address, &own, SOON, &request("h9")).is_err() {
        assert!(begin.elapsed() < SOON);
    }
}

#[test]
fn a_user_beyond_the_quota_of_sessions_is_told_so_and_others_are_served() {
    let authority = Authority::new("tests", HOUR).unwrap();
    let own = authority.identity(Role::Coordinator, HOUR).unwrap();
    let limits = Limits { session_quota: 2, ..Limits::default() };
    let coordinator = Background::start("127.0.0.1:0".parse().unwrap(), own, limits).unwrap();
    let runtime = runtime();
    let _agent = runtime.block_on(attend(&authority, coordinator.address(), register("h1"))).unwrap();
    let open = |user: &str| {
        let own = authority.identity(Role::Tenant(user.into()), HOUR).unwrap();
        session_endpoint::open(&PeerAddress::new(coordinator.address()), &own, SOON, &request("h9"))
    };
    let _kept = (open("eva").unwrap(), open("eva").unwrap());
    let error = open("eva").unwrap_err();
    assert!(error.cause().contains("user eva has 2 sessions, the quota of one user (--session-quota)"), "{error}");
    open("ada").unwrap();
}
