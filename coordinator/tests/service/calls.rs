//! The service over real sockets, with agents, tools, programs, and other peers.

use crate::requests::{register, request};
use crate::watching::{rows_of, watch};
use accord_cluster::Limits;
use accord_coordinator::Background;
use accord_fabric::frame::session::{Claim, HEADER_LEN, Message};
use accord_fabric::session_endpoint::{self, Attachment, OpenRetries, SessionConnection, WaitedMessage};
use accord_fabric::transport::{PeerAddress, SharedLane, adopt, connect_tls};
use accord_proto::v1::admin_client::AdminClient;
use accord_proto::v1::cluster_client::ClusterClient;
use accord_proto::v1::registry_client::RegistryClient;
use accord_proto::{VERSION, channel, v1};
use accord_trust::issue::Authority;
use accord_trust::{Identity, Role, Trust};
use accord_types::{DeviceId, ErrorCode, Lease, NodeId, Rank, SessionRequest};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use v1::watch_row::Line;
use v1::{agent_message, coordinator_message};

const SOON: Duration = Duration::from_secs(10);

const HOUR: Duration = Duration::from_secs(3600);

struct Fixture {
    coordinator: Background,
    authority: Authority,
    runtime: Runtime,
}

fn tenant() -> Role {
    Role::Tenant("eva".into())
}

fn admin() -> Role {
    Role::Admin("root".into())
}

fn agent(name: &str) -> Role {
    Role::Agent(name.into())
}

impl Fixture {
    fn new() -> Self {
        // A short limit, to speed the tests up.
        Self::of(Limits { lost_after_ms: 2_500, ..Limits::default() })
    }

    fn of(limits: Limits) -> Self {
        let authority = Authority::new("c1", HOUR).unwrap();
        let own = authority.identity(Role::Coordinator, HOUR).unwrap();
        let coordinator = Background::start("127.0.0.1:0".parse().unwrap(), own, limits).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { coordinator, authority, runtime }
    }

    fn address(&self) -> PeerAddress {
        PeerAddress::new(self.coordinator.address())
    }

    fn open(&self, node_name: &str) -> accord_types::Result<(Lease, SessionConnection)> {
        self.open_as(&self.authority.identity(tenant(), HOUR).unwrap(), node_name)
    }

    fn open_as(&self, own: &Identity, node_name: &str) -> accord_types::Result<(Lease, SessionConnection)> {
        session_endpoint::open(&self.address(), own, SOON, &request(node_name))
    }

    fn reach(&self, own: Identity) -> channel::Coordinator {
        channel::Coordinator::new(self.address().as_str(), Arc::new(Trust::fixed(own)), SOON)
    }

    fn channel(&self, role: Role) -> Channel {
        let coordinator = self.reach(self.authority.identity(role, HOUR).unwrap());
        self.runtime.block_on(coordinator.connect(|endpoint| endpoint)).unwrap()
    }

    fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel(tenant()))
    }

    fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.channel(admin()))
    }

    /// Opens a connection to the session endpoint without sending a message.
    fn lane(&self) -> SharedLane {
        let tcp = TcpStream::connect(self.coordinator.address()).unwrap();
        let own = self.authority.identity(tenant(), HOUR).unwrap();
        let config = own.to_coordinator(session_endpoint::PROTOCOL.as_bytes()).unwrap();
        connect_tls(adopt(tcp.into()).unwrap(), config, SOON).unwrap()
    }

    fn describe(&self) -> v1::ClusterView {
        let request = v1::DescribeRequest { version: VERSION, ..v1::DescribeRequest::default() };
        self.runtime.block_on(self.cluster().describe(request)).unwrap().into_inner()
    }

    fn attend(&self, role: Role, register: v1::Register) -> Result<FakeAgent<'_>, Status> {
        let mut client = RegistryClient::new(self.channel(role));
        let (outbox, messages) = mpsc::channel(16);
        let agent = FakeAgentOutbox(outbox);
        agent.say(agent_message::Body::Register(register));
        let inbound = self.runtime.block_on(client.attend(ReceiverStream::new(messages)))?.into_inner();
        Ok(FakeAgent { runtime: &self.runtime, outbox: agent, inbound })
    }

    /// Registers an agent.
    fn agent(&self, name: &str) -> FakeAgent<'_> {
        let mut agent = self.attend(agent(name), register(name)).unwrap();
        match agent.next_message() {
            Some(coordinator_message::Body::Registered(_)) => agent,
            other => panic!("{other:?}"),
        }
    }
}

