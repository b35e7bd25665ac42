//! Peers with a key of their own, or another session's, that request what is not theirs.

#[path = "../../coordinator/tests/crowd/mod.rs"]
#[allow(dead_code)]
mod crowd;
mod support;

use accord_cluster::Limits;
use accord_coordinator::Background;
use accord_fabric::Key;
use accord_fabric::handshake::{Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::transport::PeerAddress;
use accord_trust::Role;
use accord_trust::issue::Authority;
use accord_types::{Lease, SessionId};
use crowd::{Cost, Waited, measured, status};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use support::{Agent, Cluster, HOUR, SOON, command_lane, ends_within, lane, lane_with, up};

const LANES: [Purpose; 4] = [Purpose::Command, Purpose::Bulk, Purpose::Control, Purpose::Peer];
/// Bytes of a hello, of the agent's answer, and of the proof.
const HELLO: usize = 68;
const CHALLENGE: usize = 16 + 64;
const PROOF: usize = 32;

/// Asserts that a peer with `key` gets no lane of the session, and does not affect its executor.
fn assert_kept_out(agent: &Agent, session: SessionId, key: &Key) {
    let (number, executor) = agent.executor();
    for purpose in LANES {
        let error = lane_with(&agent.address, purpose, session, key).unwrap_err();
        assert!(error.cause().contains("has another key"), "{purpose:?}: {error}");
    }
    assert!(!ends_within(&executor, Duration::from_millis(200)), "the executor has gone");
    assert_eq!(agent.executor().0, number);
}

#[test]
fn an_invented_key_opens_no_lane_of_a_session() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (lease, _door) = cluster.open("elsewhere");
    let _command = command_lane(&lease).unwrap();
    assert_kept_out(&agent, lease.session, &Key::random().unwrap());
    // The session itself goes on.
    let _bulk = lane(&agent.address, Purpose::Bulk, &lease).unwrap();
}

#[test]
fn one_sessions_key_opens_no_lane_of_another() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (victim, _door) = cluster.open("elsewhere");
    let _command = command_lane(&victim).unwrap();
    let (unauthenticated, _other_door) = cluster.open("elsewhere");
    assert_ne!(victim.key, unauthenticated.key);
    assert_kept_out(&agent, victim.session, &unauthenticated.key.into());
}

#[test]
fn a_session_that_was_never_announced_opens_nothing_and_says_so_in_time() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let begin = Instant::now();
    for purpose in LANES {
        let error = lane_with(&agent.address, purpose, SessionId(0xdead), &Key::random().unwrap()).unwrap_err();
        assert!(error.cause().contains("has not told node h1"), "{error}");
    }
    assert!(begin.elapsed() < Duration::from_secs(4 * 5), "{:?}", begin.elapsed());
    assert!(agent.executors().is_empty());
}

#[test]
fn an_ended_session_opens_nothing() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (lease, endpoint) = cluster.open("elsewhere");
    let _command = command_lane(&lease).unwrap();
    let (_, executor) = agent.executor();
    drop(endpoint);
    assert!(ends_within(&executor, SOON));
    for purpose in LANES {
        let error = lane(&agent.address, purpose, &lease).unwrap_err();
        assert!(error.cause().contains("has ended"), "{error}");
    }
    assert!(agent.executors().is_empty());
}

#[test]
fn a_session_ends_when_its_time_is_over_whether_its_coordinator_is_there_or_not() {
    const TIME: Duration = Duration::from_secs(3);
    let limits = Limits { session_ms: TIME.as_millis().try_into().unwrap(), ..Limits::default() };
    for coordinator_stays in [true, false] {
        let cluster = Cluster::with_limits(limits);
        let agent = cluster.agent("h1");
        let begin = Instant::now();
        let (lease, _door) = cluster.open("elsewhere");
        let _command = command_lane(&lease).unwrap();
        let (_, executor) = agent.executor();
        let cluster = if coordinator_stays {
            Some(cluster)
        } else {
            drop(cluster.coordinator);
            None
        };
        assert!(ends_within(&executor, SOON), "it outlives its time");
        assert!(begin.elapsed() >= TIME, "it ends before its time is over");
        let error = lane(&agent.address, Purpose::Command, &lease).unwrap_err();
        assert!(error.cause().contains("has ended"), "{error}");
        if let Some(cluster) = cluster {
            cluster.until(|view| view.sessions.is_empty());
        }
    }
}

/// A recording proxy between a client and the agent.
struct Tap {
    address: PeerAddress,
    /// Keeps the connections open; returns what was recorded.
    observed: std::thread::JoinHandle<(Vec<u8>, [TcpStream; 2])>,
}

