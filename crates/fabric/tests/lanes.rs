//! Lanes that leave a machine: TLS whose ends have proven the session's key, against a man in the middle without it.

use accord_fabric::Key;
use accord_fabric::handshake::{self, ConnectLimits, HELLO_LEN, Hello, Introduced, Purpose, check_secure};
use accord_fabric::peer::PeerId;
use accord_fabric::route::{Endpoint, Found, LaneTerms, Nearness, Route, TransportChoice};
use accord_fabric::transport::{self, Listener, SharedLane, Transport};
use accord_trust::lane::LaneSeeds;
use accord_types::{NodeId, Result, SessionId};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(10);
const PROTOCOL: &[u8] = b"accord-lane/2";
const NODE: NodeId = NodeId(3);
const SECRET: &[u8] = b"secret of both ends: forty-two forty-two forty-2";
/// Bytes of the handshake before TLS: what the client sends, and the server.
const BEFORE: [usize; 2] = [HELLO_LEN + 32, 16 + 64 + 16];

fn hello(purpose: Purpose, index: u16) -> Hello {
    Hello::new(purpose, SessionId(9), index, PeerId::PROGRAM)
}

fn route(address: &str) -> Route {
    let found = Found { nearness: Nearness::Elsewhere, loopback: false };
    Route::choose(Endpoint::new(NODE, address), TransportChoice::Auto.into(), found)
}

/// Accepts the server's end, as an agent and its executor do together.
fn accept(listener: &Listener, key: &Key) -> (Introduced, Result<SharedLane>) {
    let (lane, _) = listener.accept().unwrap();
    let client = handshake::accept(&*lane, key, SOON).unwrap();
    let (agent, executor) = transport::Handover::pair().unwrap();
    agent.send(&*lane, &client).unwrap();
    drop(lane);
    let (lane, handed) = executor.receive().unwrap().unwrap();
    assert_eq!(handed, client);
    (client, handed.secure(lane))
}

/// A change by a man in the middle to one direction. The arguments are the number of earlier bytes, and the next bytes.
type Change = Box<dyn FnMut(usize, &mut Vec<u8>) + Send>;

fn as_it_is() -> Change {
    Box::new(|_, _| ())
}

/// Forwards bytes, changed, until one side ends. Sends all bytes that it read to `seen`.
fn pass_on(mut from: TcpStream, mut to: TcpStream, mut change: Change, seen: mpsc::Sender<Vec<u8>>) {
    std::thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            let mut piece = buffer[..n].to_vec();
            change(all.len(), &mut piece);
            all.extend_from_slice(&buffer[..n]);
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
        let _ = seen.send(all);
    });
}

/// Starts a man in the middle between one client and `server`. Returns its address, and the bytes that it reads: the
/// client's, then the server's.
fn between(server: String, up: Change, down: Change) -> (String, [mpsc::Receiver<Vec<u8>>; 2]) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ((to_up, from_up), (to_down, from_down)) = (mpsc::channel(), mpsc::channel());
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(server).unwrap();
        pass_on(client.try_clone().unwrap(), server.try_clone().unwrap(), up, to_up);
        pass_on(server, client, down, to_down);
    });
    (address, [from_up, from_down])
}

fn listen() -> (Listener, String) {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap().to_string();
    (listener, address)
}

/// A lying resolver may have named this address, at which a relay listens. An agent counts as local only if its socket accepts.
#[test]
fn an_address_of_this_machine_does_not_have_a_lane_go_in_clear() {
    let (_listener, address) = listen();
    let peer = Endpoint::new(NODE, &address);
    let way = |wanted: &str| transport::route_now(&peer, wanted.parse::<TransportChoice>().unwrap().into());
    for wanted in ["auto", "tcp"] {
        let route = way(wanted);
        assert_eq!((route.transport, route.exposed), (Transport::Tls, false), "{route}");
    }
    let _here = Listener::bind_local(&peer).unwrap();
    assert_eq!((way("auto").transport, way("tcp").transport), (Transport::Shm, Transport::Tcp));
}