struct FakeAgentOutbox(mpsc::Sender<v1::AgentMessage>);

impl FakeAgentOutbox {
    fn say(&self, body: agent_message::Body) {
        self.0.try_send(v1::AgentMessage { body: Some(body) }).unwrap();
    }
}

struct FakeAgent<'a> {
    runtime: &'a Runtime,
    outbox: FakeAgentOutbox,
    inbound: Streaming<v1::CoordinatorMessage>,
}

impl FakeAgent<'_> {
    /// Returns the next message; `None` once the coordinator has closed the connection.
    fn try_next_message(&mut self) -> Result<Option<coordinator_message::Body>, Status> {
        let inbound = &mut self.inbound;
        let message = self
            .runtime
            .block_on(async { tokio::time::timeout(SOON, inbound.message()).await.expect("a message in time") })?;
        Ok(message.map(|message| message.body.unwrap()))
    }

    fn next_message(&mut self) -> Option<coordinator_message::Body> {
        self.try_next_message().unwrap()
    }
}

#[test]
fn a_program_gets_a_lease_and_its_end_reaches_the_agent() {
    let fixture = Fixture::new();
    let mut agent = fixture.agent("h1");
    let (lease, connection) = fixture.open("h1").unwrap();
    assert_eq!(lease.devices.len(), 2);
    assert_eq!(lease.devices[0].address, "127.0.0.1:77", "the address that the agent came from");
    connection.ask_use(lease.devices[0].info.id);
    let Some(coordinator_message::Body::SessionOpened(opened)) = agent.next_message() else { panic!() };
    assert_eq!(opened.grant.unwrap().session, lease.session.0);
    let view = fixture.describe();
    assert_eq!((view.nodes.len(), view.sessions.len()), (1, 1));
    assert_eq!(view.sessions[0].program, "app");
    drop(connection);
    let Some(coordinator_message::Body::SessionClosed(closed)) = agent.next_message() else { panic!() };
    assert_eq!(closed.session, lease.session.0);
}

const FIRST: DeviceId = DeviceId { node: NodeId(0), ordinal: 0 };

/// Has a program begin to use the first device, which no job holds.
fn use_first(connection: &SessionConnection) {
    connection.ask_use(FIRST);
    assert_eq!(connection.next().unwrap(), Some(Message::UseAnswered { device: FIRST, error: None }));
}

#[test]
fn ranks_on_one_device_are_warned_over_the_session_endpoint() {
    let fixture = Fixture::new();
    let _agent = fixture.agent("h1");
    let open = |rank| {
        let request = SessionRequest {
            rank: Some(Rank { rank, size: 2, local_rank: rank, local_size: 2, job: 0 }),
            ..request("h1")
        };
        session_endpoint::open(&fixture.address(), &fixture.authority.identity(tenant(), HOUR).unwrap(), SOON, &request)
            .unwrap()
    };
    let (_, first) = open(0);
    let (_, second) = open(1);
    first.ask_use(FIRST);
    second.ask_use(FIRST);
    // The last rank gets the warning.
    let (observed, warnings) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for connection in [&first, &second] {
            let observed = observed.clone();
            scope.spawn(move || {
                while let Ok(Some(message)) = connection.next() {
                    if matches!(message, Message::UseAnswered { .. }) {
                        continue;
                    }
                    observed.send(message).unwrap();
                }
            });
        }
        let warning = warnings.recv_timeout(SOON).unwrap();
        assert!(matches!(&warning, Message::Warning(text) if text.contains("2 ranks of node h1")), "{warning:?}");
        first.close();
        second.close();
    });
    assert!(warnings.try_recv().is_err(), "warned twice");
}

#[test]
fn threads_that_write_at_once_do_not_disturb_each_other() {
    /// Number of answers that may wait for the program.
    const ASKED_BY_EACH: u32 = 30;
    let fixture = Fixture::new();
    let _agent = fixture.agent("h1");
    let (_lease, connection) = fixture.open("h1").unwrap();
    let at_once = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                at_once.wait();
                (0..ASKED_BY_EACH).for_each(|_| connection.ask_use(FIRST));
            });
        }
    });
    for _ in 0..2 * ASKED_BY_EACH {
        let observed = connection.next_within(SOON).unwrap();
        assert!(
            matches!(observed, WaitedMessage::Message(Some(Message::UseAnswered { device: FIRST, error: None }))),
            "an answer is missing"
        );
    }
}

