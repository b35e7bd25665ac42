use super::*;
use crate::same_host::SameHostPeer;
use crate::{DeviceFactory, Limits, OutputSink, Work};
use accord_device::{Device, SameHostPeers, WorkerStart};
use accord_fabric::copy_way::CopyWays;
use accord_fabric::handshake;
use accord_fabric::transfer::{DeviceReceives, IncomingBytes, TransferEnding, TransferTarget};
use accord_fabric::transport::{Listener, Transport, inproc_pair};
use accord_types::{AddressRange, NativeRange, NodeId, TransferId};
use std::sync::mpsc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);

struct NoDevices;

impl DeviceFactory for NoDevices {
    fn create(
        &self,
        _: &Work,
        _: u32,
        _: Option<AddressRange>,
        _: OutputSink,
        _: &Arc<WorkerStart>,
    ) -> Result<Arc<dyn Device>> {
        Err(Error::new(ErrorCode::DeviceUnavailable, "none"))
    }
}

/// A destination whose bytes never arrive.
struct NoTarget;

impl TransferTarget for NoTarget {
    fn export(&self) -> Vec<u8> {
        Vec::new()
    }

    fn native(&self) -> Option<(Arc<DeviceReceives>, NativeRange)> {
        None
    }

    fn is_free(&self) -> bool {
        true
    }

    fn start(&self, _: IncomingBytes, _: TransferEnding) {}
}

fn peers(key: &Key) -> Arc<Peers> {
    let config = ExecutorConfig {
        report: Arc::new(|_| ()),
        node: NodeId(1),
        node_name: "h1".to_owned(),
        session: SessionId(7),
        limits: Limits { ordinals: Vec::new(), memory: 0, streams: 1 },
        key: key.clone(),
        transport: LaneTerms::default(),
        ways: CopyWays::default(),
        devices: Box::new(NoDevices),
    };
    let link = Link::new("h1", PeerId::PROGRAM, Arc::default(), Unposted::Wait);
    let peers = Peers::new(&config, Exchange::new(), Events::new("h1".to_owned(), link), None);
    peers.set_own(PeerId::executor(NodeId(1), 0).unwrap());
    peers
}

/// Returns the lanes that arrive at an agent on this machine, in order.
fn agent(listener: Listener, key: &Key) -> mpsc::Receiver<SharedLane> {
    let (accepted, lanes) = mpsc::channel();
    let key = key.clone();
    std::thread::spawn(move || {
        while let Ok((lane, _)) = listener.accept() {
            let secured = handshake::accept(&*lane, &key, SOON).and_then(|client| client.secure(lane));
            if secured.is_ok_and(|lane| accepted.send(lane).is_err()) {
                return;
            }
        }
    });
    lanes
}

/// An address of this machine may lead elsewhere if no agent has proven to be local.
#[test]
fn executors_of_one_machine_share_memory_and_others_use_tls() {
    let key = Key::random().unwrap();
    let (peers, to) = (peers(&key), PeerId::executor(NodeId(2), 0).unwrap());
    let everywhere = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = everywhere.address().unwrap();
    let words = format!("{address} h9");
    let far = PeerId::executor(NodeId(3), 0).unwrap();
    let local = Listener::bind_local(&Endpoint::new(to.node(), &address)).unwrap();
    for (peer, listener, transport) in [(to, local, Transport::Shm), (far, everywhere, Transport::Tls)] {
        let lanes = agent(listener, &key);
        let link = peers.link(peer, Directions::read(words.as_bytes()).unwrap()).unwrap();
        let lane = lanes.recv_timeout(SOON).unwrap();
        assert_eq!(link.route().unwrap().transport, transport, "{}", link.route().unwrap());
        lane.shutdown();
    }
}

