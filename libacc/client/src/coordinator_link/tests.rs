//! Tests of a link with a coordinator under the test's control.

use super::*;
use accord_fabric::frame::session::{HEADER_LEN, REQUEST_MAX};
use accord_fabric::transport::PeerAddress;
use accord_trust::attest::TAKEN;
use accord_trust::{Identity, Trust};
use accord_types::{Lease, OrderPolicy, SessionId, SessionKey, SessionRequest};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use tempfile::TempDir;

/// A time limit that no test reaches.
const OPEN_LIMIT: Duration = Duration::from_secs(60);

/// The coordinator's end of the session's connection.
struct Coordinator {
    stream: UnixStream,
    listener: UnixListener,
    _folder: TempDir,
}

/// Accepts a program's connection.
fn accept(listener: &UnixListener) -> UnixStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut length = [0];
    stream.read_exact(&mut length).unwrap();
    let mut protocol = vec![0; usize::from(length[0])];
    stream.read_exact(&mut protocol).unwrap();
    assert_eq!(protocol, session_endpoint::PROTOCOL.as_bytes());
    stream.write_all(&[TAKEN]).unwrap();
    stream
}

impl Coordinator {
    fn read(&mut self) -> Message {
        let mut header = [0; HEADER_LEN];
        self.stream.read_exact(&mut header).unwrap();
        let (kind, length) = Message::header(&header, REQUEST_MAX).unwrap();
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        Message::decode(kind, &body).unwrap()
    }

    fn say(&mut self, message: &Message) {
        self.stream.write_all(&message.encode()).unwrap();
    }

    fn allow(&mut self, device: DeviceId) {
        self.say(&Message::UseAnswered { device, error: None });
    }

    /// Accepts a program, which opens a session.
    fn accept(listener: UnixListener, folder: TempDir, lease: Lease) -> Self {
        let mut coordinator = Self { stream: accept(&listener), listener, _folder: folder };
        assert!(matches!(coordinator.read(), Message::Open(_)));
        coordinator.say(&Message::Granted(lease));
        coordinator
    }

    /// Breaks the connection, as at the coordinator's end.
    fn hang_up(&self) {
        self.stream.shutdown(Shutdown::Both).unwrap();
    }

    /// Accepts the program that comes back.
    fn accept_again(&mut self) {
        self.stream = accept(&self.listener);
        assert!(matches!(self.read(), Message::Attach(_)));
        self.say(&Message::Attached);
    }
}

/// Ends the session, also when a test fails, so that its threads end.
struct Closes<'a>(&'a CoordinatorLink);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Returns the first device of a node.
fn device(node: u32) -> DeviceId {
    DeviceId { node: NodeId(node), ordinal: 0 }
}

/// Opens a session of a program that requests nothing. A policy may request a job for it: `is_of_job`.
fn open(is_of_job: bool) -> (Arc<CoordinatorLink>, Coordinator) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("coordinator");
    let listener = UnixListener::bind(&socket).unwrap();
    let address = PeerAddress::new(format!("unix:{}", socket.display()));
    let (session, key) = (SessionId(7), SessionKey(std::array::from_fn(|at| (at * at * 7 + 5) as u8)));
    let request = SessionRequest {
        node_name: "h0".into(),
        pid: 1,
        program: "app".into(),
        rank: None,
        kind: None,
        order: OrderPolicy::Local,
        devices: None,
        job: None,
    };
    let lease = Lease {
        session,
        key,
        own_node: Some(NodeId(0)),
        devices: Vec::new(),
        memory_quota: 0,
        stream_quota: 0,
        plain_tcp: false,
        is_of_job,
    };
    let ((lease, connection), coordinator) = std::thread::scope(|scope| {
        let opens = scope.spawn(|| session_endpoint::open(&address, &Identity::of_system(), SESSION_TIMEOUT, &request));
        let coordinator = Coordinator::accept(listener, folder, lease);
        (opens.join().unwrap().unwrap(), coordinator)
    });
    let claim = Claim { session, key, request };
    let at = crate::settings::Coordinator { address, trust: Trust::of_system() };
    (CoordinatorLink::new(at, claim, connection, lease.is_of_job, OPEN_LIMIT), coordinator)
}

