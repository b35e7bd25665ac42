//! Agents learn of a session before its program may use their nodes. A coordinator that is killed right after the
//! program has its answer has informed them.
//!
//! The coordinator runs on this test's own thread, one task after the other. Once the answer is in the program's
//! socket, the thread does nothing more for the coordinator, as if it were killed.

use crate::requests::{register, request};
use accord_coordinator::service::{Attestation, Driver, DriverSettings, Listeners, listen_here, serve};
use accord_fabric::frame::session::{HEADER_LEN, Message, REPLY_MAX};
use accord_fabric::session_endpoint;
use accord_proto::v1::registry_client::RegistryClient;
use accord_proto::{channel, v1};
use accord_trust::attest::TAKEN;
use accord_trust::issue::Authority;
use accord_trust::{Identity, Role, Trust, local};
use accord_types::{DeviceId, NodeId};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};
use tokio_stream::wrappers::ReceiverStream;
use v1::{agent_message, coordinator_message};

const SOON: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);
/// Some connect by TCP, the others by the UNIX socket.
const AGENTS: usize = 12;

/// A message that an agent has received.
#[derive(PartialEq, Eq, Debug)]
enum ReceivedMessage {
    Registered,
    Session,
}

/// Runs an agent until the coordinator ends.
fn attend(address: String, own: Identity, name: String, observed: &SyncSender<ReceivedMessage>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let reach = channel::Coordinator::new(&address, Arc::new(Trust::fixed(own)), SOON);
        let mut client = RegistryClient::new(reach.connect(|endpoint| endpoint).await.unwrap());
        let (outbox, messages) = tokio::sync::mpsc::channel(1);
        let register = v1::Register { address: "127.0.0.1:77".into(), ..register(&name) };
        let first = v1::AgentMessage { body: Some(agent_message::Body::Register(register)) };
        outbox.send(first).await.unwrap();
        let mut inbound = client.attend(ReceiverStream::new(messages)).await.unwrap().into_inner();
        while let Ok(Some(message)) = inbound.message().await {
            let reported = match message.body.unwrap() {
                coordinator_message::Body::Registered(_) => ReceivedMessage::Registered,
                coordinator_message::Body::SessionOpened(_) => ReceivedMessage::Session,
                other => panic!("{other:?}"),
            };
            if observed.send(reported).is_err() {
                break;
            }
        }
    });
}

/// A program's connection, read without blocking.
struct Program(UnixStream);

impl Program {
    fn connect(path: &std::path::Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self(stream)
    }

    fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Runs the coordinator, a task at a time, until it has written the next message to this program.
    async fn next(&mut self) -> Message {
        let mut header = [0; HEADER_LEN];
        self.await_all(&mut header).await;
        let (kind, length) = Message::header(&header, REPLY_MAX).unwrap();
        let mut body = vec![0; length];
        self.await_all(&mut body).await;
        Message::decode(kind, &body).unwrap()
    }

    async fn await_all(&mut self, to: &mut [u8]) {
        let mut at = 0;
        while at < to.len() {
            at += self.await_bytes(&mut to[at..]).await;
        }
    }

    /// Runs the coordinator, a task at a time, until it has written bytes to this program. Stores them in `to` and
    /// returns their number.
    async fn await_bytes(&mut self, to: &mut [u8]) -> usize {
        let begin = Instant::now();
        loop {
            match self.0.read(to) {
                Ok(read) => return read,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            assert!(begin.elapsed() < SOON, "no answer");
            tokio::task::yield_now().await;
        }
    }
}

/// Runs the coordinator until all agents have registered.
async fn await_registered(observed: &Receiver<ReceivedMessage>) {
    let (mut registered, begin) = (0, Instant::now());
    while registered < AGENTS {
        match observed.try_recv() {
            Ok(what) => {
                assert_eq!(what, ReceivedMessage::Registered);
                registered += 1;
            }
            Err(_) => tokio::task::yield_now().await,
        }
        assert!(begin.elapsed() < SOON, "only {registered} agents have registered");
    }
}

#[test]
fn agents_hear_of_a_session_before_its_program_uses_their_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("coordinator");
    let authority = Authority::new("tests", HOUR).unwrap();
    let own = authority.identity(Role::Coordinator, HOUR).unwrap();
    let (hear, observed) = mpsc::sync_channel(2 * AGENTS);
    // The test checks the program's socket after each task.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(1).build().unwrap();
    let agents = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let tcp = Some((listener, Arc::new(Trust::fixed(own))));
        let listeners =
            Listeners { tcp, local: Some(listen_here(&path).unwrap()), page: None, program_lost_after: HOUR };
        let driver = Arc::new(Driver::new(DriverSettings::default()));
        tokio::spawn(async move { serve(&listeners, Attestation::default(), driver, std::future::pending()).await });

        let agents: Vec<_> = (0..AGENTS)
            .map(|number| {
                let name = format!("h{number}");
                let own = authority.identity(Role::Agent(name.clone()), HOUR).unwrap();
                let here = format!("{}{}", local::SCHEME, path.display());
                let (address, hear) = (if number % 3 == 0 { here } else { address.clone() }, hear.clone());
                std::thread::spawn(move || attend(address, own, name, &hear))
            })
            .collect();
        await_registered(&observed).await;

        let mut program = Program::connect(&path);
        let name = session_endpoint::PROTOCOL.as_bytes();
        program.say(&[&[u8::try_from(name.len()).unwrap()], name].concat());
        let mut answer = [0; 64];
        assert_eq!((program.await_bytes(&mut answer).await, answer[0]), (1, TAKEN));
        let request = request("h1");
        program.say(&Message::Open(request).encode());
        assert!(matches!(program.next().await, Message::Granted(_)), "it is not served");
        assert!(observed.try_recv().is_err(), "no agent has to know of it yet");

        for node in 0..AGENTS {
            let device = DeviceId { node: NodeId(u32::try_from(node).unwrap()), ordinal: 0 };
            program.say(&Message::MayUse(device).encode());
            assert_eq!(program.next().await, Message::UseAnswered { device, error: None });
        }
        // From here on the coordinator does not run.
        for reported in 0..AGENTS {
            match observed.recv_timeout(SOON) {
                Ok(what) => assert_eq!(what, ReceivedMessage::Session),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the program may use all nodes, and only {reported} agents know of it")
                }
                Err(error) => panic!("{error}"),
            }
        }
        agents
    });
    drop(runtime);
    for agent in agents {
        agent.join().unwrap();
    }
}