/// The first lane shows that the target is on another host: no thread waits for its handle.
#[test]
fn a_target_on_another_host_is_not_reached() {
    let key = Key::random().unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let words = format!("{} h9", listener.address().unwrap());
    let lanes = agent(listener, &key);
    let (peers, to) = (peers(&key), PeerId::executor(NodeId(2), 0).unwrap());
    let same_host = SameHostPeer { same_host: SameHostPeers::new(|_| ()), peer: to, ways: CopyWays::default() };
    let unconnected = peers.new_link(to).push(&peers.exchange, TransferId(1), 8).unwrap();
    assert!(same_host.may_reach(&unconnected, 8));
    let link = peers.link(to, Directions::read(words.as_bytes()).unwrap()).unwrap();
    let pushing = link.push(&peers.exchange, TransferId(2), 8).unwrap();
    let _lane = lanes.recv_timeout(SOON).unwrap();
    let begun = std::time::Instant::now();
    while !pushing.is_connected() {
        assert!(begun.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!same_host.may_reach(&pushing, 8));
}

/// With its lane a target forgets the transfers that it expected. A later push on a new lane would wait for ever.
#[test]
fn a_push_after_the_loss_of_its_lane_fails_and_does_not_wait() {
    let key = Key::random().unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let words = format!("{} h9", listener.address().unwrap());
    let lanes = agent(listener, &key);
    let (peers, to) = (peers(&key), PeerId::executor(NodeId(2), 0).unwrap());
    let push = |number| {
        peers.link(to, Directions::read(words.as_bytes()).unwrap())?.push(&peers.exchange, TransferId(number), 8)
    };
    let mut first = push(1).unwrap();
    let lane = lanes.recv_timeout(SOON).unwrap();
    lane.shutdown();
    assert!(first.drain(&[0; 8]).is_err());
    let (ended, outcome) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = ended.send(push(2).and_then(|mut second| second.drain(&[0; 8])));
        });
        let outcome = outcome.recv_timeout(SOON);
        // The test does not depend on the waiter.
        peers.exchange.push_lost(to, &Error::new(ErrorCode::DeviceShutdown, "the test is over"));
        assert_eq!(outcome.expect("it waits").unwrap_err().code(), ErrorCode::DeviceUnavailable);
    });
    // After the loss the program names the next lane.
    let next = peers.link(to.on_lane(1), Directions::read(words.as_bytes()).unwrap()).unwrap();
    let _open = lanes.recv_timeout(SOON).expect("a new lane");
    next.push(&peers.exchange, TransferId(3), 8).unwrap();
    let late = peers.link(to, Directions::read(words.as_bytes()).unwrap()).unwrap();
    assert!(
        late.outbox().closed().is_some() && next.outbox().closed().is_none(),
        "what comes late fails, and nothing else"
    );
}

/// For example if it has no thread.
#[test]
fn a_lane_without_a_thread_is_lost() {
    let peers = peers(&Key::random().unwrap());
    let from = PeerId::executor(NodeId(2), 0).unwrap();
    let (lane, far) = inproc_pair();
    let link = peers.new_link(from);
    assert!(matches!(peers.lock().arrive(from, LinkTo(link.clone())), Some(None)));
    peers.exchange.expect(TransferId(1), from, 8, Arc::new(NoTarget)).unwrap();
    drop(PushedLane { peers: peers.clone(), link, lane });
    assert_eq!(far.read(&mut [0; 1]).unwrap(), 0, "the pusher sees it");
    assert!(peers.exchange.is_over(from), "and what it was to push is forgotten");
    assert!(matches!(peers.lock().arrive(from, LinkTo(peers.new_link(from))), Some(None)), "the link too");
}

/// A program that names lane after lane, to an agent that accepts connections and never answers: each has a thread that waits.
#[test]
fn a_program_that_names_lane_after_lane_has_no_threads_without_end() {
    const MOST: u32 = 4;
    let peers = peers(&Key::random().unwrap());
    *peers.lock() = PeerTable::with_limits(1, MOST as usize);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let words = format!("{} h9", listener.local_addr().unwrap());
    let to = PeerId::executor(NodeId(2), 0).unwrap();
    let link = |lane| peers.link(to.on_lane(lane), Directions::read(words.as_bytes()).unwrap());
    for lane in 0..MOST {
        link(lane).unwrap();
    }
    let error = link(MOST).err().expect("one more thread");
    assert!(error.cause().contains("more than 4 connections"), "{error}");
    assert!(link(MOST - 1).is_ok(), "the last one goes on");
    // The threads end with their connections, and others may follow.
    let taken: Vec<_> = (0..MOST).map(|_| listener.accept().unwrap()).collect();
    drop((taken, listener));
    let begun = std::time::Instant::now();
    while let Err(error) = link(MOST) {
        assert!(begun.elapsed() < SOON, "{error}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