/// Returns both ends of a lane with a man in the middle, and the bytes that it reads.
fn meet(key: &Key, up: Change, down: Change) -> (Result<SharedLane>, Result<SharedLane>, [mpsc::Receiver<Vec<u8>>; 2]) {
    let (listener, address) = listen();
    let (address, seen) = between(address, up, down);
    let (of_client, client_key) = (address, key.clone());
    let near = std::thread::spawn(move || {
        handshake::connect_by(&route(&of_client), &hello(Purpose::Bulk, 1), &client_key, SOON)
    });
    let (client, far) = accept(&listener, key);
    assert!(client.hello.secure && client.hello.to == Some(NODE));
    (near.join().unwrap(), far, seen)
}

#[test]
fn a_tls_lane_is_confidential_and_intact() {
    let key = Key::random().unwrap();
    let (near, far, seen) = meet(&key, as_it_is(), as_it_is());
    let (near, far) = (near.unwrap(), far.unwrap());
    assert_eq!((near.transport(), far.transport()), (Transport::Tls, Transport::Tls));
    for (from, to) in [(&near, &far), (&far, &near)] {
        from.send(SECRET).unwrap();
        let mut received = [0; SECRET.len()];
        to.read_exact(&mut received).unwrap();
        assert_eq!(received, SECRET);
    }
    near.shutdown();
    far.shutdown();
    for seen in seen {
        let seen = seen.recv_timeout(SOON).unwrap();
        assert!(seen.len() > SECRET.len() && !seen.windows(16).any(|piece| piece == &SECRET[..16]));
        assert!(!seen.windows(16).any(|piece| piece == &key.bytes()[..16]));
    }
}

/// Control for the test above: the man in the middle reads bytes in clear.
#[test]
fn a_lane_in_clear_is_readable_in_the_middle() {
    let key = Key::random().unwrap();
    let (listener, address) = listen();
    let (address, [up, _]) = between(address, as_it_is(), as_it_is());
    let terms = LaneTerms { wanted: TransportChoice::Auto, plain_tcp: true };
    let found = Found { nearness: Nearness::Elsewhere, loopback: false };
    let route = Route::choose(Endpoint::new(NODE, &address), terms, found);
    let of_client = key.clone();
    let near = std::thread::spawn(move || {
        let near = handshake::connect_by(&route, &hello(Purpose::Bulk, 1), &of_client, SOON).unwrap();
        near.send(SECRET).unwrap();
        near.finish().unwrap();
        near
    });
    let (client, far) = accept(&listener, &key);
    assert!(!client.hello.secure);
    let far = far.unwrap();
    let mut received = [0; SECRET.len()];
    far.read_exact(&mut received).unwrap();
    drop((near.join().unwrap(), far));
    assert!(up.recv_timeout(SOON).unwrap().windows(SECRET.len()).any(|piece| piece == SECRET));
}

#[test]
fn every_changed_byte_of_a_lanes_tls_ends_it_with_words() {
    let key = Key::random().unwrap();
    for (direction, before) in BEFORE.into_iter().enumerate() {
        // A record's type, contents of the handshake, and later bytes. A changed length only makes the other side wait.
        for at in [0, 9, 40, 100, 200, 300].map(|at| before + at) {
            let change = || -> Change {
                Box::new(move |before, piece| {
                    if let Some(byte) = at.checked_sub(before).and_then(|at| piece.get_mut(at)) {
                        *byte ^= 1;
                    }
                })
            };
            let (up, down) = if direction == 0 { (change(), as_it_is()) } else { (as_it_is(), change()) };
            let (near, far, _) = meet(&key, up, down);
            let ends = [near, far].map(|end| {
                let lane = end.map_err(|error| error.to_string())?;
                lane.limit(Some(Duration::from_secs(2))).unwrap();
                // More bytes than the changed one are sent.
                lane.send(&[7; 400]).map_err(|error| error.to_string())?;
                Ok::<_, String>(lane)
            });
            let outcomes =
                ends.map(|end| end.and_then(|lane| lane.read_exact(&mut [0; 400]).map_err(|e| e.to_string())));
            let worst: Vec<&String> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
            assert!(!worst.is_empty(), "byte {at} of direction {direction} was changed unnoticed");
        }
    }
}

