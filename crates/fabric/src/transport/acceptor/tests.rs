use super::*;
use crate::handshake::{self, HELLO_LEN, Purpose};
use crate::key::MAC_LEN;
use crate::peer::PeerId;
use crate::route::Endpoint;
use crate::transport::local_socket::LocalName;
use crate::transport::{PeerAddress, SharedLane, socket};
use accord_types::{NodeId, SessionId};
use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;

const SOON: Duration = Duration::from_secs(10);
/// Leading bytes of a hello that hold no field yet.
const BEGINNING: usize = 12;

fn listen() -> (Acceptor, PeerAddress) {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    (watched(listener), address)
}

/// Returns an acceptor that is woken at intervals, so that a failing test ends.
fn watched(listener: Listener) -> Acceptor {
    let acceptor = Acceptor::new(listener).unwrap();
    let waker = acceptor.waker();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(SOON);
            waker.wake();
        }
    });
    acceptor
}

/// Runs the acceptor to its next outcome, with a time limit.
fn arrival(acceptor: &mut Acceptor, key_of: &mut KeyOf<'_>) -> Outcome {
    until(acceptor, key_of, |acceptor| !acceptor.outcomes.is_empty());
    acceptor.next_outcome(key_of).unwrap()
}

fn hello() -> [u8; HELLO_LEN] {
    Hello::new(Purpose::Bulk, SessionId(7), 0, PeerId::PROGRAM).encode(&[3; 32])
}

/// Connects and sends `words`. Returns the connection and its name.
fn says(address: &PeerAddress, words: &[u8]) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(address.as_str()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(words).unwrap();
    (stream.local_addr().unwrap().to_string(), stream)
}

/// Connects as a client with a valid hello and key.
fn comes(address: &PeerAddress, session: u64, key: &Key) -> JoinHandle<Result<SharedLane>> {
    let (address, key) = (address.clone(), key.clone());
    let hello = Hello::new(Purpose::Bulk, SessionId(session), 0, PeerId::PROGRAM);
    std::thread::spawn(move || handshake::connect(&address, &hello, &key, SOON))
}

fn refusal(mut stream: TcpStream) -> String {
    let mut printed = Vec::new();
    stream.read_to_end(&mut printed).unwrap();
    String::from_utf8_lossy(&printed).into_owned()
}

/// Polls until `so` holds.
fn until(acceptor: &mut Acceptor, key_of: &mut KeyOf<'_>, so: impl Fn(&Acceptor) -> bool) {
    let begun = Instant::now();
    while !so(acceptor) {
        assert!(begun.elapsed() < SOON, "the condition never held: {acceptor:?}");
        acceptor.poll(key_of).unwrap();
    }
}

/// Whether no unproven connection has poll events.
fn is_quiet(acceptor: &Acceptor) -> bool {
    let mut polled: Vec<_> = acceptor.silent.polled().chain(acceptor.unproven.polled()).collect();
    poll(&mut polled, Some(&Timespec::default())).unwrap() == 0
}

#[test]
fn a_proven_client_passes_crowds_of_unproven_ones() {
    let (mut acceptor, address) = listen();
    let key = Key::random().unwrap();
    let crowds = {
        let address = address.clone();
        std::thread::spawn(move || {
            let unknown = Hello::new(Purpose::Bulk, SessionId(8), 0, PeerId::PROGRAM).encode(&[3; 32]);
            let words: [&[u8]; 4] = [b"", b"ACCORD\r\n", &hello(), &unknown];
            let one = |at: usize| says(&address, words[at % 4]).1;
            (0..4 * (SILENT_OF_ONE_ADDRESS_MAX + 20)).map(one).collect::<Vec<_>>()
        })
    };
    let mut refused = 0;
    let mut key_of = |hello: &Hello, since: Instant| match hello.session {
        SessionId(7) => Ok(RequiredProof::Key(key.clone())),
        _ => Ok(RequiredProof::Later(since + SOON)),
    };
    until(&mut acceptor, &mut key_of, |_| crowds.is_finished());
    let crowds = crowds.join().unwrap();
    until(&mut acceptor, &mut key_of, |acceptor| {
        acceptor.unproven.lanes.len() == UNPROVEN_OF_ONE_ADDRESS_MAX && is_quiet(acceptor)
    });
    let honest = comes(&address, 7, &key);
    let proven = loop {
        match arrival(&mut acceptor, &mut key_of) {
            Outcome::Proven(incoming, proven) => break (incoming, proven),
            Outcome::Refused(_, why) => {
                assert!(why.is_transient(), "{why}");
                refused += 1;
            }
        }
    };
    // The oldest of the crowd were refused. Silent connections are closed without a message.
    assert!(refused >= 2 * 20, "{refused}");
    for space in [&acceptor.silent, &acceptor.unproven] {
        assert!(space.lanes.len() <= SILENT_OF_ONE_ADDRESS_MAX && space.lanes.len() == space.places.len());
    }
    let (incoming, proven) = proven;
    assert_eq!(proven.hello.session, SessionId(7));
    proven.welcome(&*incoming.lane, SOON, |_| Ok(())).unwrap();
    let lane = honest.join().unwrap().unwrap();
    assert_eq!(lane.transport(), incoming.lane.transport());
    // The lane's low-water mark is one byte again.
    lane.send(b"!").unwrap();
    incoming.lane.read_exact(&mut [0]).unwrap();
    drop(crowds);
}