/// Returns how many connections to this port the kernel probes only after a minute or later.
fn seldom_probed(port: u16) -> usize {
    const TICKS_PER_MINUTE: u64 = 60 * 100;
    let (port, table) = (format!(":{port:04X}"), std::fs::read_to_string("/proc/net/tcp").unwrap());
    let is_seldom = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_own = fields[1].ends_with(&port) || fields[2].ends_with(&port);
        // The keep-alive timer.
        let ticks = fields[5].strip_prefix("02:").and_then(|ticks| u64::from_str_radix(ticks, 16).ok());
        is_own && ticks.is_some_and(|ticks| ticks > TICKS_PER_MINUTE)
    };
    table.lines().skip(1).filter(is_seldom).count()
}

/// Requests both devices of an agent, and returns once they are granted.
fn ask_for_both(address: &PeerAddress, own: &Identity) -> SessionConnection {
    let retries = OpenRetries { time: SOON, notify: &|_| (), waits: &|_| () };
    let request = SessionRequest { devices: Some("2:cpu".to_owned()), ..request("h1") };
    session_endpoint::open_with_retries(address, own, SOON, &retries, &request).unwrap().1
}

#[test]
fn the_connection_of_a_request_that_waits_is_probed_seldom() {
    // The agent sends no heartbeats.
    let fixture = Fixture::of(Limits::default());
    let (address, port) = (fixture.address(), fixture.coordinator.address().port());
    let own = || fixture.authority.identity(tenant(), HOUR).unwrap();
    let await_seldom = |count| {
        let begun = Instant::now();
        while seldom_probed(port) != count {
            assert!(begun.elapsed() < SOON, "{} instead of {count}", seldom_probed(port));
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let mut agent = fixture.agent("h1");
    let first = ask_for_both(&address, &own());
    assert_eq!(seldom_probed(port), 0);
    let (asker, asked) = (own(), address.clone());
    let second = std::thread::spawn(move || ask_for_both(&asked, &asker));
    await_seldom(2);
    drop(first);
    let released = loop {
        if let Some(coordinator_message::Body::ReleaseJob(release)) = agent.next_message() {
            break v1::JobReleased { job: release.job };
        }
    };
    agent.outbox.say(agent_message::Body::JobReleased(released));
    while !matches!(agent.next_message(), Some(coordinator_message::Body::SessionOpened(_))) {}
    let _second = second.join().unwrap();
    await_seldom(0);
}

#[test]
fn silent_agent_is_lost_and_the_program_is_notified() {
    let fixture = Fixture::new();
    let mut agent = fixture.agent("h1");
    let (_, connection) = fixture.open("elsewhere").unwrap();
    use_first(&connection);
    // The agent sends no further heartbeat.
    match connection.next().unwrap() {
        Some(Message::NodeLost { name, .. }) => assert_eq!(name, "h1"),
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.describe().nodes[0].state, i32::from(v1::NodeState::Lost));
    // The agent's connection is closed, so that it registers again if it is alive.
    while agent.next_message().is_some() {}
}

#[test]
fn an_empty_cluster_refuses_with_a_remedy() {
    let error = Fixture::new().open("h1").unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeviceUnavailable);
    assert!(error.remedy_text().unwrap().contains("accord-node-agent"), "{error}");
}

#[test]
fn no_coordinator_at_the_address_is_an_error_with_a_remedy() {
    let fixture = Fixture::new();
    let (address, own) = (fixture.address(), fixture.authority.identity(tenant(), HOUR).unwrap());
    drop(fixture);
    let error = session_endpoint::open(&address, &own, SOON, &request("h1")).unwrap_err();
    assert!(error.cause().contains(address.as_str()) && error.remedy_text().is_some(), "{error}");
    let error = session_endpoint::open(&PeerAddress::new("no such host:1"), &own, SOON, &request("h1")).unwrap_err();
    assert!(error.remedy_text().unwrap().contains("ACCORD_COORDINATOR"), "{error}");
}

#[test]
fn another_version_is_refused_by_name() {
    let fixture = Fixture::new();
    let other = v1::Register { version: VERSION + 2, ..register("h1") };
    let status = fixture.attend(agent("h1"), other).err().expect("refused");
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains(&format!("version {}", VERSION + 2)), "{status}");
    assert!(status.message().contains(&format!("this side version {VERSION}; install")), "{status}");
    let request = v1::DescribeRequest { version: 0, ..v1::DescribeRequest::default() };
    let status = fixture.runtime.block_on(fixture.cluster().describe(request)).unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
}

