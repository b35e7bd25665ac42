//! Peers that have a key of their own, or another session's, and want what is not theirs.

mod support;

use accord_coordinator::cluster::Limits;
use accord_fabric::Key;
use accord_fabric::handshake::{Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::transport::PeerAddress;
use accord_types::{Lease, SessionId};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use support::{Agent, Cluster, SOON, command_lane, ends_within, lane, lane_with};

const LANES: [Purpose; 4] = [Purpose::Command, Purpose::Bulk, Purpose::Control, Purpose::Peer];
/// Bytes of a hello, of what an agent answers, and of the proof.
const HELLO: usize = 68;
const CHALLENGE: usize = 16 + 64;
const PROOF: usize = 32;

/// Nobody with `key` gets a lane of the session, and its executor does not notice.
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
fn a_key_of_somebodys_own_opens_no_lane_of_a_session() {
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
    let (stranger, _other_door) = cluster.open("elsewhere");
    assert_ne!(victim.key, stranger.key);
    assert_kept_out(&agent, victim.session, &stranger.key.into());
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
    let (lease, door) = cluster.open("elsewhere");
    let _command = command_lane(&lease).unwrap();
    let (_, executor) = agent.executor();
    drop(door);
    assert!(ends_within(&executor, SOON));
    for purpose in LANES {
        let error = lane(&agent.address, purpose, &lease).unwrap_err();
        assert!(error.cause().contains("has ended"), "{error}");
    }
    assert!(agent.executors().is_empty());
}

#[test]
fn a_session_ends_when_its_time_is_over_whether_its_coordinator_is_there_or_not() {
    let limits = Limits { session_ms: 1_500, ..Limits::default() };
    for coordinator_stays in [true, false] {
        let cluster = Cluster::with_limits(limits);
        let agent = cluster.agent("h1");
        let (lease, _door) = cluster.open("elsewhere");
        let _command = command_lane(&lease).unwrap();
        let (_, executor) = agent.executor();
        let cluster = if coordinator_stays {
            Some(cluster)
        } else {
            drop(cluster.coordinator);
            None
        };
        assert!(!ends_within(&executor, Duration::from_millis(300)));
        assert!(ends_within(&executor, SOON), "it outlives its time");
        let error = lane(&agent.address, Purpose::Command, &lease).unwrap_err();
        assert!(error.cause().contains("has ended"), "{error}");
        if let Some(cluster) = cluster {
            cluster.until(|view| view.sessions.is_empty());
        }
    }
}

/// A connection between a client and the agent, and what both said.
struct Tap {
    address: PeerAddress,
    /// The connections stay open with what was heard.
    heard: std::thread::JoinHandle<(Vec<u8>, [TcpStream; 2])>,
}

impl Tap {
    /// Passes one handshake on and keeps the client's half.
    fn new(agent: &Agent) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = PeerAddress::new(listener.local_addr().unwrap());
        let to = agent.address.to_string();
        let heard = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut agent = TcpStream::connect(to).unwrap();
            let mut heard = vec![0; HELLO + PROOF];
            let (hello, proof) = heard.split_at_mut(HELLO);
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
            (heard, [client, agent])
        });
        Self { address, heard }
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
    let (heard, _open) = tap.heard.join().unwrap();

    let (hello, proof) = heard.split_at(HELLO);
    assert_eq!(refusal(&agent, hello, proof).as_deref(), Some("the keys differ"));
    // Nor does the agent's own proof, sent back, or one of another hello.
    let mut other = Hello::new(Purpose::Command, lease.session, 0, PeerId::PROGRAM).encode(&[1; 32]);
    assert_eq!(refusal(&agent, &other, proof).as_deref(), Some("the keys differ"));
    other[12] = Purpose::Bulk as u8;
    assert_eq!(refusal_with(&agent, &other, |challenge| challenge[48..].to_vec()).as_deref(), Some("the keys differ"));
    agent.executor();
}

/// What the agent answers to these bytes; none: welcome.
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
    // What a program may change in its own copy of the lease changes nothing: the agent has the coordinator's.
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (lease, _door) = cluster.open("elsewhere");
    let forged = Lease { session: SessionId(lease.session.0 + 1), ..lease.clone() };
    let error = command_lane(&forged).unwrap_err();
    assert!(error.cause().contains("has not told node h1"), "{error}");
    assert!(agent.executors().is_empty());
}