/// An attacker that relays two handshakes to the end can't splice the lanes: each has its own keys.
#[test]
fn the_tls_of_one_lane_is_none_of_another_of_the_same_session() {
    let key = Key::random().unwrap();
    let (listener, address) = listen();
    let crossed = TcpListener::bind("127.0.0.1:0").unwrap();
    let via = crossed.local_addr().unwrap().to_string();
    // Accepts two clients, forwards each one's handshake on a server connection of its own, then swaps the servers.
    let in_between = std::thread::spawn(move || {
        let shake = |_| {
            let (mut client, _) = crossed.accept().unwrap();
            let mut server = TcpStream::connect(&address).unwrap();
            relay_handshake(&mut client, &mut server);
            (client, server)
        };
        let [(first, of_first), (second, of_second)] = [0, 1].map(shake);
        for (client, server) in [(first, of_second), (second, of_first)] {
            let (unused, _) = mpsc::channel();
            pass_on(client.try_clone().unwrap(), server.try_clone().unwrap(), as_it_is(), unused.clone());
            pass_on(server, client, as_it_is(), unused);
        }
    });
    let clients = [Purpose::Bulk, Purpose::Control].map(|purpose| {
        let (via, key) = (via.clone(), key.clone());
        std::thread::spawn(move || handshake::connect_by(&route(&via), &hello(purpose, 0), &key, SOON))
    });
    let servers = [0, 1].map(|_| {
        let (lane, _) = listener.accept().unwrap();
        let client = handshake::accept(&*lane, &key, SOON).unwrap();
        std::thread::spawn(move || client.secure(lane))
    });
    in_between.join().unwrap();
    for server in servers {
        assert!(server.join().unwrap().is_err());
    }
    for client in clients {
        let error = client.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("does not have the session's key for this lane"), "{error}");
        assert!(error.contains("may be intercepted"), "{error}");
    }
}

/// Both sides refuse an attacker that relays a handshake and then runs TLS with either, by its own keys.
#[test]
fn tls_relay_with_own_keys_is_refused_by_both_ends() {
    let key = Key::random().unwrap();
    let (listener, address) = listen();
    let middle = TcpListener::bind("127.0.0.1:0").unwrap();
    let via = middle.local_addr().unwrap().to_string();
    let in_between = std::thread::spawn(move || {
        let (mut client, _) = middle.accept().unwrap();
        let mut server = TcpStream::connect(&address).unwrap();
        relay_handshake(&mut client, &mut server);
        let own = LaneSeeds { client: [1; 32], server: [2; 32] };
        let [client, server] = [client, server].map(|end| transport::adopt(end.into()).unwrap());
        let (to_accept, to_connect) = (own.to_accept(PROTOCOL).unwrap(), own.to_connect(PROTOCOL).unwrap());
        let of_server = std::thread::spawn(move || transport::connect_tls(server, to_connect, SOON));
        let of_client = transport::accept_tls(client, to_accept, SOON);
        (of_client.is_err(), of_server.join().unwrap().is_err())
    });
    let of_client = key.clone();
    let client =
        std::thread::spawn(move || handshake::connect_by(&route(&via), &hello(Purpose::Command, 0), &of_client, SOON));
    let (_, server) = accept(&listener, &key);
    assert_eq!(in_between.join().unwrap(), (true, true));
    assert!(server.is_err());
    let error = client.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("does not have the session's key for this lane"), "{error}");
}