#[test]
fn an_incomplete_message_raises_no_poll_event() {
    let (mut acceptor, address) = listen();
    let key = Key::random().unwrap();
    let mut key_of = |_: &Hello, _| Ok(RequiredProof::Key(key.clone()));
    let halves = [3, BEGINNING - 1, BEGINNING, HELLO_LEN - 1].map(|at| (at, says(&address, &hello()[..at]).1));
    let all = [&hello()[..], &[0; 31]].concat();
    let (name, mut unproven) = says(&address, &all);
    until(&mut acceptor, &mut key_of, |acceptor| {
        (acceptor.silent.lanes.len(), acceptor.unproven.lanes.len()) == (4, 1) && is_quiet(acceptor)
    });
    assert!(acceptor.outcomes.is_empty());
    // One more byte of an incomplete message raises no event.
    for (at, mut half) in [(3, &halves[0].1), (BEGINNING, &halves[2].1)] {
        half.write_all(&hello()[at..=at]).unwrap();
    }
    assert!(is_quiet(&acceptor));
    // The rest is sent, in another order.
    for ((_, half), at) in halves.iter().zip([4, BEGINNING - 1, BEGINNING + 1, HELLO_LEN - 1]).rev() {
        let mut half = half;
        half.write_all(&hello()[at..]).unwrap();
    }
    until(&mut acceptor, &mut key_of, |acceptor| {
        (acceptor.silent.lanes.len(), acceptor.unproven.lanes.len()) == (0, 5) && is_quiet(acceptor)
    });
    unproven.write_all(&[0]).unwrap();
    let Outcome::Refused(refused, why) = arrival(&mut acceptor, &mut key_of) else { panic!("let in") };
    assert_eq!((refused, why.cause()), (name, "the keys differ"));
    assert!(refusal(unproven).contains("the keys differ"));
}

#[test]
fn an_unknown_session_is_awaited_and_then_challenged() {
    let (mut acceptor, address) = listen();
    let (key, known, asked) = (Key::random().unwrap(), Cell::new(false), RefCell::new(Vec::new()));
    let mut key_of = |_: &Hello, since: Instant| {
        asked.borrow_mut().push(since);
        Ok(if known.get() { RequiredProof::Key(key.clone()) } else { RequiredProof::Later(since + SOON) })
    };
    let honest = comes(&address, 7, &key);
    let (_, gone) = says(&address, &hello());
    let (_, talks) = says(&address, &[&hello()[..], b"and unsolicited bytes"].concat());
    until(&mut acceptor, &mut key_of, |acceptor| acceptor.unproven.lanes.len() == 3);
    assert!(is_quiet(&acceptor));
    // The acceptor does not repeat the question without a reason. A client that hangs up is dropped.
    drop(gone);
    until(&mut acceptor, &mut key_of, |acceptor| acceptor.unproven.lanes.len() == 2);
    assert!(is_quiet(&acceptor));
    drop(talks);
    until(&mut acceptor, &mut key_of, |acceptor| acceptor.unproven.lanes.len() == 1);
    assert_eq!(asked.borrow().len(), 3);
    known.set(true);
    let waker = acceptor.waker();
    std::thread::spawn(move || waker.wake());
    let Outcome::Proven(incoming, proven) = arrival(&mut acceptor, &mut key_of) else { panic!("refused") };
    // The question carries the time at which the connection was accepted.
    let asked = asked.borrow();
    assert!(asked.len() == 4 && asked[..3].contains(&asked[3]), "{asked:?}");
    proven.welcome(&*incoming.lane, SOON, |_| Ok(())).unwrap();
    honest.join().unwrap().unwrap();
}

#[test]
fn a_client_is_refused_when_its_session_is_not_announced_in_time() {
    let (mut acceptor, address) = listen();
    let mut key_of = |_: &Hello, since: Instant| {
        let end = since + Duration::from_millis(50);
        if Instant::now() < end {
            return Ok(RequiredProof::Later(end));
        }
        Err(Error::new(ErrorCode::DeviceUnavailable, "the session is unknown").transient())
    };
    let honest = comes(&address, 7, &Key::random().unwrap());
    let Outcome::Refused(_, why) = arrival(&mut acceptor, &mut key_of) else { panic!("let in") };
    assert_eq!(why.cause(), "the session is unknown");
    let error = honest.join().unwrap().unwrap_err();
    assert!(error.cause().contains("the session is unknown") && error.is_transient(), "{error}");
    // The acceptor reads from the refused client until it hangs up.
    until(&mut acceptor, &mut key_of, |acceptor| acceptor.unproven.lanes.is_empty());
}