impl Tap {
    /// Forwards one handshake and records the client's half.
    fn new(agent: &Agent) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = PeerAddress::new(listener.local_addr().unwrap());
        let to = agent.address.to_string();
        let observed = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut agent = TcpStream::connect(to).unwrap();
            let mut observed = vec![0; HELLO + PROOF];
            let (hello, proof) = observed.split_at_mut(HELLO);
            client.read_exact(hello).unwrap();
            agent.write_all(hello).unwrap();
            let mut challenge = [0; CHALLENGE];
            agent.read_exact(&mut challenge).unwrap();
            client.write_all(&challenge).unwrap();
            client.read_exact(proof).unwrap();
            agent.write_all(proof).unwrap();
            let mut welcome = [0; 16];
            agent.read_exact(&mut welcome).unwrap();
            client.write_all(&welcome).unwrap();
            (observed, [client, agent])
        });
        Self { address, observed }
    }
}

#[test]
fn a_recorded_introduction_opens_nothing() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (lease, _door) = cluster.open("elsewhere");
    let _command = command_lane(&lease).unwrap();
    let tap = Tap::new(&agent);
    let _bulk = lane(&tap.address, Purpose::Bulk, &lease).unwrap();
    let (observed, _open) = tap.observed.join().unwrap();

    let (hello, proof) = observed.split_at(HELLO);
    assert_eq!(refusal(&agent, hello, proof).as_deref(), Some("the keys differ"));
    // The agent's own proof, sent back, and a proof of another hello fail, too.
    let mut other = Hello::new(Purpose::Command, lease.session, 0, PeerId::PROGRAM).encode(&[1; 32]);
    assert_eq!(refusal(&agent, &other, proof).as_deref(), Some("the keys differ"));
    other[12] = Purpose::Bulk as u8;
    assert_eq!(refusal_with(&agent, &other, |challenge| challenge[48..].to_vec()).as_deref(), Some("the keys differ"));
    agent.executor();
}

/// Returns the agent's refusal of these bytes; `None` if it is a welcome.
fn refusal(agent: &Agent, hello: &[u8], proof: &[u8]) -> Option<String> {
    refusal_with(agent, hello, |_| proof.to_vec())
}