fn relay_handshake(client: &mut TcpStream, server: &mut TcpStream) {
    let pass = |from: &mut TcpStream, to: &mut TcpStream, len| {
        let mut bytes = vec![0; len];
        from.read_exact(&mut bytes).unwrap();
        to.write_all(&bytes).unwrap();
    };
    pass(client, server, HELLO_LEN);
    pass(server, client, 16 + 64);
    pass(client, server, 32);
    pass(server, client, 16);
}

/// A peer that gets a lane after its handshake, but has another key.
#[test]
fn lane_with_another_key_is_closed() {
    let (key, other) = (Key::random().unwrap(), Key::random().unwrap());
    let (listener, address) = listen();
    let error = std::thread::scope(|scope| {
        let client = scope.spawn(|| handshake::connect_by(&route(&address), &hello(Purpose::Bulk, 0), &key, SOON));
        let (lane, _) = listener.accept().unwrap();
        assert!(handshake::accept(&*lane, &other, SOON).is_err());
        client.join().unwrap().unwrap_err().to_string()
    });
    assert!(error.contains("has another key"), "{error}");
}

/// An executor that is stopped when it has received a lane.
#[test]
fn stopped_peer_before_tls_times_out() {
    let key = Key::random().unwrap();
    let (listener, address) = listen();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let limits = ConnectLimits { introduced: SOON, secured: Duration::from_millis(200) };
            let begun = Instant::now();
            (handshake::connect_by(&route(&address), &hello(Purpose::Bulk, 0), &key, limits), begun.elapsed())
        });
        let (lane, _) = listener.accept().unwrap();
        handshake::accept(&*lane, &key, SOON).unwrap();
        let (connected, took) = client.join().unwrap();
        assert!(connected.is_err() && took < SOON, "{took:?}");
    });
}

#[test]
fn nothing_leaves_a_machine_in_clear_by_mistake() {
    let plain = hello(Purpose::Bulk, 0);
    let secure = Hello { secure: true, ..plain };
    for (hello, leaves, may_be_plain, taken) in [
        (&plain, false, false, true),
        (&plain, true, true, true),
        (&plain, true, false, false),
        (&secure, true, false, true),
        (&secure, false, false, true),
    ] {
        assert_eq!(check_secure(hello, leaves, may_be_plain).is_ok(), taken, "{hello:?}, {leaves}, {may_be_plain}");
    }
    let error = check_secure(&plain, true, false).unwrap_err().to_string();
    assert!(error.contains("in clear") && error.contains("--insecure-plain-tcp"), "{error}");
}

/// A hello that announces TLS can't be changed into one that does not, nor the other way round.
#[test]
fn tls_flag_of_a_hello_is_authenticated() {
    let key = Key::random().unwrap();
    let (listener, address) = listen();
    let flip: Change = Box::new(|before, piece| {
        if before == 0 {
            piece[13] ^= 1;
        }
    });
    let (address, _seen) = between(address, flip, as_it_is());
    let error = std::thread::scope(|scope| {
        let client = scope.spawn(|| handshake::connect_by(&route(&address), &hello(Purpose::Bulk, 0), &key, SOON));
        let (lane, _) = listener.accept().unwrap();
        let server = handshake::accept(&*lane, &key, SOON).unwrap_err();
        assert!(
            server.cause().contains("broke") || server.cause().contains("closed") || server.cause().contains("keys")
        );
        client.join().unwrap().unwrap_err().to_string()
    });
    assert!(error.contains("has another key"), "{error}");
}

#[test]
fn this_machines_own_lanes_do_not_leave_it() {
    let (near, far) = transport::pair().unwrap();
    assert!(!near.properties().leaves_machine && !far.properties().leaves_machine);
    assert!(
        !transport::inproc_pair().0.properties().leaves_machine
            && !transport::shm_pair().unwrap().0.properties().leaves_machine
    );
}