#[test]
fn a_malformed_hello_is_refused_with_the_reason() {
    let (mut acceptor, address) = listen();
    let mut key_of = |_: &Hello, _| panic!("no hello was sent");
    for (words, why) in [
        (&b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"[..], "magic bytes"),
        (b"ACCORD\r\n\xff\0\0\0and a longer hello", "protocol 255"),
        (&[0xff; 400], "magic bytes"),
    ] {
        let (name, stream) = says(&address, words);
        let Outcome::Refused(refused, error) = arrival(&mut acceptor, &mut key_of) else { panic!("let in") };
        assert!(refused == name && error.cause().contains(why), "{refused}: {error}");
        // The client can read the refusal although its input was not consumed: the acceptor reads until it hangs up.
        assert_eq!(acceptor.unproven.lanes.len(), 1);
        let printed = std::thread::spawn(move || refusal(stream));
        until(&mut acceptor, &mut key_of, |acceptor| acceptor.unproven.lanes.is_empty());
        assert!(printed.join().unwrap().contains(why));
    }
    let (name, stream) = says(&address, &hello()[..20]);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let Outcome::Refused(refused, error) = arrival(&mut acceptor, &mut key_of) else { panic!("let in") };
    assert!(refused == name && error.cause().contains("no Accord introduction"), "{refused}: {error}");
    // A client that only probes the port gets no message.
    drop(says(&address, b""));
    until(&mut acceptor, &mut key_of, |acceptor| {
        acceptor.silent.lanes.is_empty() && acceptor.unproven.lanes.is_empty() && acceptor.outcomes.is_empty()
    });
}

#[test]
fn a_proven_connection_can_be_refused() {
    let (mut acceptor, address) = listen();
    let key = Key::random().unwrap();
    let mut key_of = |_: &Hello, _| Ok(RequiredProof::Key(key.clone()));
    let honest = comes(&address, 7, &key);
    let Outcome::Proven(incoming, _) = arrival(&mut acceptor, &mut key_of) else { panic!("refused") };
    acceptor.turn_away(incoming, Error::new(ErrorCode::DeviceUnavailable, "there is no room").transient());
    assert!(matches!(arrival(&mut acceptor, &mut key_of), Outcome::Refused(..)));
    let error = honest.join().unwrap().unwrap_err();
    assert!(error.cause().contains("there is no room") && error.is_transient(), "{error}");
}

#[test]
fn local_connections_may_send_byte_by_byte() {
    let endpoint = Endpoint::new(NodeId(3), PeerAddress::new(format!("acceptor-{}", std::process::id())));
    let mut acceptor = watched(Listener::bind_local(&endpoint).unwrap());
    let key = Key::random().unwrap();
    let mut key_of = |_: &Hello, _| Ok(RequiredProof::Key(key.clone()));
    let comes = || -> SharedLane { Arc::new(socket::plain(LocalName::new(&endpoint).unwrap().connect().unwrap())) };
    let dribbles = comes();
    for byte in hello() {
        dribbles.send(&[byte]).unwrap();
        acceptor.poll(&mut key_of).unwrap();
    }
    until(&mut acceptor, &mut key_of, |acceptor| acceptor.unproven.lanes.len() == 1);
    let mut challenge = [0; 80];
    dribbles.read_exact(&mut challenge).unwrap();
    let proof = key.prove(&[b"accord client", &hello(), &challenge[16..48]]);
    let (most, last) = proof.split_at(MAC_LEN - 1);
    dribbles.send(most).unwrap();
    until(&mut acceptor, &mut key_of, is_quiet);
    assert!(acceptor.outcomes.is_empty());
    dribbles.send(last).unwrap();
    let Outcome::Proven(incoming, _) = arrival(&mut acceptor, &mut key_of) else { panic!("refused") };
    assert!(incoming.lane.properties().client.is_some());
    // A client that hangs up before its proof is dropped.
    let gone = comes();
    gone.send(&hello()).unwrap();
    until(&mut acceptor, &mut key_of, |acceptor| acceptor.unproven.lanes.len() == 1);
    drop(gone);
    until(&mut acceptor, &mut key_of, |acceptor| acceptor.unproven.lanes.is_empty());
}

#[test]
fn connections_closed_for_lack_of_descriptors_get_the_reason() {
    let (mut acceptor, address) = listen();
    let mut key_of = |_: &Hello, since: Instant| Ok(RequiredProof::Later(since + SOON));
    let (name, unproven) = says(&address, &hello());
    until(&mut acceptor, &mut key_of, |acceptor| acceptor.unproven.lanes.len() == 1);
    let (silent_name, silent) = says(&address, b"");
    until(&mut acceptor, &mut key_of, |acceptor| acceptor.silent.lanes.len() == 1);
    let why = no_more(&rustix::io::Errno::MFILE.into());
    for (name, stream) in [(silent_name, silent), (name, unproven)] {
        acceptor.make_space(&why).unwrap();
        assert!(refusal(stream).contains("Too many open files"));
        let outcome = arrival(&mut acceptor, &mut key_of);
        let Outcome::Refused(refused, why) = outcome else { panic!("{outcome:?}") };
        assert!(refused == name && why.is_transient() && why.to_string().contains("ulimit -n"), "{why}");
    }
    assert!(acceptor.make_space(&why).is_none());
}