#[test]
fn garbage_harms_no_other_connection() {
    let fixture = Fixture::new();
    let _agent = fixture.agent("h1");
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &b"PRI * HTTP/9.9\r\n\r\n nonsense that goes on for a while"[..],
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..],
        &[0xff; 300][..],
        &b"ACCORD\r\n"[..],
        &b"A"[..],
    ] {
        let mut stream = TcpStream::connect(fixture.coordinator.address()).unwrap();
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // The peer may get an answer or not, but its connection must end.
        let _ = stream.read_to_end(&mut Vec::new());
        assert!(fixture.open("h1").is_ok());
    }
}

#[test]
fn silent_connections_block_no_other() {
    let fixture = Fixture::new();
    let _agent = fixture.agent("h1");
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(fixture.coordinator.address()).unwrap()).collect();
    let half = fixture.lane();
    half.send(&[1, 0]).unwrap();
    assert!(fixture.open("h1").is_ok());
    drop(silent);
}

#[test]
fn malformed_first_message_closes_only_its_connection() {
    let fixture = Fixture::new();
    let _agent = fixture.agent("h1");
    let huge = [0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0];
    let grant = Message::Warning("not yours to send".into()).encode();
    for bad in [&huge[..], &grant[..], &[0; HEADER_LEN][..]] {
        let stream = fixture.lane();
        stream.send(bad).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    assert!(fixture.open("h1").is_ok());
}

#[test]
fn a_newer_agent_of_the_same_node_takes_over() {
    let fixture = Fixture::new();
    let mut old = fixture.agent("h1");
    let newer = v1::Register { incarnation: 2, ..register("h1") };
    let _newer = fixture.attend(agent("h1"), newer).unwrap();
    assert_eq!(old.next_message(), None);
    let mut stale = fixture.attend(agent("h1"), register("h1")).unwrap();
    let status = stale.try_next_message().unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    assert!(status.message().contains("--node"), "{status}");
}

#[test]
fn an_administrator_drains_closes_and_stops() {
    let fixture = Fixture::new();
    let mut agent = fixture.agent("h1");
    let (lease, connection) = fixture.open("h1").unwrap();
    use_first(&connection);
    let Some(coordinator_message::Body::SessionOpened(_)) = agent.next_message() else { panic!() };
    let (mut admin, run) = (fixture.admin(), &fixture.runtime);

    let request = |name: &str| v1::DrainNodeRequest {
        version: VERSION,
        node_name: name.into(),
        drain: true,
        ..v1::DrainNodeRequest::default()
    };
    let status = run.block_on(admin.drain_node(request("h9"))).unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    run.block_on(admin.drain_node(request("h1"))).unwrap();
    assert!(matches!(agent.next_message(), Some(coordinator_message::Body::Drain(_))));
    assert!(fixture.open("h1").is_err());

    let session = lease.session.0;
    run.block_on(admin.close_session(v1::CloseSessionRequest { version: VERSION, session })).unwrap();
    let Some(coordinator_message::Body::SessionClosed(closed)) = agent.next_message() else { panic!() };
    assert!(closed.reason.starts_with("an administrator has closed session"), "{}", closed.reason);
    assert_eq!(connection.next().unwrap(), Some(Message::Ended(closed.reason)));
    assert!(connection.next().unwrap().is_none());

    let stop = v1::ShutdownRequest { version: VERSION, agents: true };
    let answer = std::thread::scope(|scope| {
        let agent = scope.spawn(move || {
            assert!(matches!(agent.next_message(), Some(coordinator_message::Body::Stop(_))));
            agent.outbox.say(agent_message::Body::Goodbye(v1::Goodbye {}));
            assert_eq!(agent.next_message(), None);
        });
        // The agent's thread drives its runtime, so this call needs a runtime of its own.
        let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reach = fixture.reach(fixture.authority.identity(Role::Admin("root".into()), HOUR).unwrap());
        let answer = own.block_on(async {
            AdminClient::new(reach.connect(|endpoint| endpoint).await.unwrap()).shutdown(stop).await
        });
        agent.join().unwrap();
        answer
    });
    assert!(answer.is_ok());
    fixture.coordinator.wait();
}

#[test]
fn watchers_see_nodes_come_and_programs_open_sessions() {
    // These agents send no heartbeats.
    let fixture = Fixture::of(Limits { lost_after_ms: 600_000, ..Limits::default() });
    let nodes = rows_of(v1::WatchTable::Nodes);
    let mut call = fixture.runtime.block_on(watch(&mut fixture.cluster(), nodes.clone())).unwrap();
    let mut next = || fixture.runtime.block_on(call.replies.message()).unwrap().unwrap();
    assert_eq!(next().total, 0);
    let _h2 = fixture.agent("h2");
    while next().total < 1 {}
    let _h1 = fixture.agent("h1");
    let names = |reply: &v1::WatchReply| -> Vec<(u32, String)> {
        let name = |row: &v1::WatchRow| match &row.line {
            Some(Line::Node(node)) => (row.at, node.name.clone()),
            other => panic!("{other:?}"),
        };
        reply.changed.iter().map(name).collect()
    };
    let reply = loop {
        let reply = next();
        if reply.total == 2 {
            break reply;
        }
    };
    assert_eq!(names(&reply), [(0, "h1".into()), (1, "h2".into())]);
    // A session changes the summary but no row, because it uses no device.
    let (_, _connection) = fixture.open("h1").unwrap();
    let reply = loop {
        let reply = next();
        if reply.summary.is_some_and(|summary| summary.sessions == 1) {
            break reply;
        }
    };
    assert_eq!(names(&reply), []);
    // Further requests of the same call are answered at once.
    let request = v1::WatchRequest { number: 5, from: 1, rows: 1, ..nodes };
    fixture.runtime.block_on(call.requests.send(request)).unwrap();
    let reply = fixture.runtime.block_on(call.replies.message()).unwrap().unwrap();
    assert_eq!((reply.request, reply.total, reply.from, names(&reply)), (5, 2, 1, vec![(0, "h2".into())]));
}

#[test]
fn a_dead_coordinator_is_no_error_to_a_program() {
    let fixture = Fixture::new();
    let agent = fixture.agent("h1");
    let (_, connection) = fixture.open("h1").unwrap();
    drop(agent);
    drop(fixture);
    assert!(connection.next().unwrap().is_none());
    connection.ask_use(FIRST);
}

#[test]
fn a_program_comes_back_to_its_session_at_another_coordinator() {
    let mut fixture = Fixture::new();
    let agent = fixture.agent("h1");
    let (lease, connection) = fixture.open("h1").unwrap();
    drop(agent);
    let listen = fixture.coordinator.address();
    let own = |authority: &Authority| authority.identity(Role::Coordinator, HOUR).unwrap();
    let elsewhere = Background::start("127.0.0.1:0".parse().unwrap(), own(&fixture.authority), Limits::default());
    drop(std::mem::replace(&mut fixture.coordinator, elsewhere.unwrap()));
    assert!(connection.next().unwrap().is_none());
    fixture.coordinator = Background::start(listen, own(&fixture.authority), Limits::default()).unwrap();

    let claim = Claim { session: lease.session, key: lease.key, request: request("h1") };
    let attach = |fixture: &Fixture, user: &str, claim: &Claim| {
        let own = fixture.authority.identity(Role::Tenant(user.into()), HOUR).unwrap();
        session_endpoint::attach(&fixture.address(), &own, SOON, claim)
    };
    let Ok(Attachment::Open(back)) = attach(&fixture, "eva", &claim) else { panic!("it is over") };
    let seen =
        |fixture: &Fixture| fixture.describe().sessions.iter().map(|one| (one.id, one.attached)).collect::<Vec<_>>();
    assert_eq!(seen(&fixture), [(lease.session.0, true)]);
    // No other user gets the session, and no client receives its end, until an agent names its owner.
    assert!(attach(&fixture, "mallory", &claim).is_err());
    assert_eq!(seen(&fixture), [(lease.session.0, true)]);
    drop(back);
    while !seen(&fixture).is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(matches!(attach(&fixture, "eva", &claim), Ok(Attachment::Open(_))));
}

/// A suspended coordinator accepts connections and sends nothing. No attempt may take longer than the time left for the
/// program's retries.
#[test]
fn a_silent_coordinator_is_asked_no_longer_than_the_program_has_time() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = PeerAddress::new(silent.local_addr().unwrap());
    let own = Authority::new("c1", HOUR).unwrap().identity(tenant(), HOUR).unwrap();
    let (notify, reported) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let retries = OpenRetries { time: Duration::from_secs(1), notify: &|_: &str| (), waits: &|_| () };
        let outcome = session_endpoint::open_with_retries(&address, &own, HOUR, &retries, &request("h1"));
        let _ = notify.send(outcome.map(drop));
    });
    let error = reported.recv_timeout(3 * SOON).expect("it goes on asking").unwrap_err();
    assert!(error.cause().contains("no answer in time"), "{error}");
}
