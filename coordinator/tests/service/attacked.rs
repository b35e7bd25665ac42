//! Hostile peers without a certificate, with a wrong one, or with invalid messages cost the coordinator little, and
//! honest programs are served meanwhile.

use crate::crowd::measured;
use crate::requests::{register, request};
use crate::uncertified::uncertified;
use crate::watched::{ANSWERED_WITHIN, Coordinator, HOUR};
use accord_fabric::frame::session::{Claim, HEADER_LEN, Message};
use accord_fabric::session_endpoint::{self, Attachment, PROTOCOL};
use accord_fabric::transport::{PeerAddress, adopt, connect_tls};
use accord_proto::v1::admin_client::AdminClient;
use accord_proto::v1::registry_client::RegistryClient;
use accord_proto::{VERSION, channel, v1};
use accord_trust::issue::Authority;
use accord_trust::{Identity, Role, Trust};
use accord_types::SessionKey;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_rustls::rustls;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

const ROUNDS: u32 = 20;
const SOON: Duration = Duration::from_secs(10);
/// Processor time for a handshake with signatures on both sides and a refusal, in a debug build.
const PROCESSOR_OF_ONE_MAX: Duration = Duration::from_millis(50);
const MEMORY_MAX_KIB: u64 = 16 << 10;
const THREADS_MORE_MAX: u64 = 16;
/// Descriptors that may take a moment to close.
const DESCRIPTORS_MORE_MAX: usize = 8;

fn tenant(name: &str) -> Role {
    Role::Tenant(name.into())
}

/// Registers an agent, which lives as long as the returned value.
fn agent(
    coordinator: &Coordinator,
    runtime: &Runtime,
) -> (mpsc::Sender<v1::AgentMessage>, Streaming<v1::CoordinatorMessage>) {
    let own = coordinator.authority.identity(Role::Agent("h1".into()), HOUR).unwrap();
    let reach = channel::Coordinator::new(&coordinator.address.to_string(), Arc::new(Trust::fixed(own)), SOON);
    let (outbox, messages) = mpsc::channel(4);
    let body = Some(v1::agent_message::Body::Register(register("h1")));
    outbox.try_send(v1::AgentMessage { body }).unwrap();
    let inbound = runtime.block_on(async {
        let channel = reach.connect(|endpoint| endpoint).await.unwrap();
        let mut inbound =
            RegistryClient::new(channel).attend(ReceiverStream::new(messages)).await.unwrap().into_inner();
        inbound.message().await.unwrap().unwrap();
        inbound
    });
    (outbox, inbound)
}

/// Connects without a certificate, with this protocol, and gets nothing but an error.
fn without_certificate(coordinator: &Coordinator, protocol: &[u8]) {
    let name = rustls::pki_types::ServerName::try_from("accord").unwrap();
    let client = rustls::ClientConnection::new(Arc::new(uncertified(protocol)), name).unwrap();
    let tcp = TcpStream::connect(coordinator.address).unwrap();
    tcp.set_read_timeout(Some(SOON)).unwrap();
    let mut lane = rustls::StreamOwned::new(client, tcp);
    let _ = lane.write_all(&Message::Open(request("h1")).encode());
    let mut printed = Vec::new();
    assert!(lane.read_to_end(&mut printed).is_err() && printed.is_empty(), "{printed:?}");
}

/// Sends bytes that no program sends.
fn with_garbage(coordinator: &Coordinator, own: &Identity, words: &[u8]) {
    let tcp = TcpStream::connect(coordinator.address).unwrap();
    let lane = connect_tls(adopt(tcp.into()).unwrap(), own.to_coordinator(PROTOCOL.as_bytes()).unwrap(), SOON).unwrap();
    lane.send(words).unwrap();
    let mut answer = Vec::new();
    let _ = lane.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{answer:?}");
}