fn refusal_with(agent: &Agent, hello: &[u8], proof: impl FnOnce(&[u8]) -> Vec<u8>) -> Option<String> {
    let mut stream = TcpStream::connect(agent.address.as_str()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(hello).unwrap();
    let mut challenge = [0; CHALLENGE];
    stream.read_exact(&mut challenge).unwrap();
    stream.write_all(&proof(&challenge)).unwrap();
    let mut answer = [0; 16];
    stream.read_exact(&mut answer).unwrap();
    if answer[12..14] == [0; 2] {
        return None;
    }
    let mut text = vec![0; usize::from(u16::from_le_bytes([answer[14], answer[15]]))];
    stream.read_exact(&mut text).unwrap();
    Some(String::from_utf8(text).unwrap())
}

#[test]
fn a_lease_is_of_its_own_session_only() {
    // A lease that the program changed has no effect: the agent uses the coordinator's.
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (lease, _door) = cluster.open("elsewhere");
    let forged = Lease { session: SessionId(lease.session.0 + 1), ..lease.clone() };
    let error = command_lane(&forged).unwrap_err();
    assert!(error.cause().contains("has not told node h1"), "{error}");
    assert!(agent.executors().is_empty());
}

/// While the coordinator is away, any process may bind its port: a tenant of the cluster, or an attacker with an
/// authority of its own.
#[test]
fn impostor_coordinator_ends_no_agent_and_no_session() {
    let cluster = Cluster::new();
    let mut agent = cluster.agent("h1");
    let (lease, _door) = cluster.open("elsewhere");
    let _command = command_lane(&lease).unwrap();
    let (_, executor) = agent.executor();
    let Cluster { coordinator, authority, dir } = cluster;
    let address = coordinator.address();
    drop(coordinator);
    let tenant = authority.identity(Role::Tenant("mallory".into()), HOUR).unwrap();
    let other = Authority::new("tests", HOUR).unwrap().identity(Role::Coordinator, HOUR).unwrap();
    for impostor in [tenant, other] {
        let impostor = Background::start(address, impostor, Limits::default()).unwrap();
        // The agent connects at least once a second.
        assert!(!ends_within(&executor, Duration::from_millis(2_500)), "a session has ended");
        assert_eq!(agent.child.try_wait().unwrap(), None, "the agent has ended");
        drop(impostor);
    }
    let own = authority.identity(Role::Coordinator, HOUR).unwrap();
    let coordinator = Background::start(address, own, Limits::default()).unwrap();
    let cluster = Cluster { coordinator, authority, dir };
    cluster.until(|view| view.nodes.iter().any(|node| node.name == "h1" && node.state == up()));
    let _bulk = lane(&agent.address, Purpose::Bulk, &lease).unwrap();
    agent.child.kill().unwrap();
    let mut printed = String::new();
    agent.child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    for words in ["tenant mallory may not be the coordinator", "of another authority"] {
        assert!(printed.contains(words), "no {words:?} in {printed}");
    }
}

/// Hostile requests, repeated while honest sessions open: each must be refused; the number of tries is printed.
#[test]
fn hostile_peers_cost_an_agent_little_and_an_executor_nothing_while_honest_sessions_go_on() {
    const ROUNDS: u32 = 40;
    const OPENS_WITHIN: Duration = Duration::from_secs(1);
    const PROCESSOR_OF_ONE_MAX: Duration = Duration::from_millis(10);
    const MEMORY_MAX_KIB: u64 = 16 << 10;
    const THREADS_MAX: u64 = 200;
    /// Most ticks of the targeted executor: none of the requests reaches it.
    const EXECUTORS_TICKS_MAX: u64 = 20;
    /// Most further threads and descriptors of the executor: lanes of its session may arrive a moment later.
    const EXECUTORS_MORE_MAX: usize = 4;
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (victim, _door) = cluster.open("elsewhere");
    let _command = command_lane(&victim).unwrap();
    let (wanted, executor) = agent.executor();
    let (unauthenticated, _other_door) = cluster.open("elsewhere");
    let (ended, endpoint) = cluster.open("elsewhere");
    drop(command_lane(&ended).unwrap());
    drop(endpoint);
    let tap = Tap::new(&agent);
    let bulk = lane(&tap.address, Purpose::Bulk, &victim).unwrap();
    let (observed, _open) = tap.observed.join().unwrap();
    drop(bulk);
    let begin = Instant::now();
    while !lane(&agent.address, Purpose::Bulk, &ended).is_err_and(|error| error.cause().contains("has ended")) {
        assert!(begin.elapsed() < SOON, "the session does not end");
    }

    let of_agent = || Cost::of(agent.child.id());
    let (before, mut tried, mut most_threads, mut longest) = (of_agent(), 0, 0, Duration::ZERO);
    let executors_before = Cost::of(wanted);
    for round in 0..ROUNDS {
        for purpose in LANES {
            let own_key = lane_with(&agent.address, purpose, victim.session, &Key::random().unwrap());
            let other_tenants = lane_with(&agent.address, purpose, victim.session, &unauthenticated.key.into());
            let expired = lane(&agent.address, purpose, &ended);
            for refused in [own_key, other_tenants, expired] {
                assert!(refused.is_err(), "{purpose:?} was let in");
                tried += 1;
            }
        }
        assert_eq!(refusal(&agent, &observed[..HELLO], &observed[HELLO..]).as_deref(), Some("the keys differ"));
        tried += 1;
        // The recording with each byte changed in turn. The test does not wait for the answers, some of which take
        // seconds.
        let changed: Vec<TcpStream> = (0..HELLO + PROOF)
            .map(|at| {
                let mut bytes = observed.clone();
                bytes[at] ^= 1 << (round % 8);
                let mut stream = TcpStream::connect(agent.address.as_str()).unwrap();
                let _ = stream.write_all(&bytes);
                stream
            })
            .collect();
        tried += changed.len();
        most_threads = most_threads.max(status(agent.child.id(), "Threads"));
        let (waited, begin) = (Waited::until_now(agent.child.id()), Instant::now());
        let (honest, _door) = cluster.open("elsewhere");
        let _lane = command_lane(&honest).unwrap();
        let took = begin.elapsed();
        longest = longest.max(took.saturating_sub(Waited::until_now(agent.child.id()).since(&waited)));
    }
    assert!(!ends_within(&executor, Duration::ZERO), "the victim's executor has gone");
    let begin = Instant::now();
    while of_agent().threads > before.threads + 2 || of_agent().descriptors > before.descriptors + 8 {
        assert!(begin.elapsed() < SOON, "{before:?}, then {:?}", of_agent());
        std::thread::sleep(Duration::from_millis(50));
    }
    let (after, executors_after) = (of_agent(), Cost::of(wanted));
    let each = (after.processor() - before.processor()) / u32::try_from(tried).unwrap();
    println!(
        "{tried} hostile connections: {each:?} of processors each, at most {most_threads} threads, {before:?}, then {after:?}; honest sessions opened within {longest:?}; the executor: {executors_before:?}, then {executors_after:?}"
    );
    let figures = [
        ("us of a processor for each", each.as_secs_f64() * 1e6),
        ("threads", most_threads as f64),
        ("MiB more", after.memory_kib.saturating_sub(before.memory_kib) as f64 / 1024.0),
        ("ms to an honest session, at most", longest.as_secs_f64() * 1e3),
        ("ms of a processor of the executor", 10.0 * (executors_after.ticks - executors_before.ticks) as f64),
    ];
    measured("agent", "other keys, other sessions, expired or changed words", &figures);
    assert!(executors_after.threads <= executors_before.threads + EXECUTORS_MORE_MAX as u64, "{executors_after:?}");
    assert!(executors_after.descriptors <= executors_before.descriptors + EXECUTORS_MORE_MAX, "{executors_after:?}");
    assert!(executors_after.ticks < executors_before.ticks + EXECUTORS_TICKS_MAX, "{executors_after:?}");
    assert!(each < PROCESSOR_OF_ONE_MAX, "{each:?} of processors for each of {tried}");
    assert!(after.memory_kib < before.memory_kib + MEMORY_MAX_KIB, "{before:?}, then {after:?}");
    assert!(most_threads < THREADS_MAX, "{most_threads} threads");
    assert!(longest < OPENS_WITHIN, "an honest session took {longest:?} to open");
}