/// Listens like the session's thread.
fn listen(link: &CoordinatorLink) {
    let ended = link.listen(&OwnUse::new(SessionId(7), Vec::new()), |message| {
        if matches!(message, Message::Ended(_)) {
            link.session_is_over();
        }
    });
    assert_eq!(ended, None);
}

#[test]
fn a_thread_that_waits_for_an_answer_delays_no_other() {
    let (link, mut coordinator) = open(false);
    let (own, far) = (device(0), device(1));
    std::thread::scope(|scope| {
        let _closes = Closes(&link);
        scope.spawn(|| listen(&link));
        let first = scope.spawn(|| link.use_device(far));
        assert_eq!(coordinator.read(), Message::MayUse(far));
        let second = scope.spawn(|| link.use_own_device(own));
        assert_eq!(coordinator.read(), Message::MayUse(own));
        coordinator.allow(own);
        second.join().unwrap().unwrap();
        coordinator.allow(far);
        first.join().unwrap().unwrap();
    });
}

#[test]
fn no_device_waits_for_an_answer_once_the_session_is_over() {
    let (link, mut coordinator) = open(false);
    std::thread::scope(|scope| {
        let _closes = Closes(&link);
        scope.spawn(|| listen(&link));
        let waits = scope.spawn(|| link.use_device(device(1)));
        assert_eq!(coordinator.read(), Message::MayUse(device(1)));
        coordinator.say(&Message::Ended("an administrator has closed it".into()));
        drop(coordinator);
        waits.join().unwrap().unwrap();
        link.use_device(device(2)).unwrap();
    });
}

#[test]
fn a_device_of_a_job_by_a_policy_waits_for_no_answer() {
    let (link, mut coordinator) = open(true);
    link.use_device(device(1)).unwrap();
    assert_eq!(coordinator.read(), Message::MayUse(device(1)));
}

#[test]
fn next_coordinator_learns_of_devices_started_without_one() {
    let (link, mut coordinator) = open(false);
    let (own, far) = (device(0), device(1));
    std::thread::scope(|scope| {
        let _closes = Closes(&link);
        scope.spawn(|| listen(&link));
        coordinator.hang_up();
        link.use_own_device(own).unwrap();
        assert!(!link.agent_knows(own.node), "a lane to the agent would wait in vain");
        coordinator.accept_again();
        assert_eq!(coordinator.read(), Message::InUse(vec![own]));
        let begins = scope.spawn(|| link.use_device(far));
        assert_eq!(coordinator.read(), Message::MayUse(far));
        assert!(link.agent_knows(own.node));
        coordinator.allow(far);
        begins.join().unwrap().unwrap();
    });
}

/// The thread that comes back to another coordinator may run at any moment.
#[test]
fn a_device_whose_question_has_no_answer_is_in_use_already() {
    let (link, _coordinator) = open(false);
    let connection = link.lock().connection.take();
    drop(connection);
    assert!(link.ask(device(0), OPEN_LIMIT, false).is_none());
    assert!(link.lock().used.contains(&device(0)));
}

#[test]
fn a_refused_device_is_not_in_use() {
    let (link, mut coordinator) = open(false);
    let own = device(0);
    std::thread::scope(|scope| {
        let _closes = Closes(&link);
        scope.spawn(|| listen(&link));
        let begins = scope.spawn(|| link.use_own_device(own));
        assert_eq!(coordinator.read(), Message::MayUse(own));
        let error = Some(Error::new(ErrorCode::DeviceUnavailable, "job 3 has it to itself"));
        coordinator.say(&Message::UseAnswered { device: own, error });
        assert!(begins.join().unwrap().is_err());
        assert!(link.lock().used.is_empty() && !link.agent_knows(own.node));
    });
}