#[test]
fn hostile_peers_cost_a_coordinator_little_while_honest_programs_are_answered() {
    let coordinator = Coordinator::start(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _agent = agent(&coordinator, &runtime);
    let address = PeerAddress::new(coordinator.address);
    let identity = |role| coordinator.authority.identity(role, HOUR).unwrap();
    let (eva, mallory) = (identity(tenant("eva")), identity(tenant("mallory")));
    let foreign = Authority::new("tests", HOUR).unwrap().identity(tenant("eva"), HOUR).unwrap();
    let ended = coordinator.authority.identity(tenant("eva"), Duration::ZERO).unwrap();
    std::thread::sleep(Duration::from_millis(1_100));
    let wrong_roles = [Role::Agent("h1".into()), Role::Admin("root".into()), Role::Coordinator].map(identity);
    let opens = |own: &Identity| session_endpoint::open(&address, own, SOON, &request("h1"));
    let (wanted, endpoint) = opens(&eva).unwrap();
    let claim = |key| Claim { session: wanted.session, key, request: request("h1") };
    let made_up = SessionKey(std::array::from_fn(|at| (at * at * 7) as u8));
    let no_admin = Arc::new(Trust::fixed(identity(tenant("mallory"))));
    let shutdown = || {
        let reach = channel::Coordinator::new(address.as_str(), no_admin.clone(), SOON);
        runtime.block_on(async {
            let mut admin = AdminClient::new(reach.connect(|endpoint| endpoint).await.unwrap());
            admin.shutdown(v1::ShutdownRequest { version: VERSION, agents: true }).await.unwrap_err().code()
        })
    };

    drop(opens(&eva).unwrap());
    let (before, mut tried, mut threads, mut longest) = (coordinator.cost(), 0, 0, Duration::ZERO);
    for _ in 0..ROUNDS {
        for protocol in [PROTOCOL.as_bytes(), b"h2"] {
            without_certificate(&coordinator, protocol);
            tried += 1;
        }
        for own in [&foreign, &ended].into_iter().chain(&wrong_roles) {
            assert!(opens(own).is_err(), "a wrong role has a session");
            tried += 1;
        }
        // Another tenant tries another key and the right one, and the session's own tenant another key.
        for (own, key) in [(&mallory, made_up), (&mallory, wanted.key), (&eva, made_up)] {
            let received = session_endpoint::attach(&address, own, SOON, &claim(key));
            assert!(matches!(received, Ok(Attachment::Over(_))), "another user has the session");
            tried += 1;
        }
        assert_eq!(shutdown(), Code::PermissionDenied);
        tried += 1;
        for words in [&[0xff; 64][..], &Message::Attached.encode(), &[0; HEADER_LEN]] {
            with_garbage(&coordinator, &mallory, words);
            tried += 1;
        }
        threads = threads.max(coordinator.cost().threads);
        let (waited, begin) = (coordinator.waited(), Instant::now());
        drop(opens(&eva).unwrap());
        longest = longest.max(begin.elapsed().saturating_sub(coordinator.waited().since(&waited)));
    }
    // The attacked session still belongs to its program.
    assert!(matches!(session_endpoint::attach(&address, &eva, SOON, &claim(wanted.key)), Ok(Attachment::Open(_))));
    drop(endpoint);
    let begin = Instant::now();
    let after = loop {
        let now = coordinator.cost();
        if now.descriptors <= before.descriptors + DESCRIPTORS_MORE_MAX {
            break now;
        }
        assert!(begin.elapsed() < SOON, "{before:?}, then {now:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let each = (after.processor() - before.processor()) / tried;
    let grown = after.memory_kib.saturating_sub(before.memory_kib);
    println!(
        "{tried} hostile connections: {each:?} of processors each, at most {threads} threads, {before:?}, then {after:?}; honest programs answered within {longest:?}"
    );
    report(each, threads, grown, longest);
    assert!(each < PROCESSOR_OF_ONE_MAX, "{each:?} of processors for each of {tried}");
    assert!(threads <= before.threads + THREADS_MORE_MAX, "{threads} threads, {} before", before.threads);
    assert!(grown < MEMORY_MAX_KIB, "{grown} KiB more");
    assert!(longest < ANSWERED_WITHIN, "an honest program waited {longest:?}");
}

fn report(each: Duration, threads: u64, grown: u64, longest: Duration) {
    let figures = [
        ("us of a processor for each", each.as_secs_f64() * 1e6),
        ("threads", threads as f64),
        ("MiB more", grown as f64 / 1024.0),
        ("ms to an honest answer, at most", longest.as_secs_f64() * 1e3),
    ];
    measured("coordinator", "no certificate, other roles, others' sessions, garbage", &figures);
}
