use super::*;
use crate::key::MAC_LEN;
use crate::peer::PeerId;
use crate::transport::Listener;
use accord_types::SessionId;

const SOON: Duration = Duration::from_secs(5);

fn listen() -> Listener {
    Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap()
}

/// Connects a client without a handshake.
fn raw(addr: &PeerAddress) -> SharedLane {
    transport::connect(&Route::tcp(addr.clone()), "agent", "", SOON, |_| Ok(())).unwrap()
}

/// Runs `client` against one `accept` with `key`. Returns the results of both.
fn meet<T: Send>(
    key: &Key,
    timeout: Duration,
    client: impl FnOnce(PeerAddress) -> T + Send,
) -> (Result<Introduced>, T) {
    let listener = listen();
    let addr = listener.address().unwrap();
    std::thread::scope(|scope| {
        let client = scope.spawn(move || client(addr));
        let (stream, _) = listener.accept().unwrap();
        let hello = accept(&*stream, key, timeout);
        drop(stream);
        (hello, client.join().unwrap())
    })
}

fn hello() -> Hello {
    Hello::new(Purpose::Bulk, SessionId(77), 3, PeerId::PROGRAM)
}

#[test]
fn the_hello_arrives_and_what_follows_stays_in_the_stream() {
    let key = Key::random().unwrap();
    let listener = listen();
    let addr = listener.address().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stream = connect(&addr, &hello(), &key, SOON).unwrap();
            stream.send(b"after").unwrap();
        });
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(accept(&*stream, &key, SOON).unwrap().hello, hello());
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"after");
    });
}

#[test]
fn another_key_is_refused_on_both_sides() {
    let (key, other) = (Key::random().unwrap(), Key::random().unwrap());
    let (server, client) = meet(&key, SOON, |addr| connect(&addr, &hello(), &other, SOON).map(drop));
    assert!(client.unwrap_err().to_string().contains("has another key"));
    assert!(server.is_err());
}

#[test]
fn client_without_the_key_gets_the_reason() {
    let key = Key::random().unwrap();
    let (server, answer) = meet(&key, SOON, |addr| {
        let stream = raw(&addr);
        stream.send(&hello().encode(&[1; 32])).unwrap();
        stream.send(&[9; MAC_LEN]).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        String::from_utf8_lossy(&all).into_owned()
    });
    assert!(answer.contains("the keys differ"), "{answer}");
    assert!(server.unwrap_err().cause().contains("the keys differ"));
}

#[test]
fn a_neighbouring_release_is_served() {
    let key = Key::random().unwrap();
    let (server, client) = meet(&key, SOON, |addr| {
        let hello = Hello { version: VERSION + 1, ..hello() };
        connect(&addr, &hello, &key, SOON).map(drop)
    });
    client.unwrap();
    assert_eq!(server.unwrap().hello.version, VERSION + 1);
}

#[test]
fn another_version_is_named_with_the_remedy() {
    let key = Key::random().unwrap();
    let (server, client) = meet(&key, SOON, |addr| {
        let hello = Hello { version: 9, ..hello() };
        connect(&addr, &hello, &key, SOON).map(drop)
    });
    let both = format!("the client speaks protocol 9, this side {VERSION}");
    assert!(client.unwrap_err().cause().contains(&both));
    assert!(server.unwrap_err().cause().contains(&both));

    // A server of another version.
    let listener = listen();
    let addr = listener.address().unwrap();
    let error = std::thread::scope(|scope| {
        let client = scope.spawn(|| connect(&addr, &hello(), &key, SOON).map(drop));
        let (stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; HELLO_LEN]).unwrap();
        let mut bytes = answer(0, 0);
        bytes[8..12].copy_from_slice(&(VERSION + 2).to_le_bytes());
        stream.send(&bytes).unwrap();
        client.join().unwrap().unwrap_err()
    });
    assert_eq!(
        error.to_string(),
        format!(
            "the agent at {addr} speaks protocol {}, this program {VERSION} [acc_error_device_unavailable]; \
             install the same version on both: only neighbouring releases work together",
            VERSION + 2
        )
    );
}

#[test]
fn garbage_is_answered_with_a_refusal() {
    let key = Key::random().unwrap();
    let (server, answer) = meet(&key, SOON, |addr| {
        let stream = raw(&addr);
        stream.send(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n").unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    });
    assert!(server.unwrap_err().cause().contains("magic"));
    assert_eq!(answer[..8], MAGIC);
}

#[test]
fn half_a_hello_and_silence_end_by_the_deadline() {
    let key = Key::random().unwrap();
    let (server, ()) = meet(&key, Duration::from_millis(100), |addr| {
        let stream = raw(&addr);
        stream.send(&hello().encode(&[1; 32])[..20]).unwrap();
        // Silence until the server gives up.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert!(server.unwrap_err().cause().contains("in time"));
}

#[test]
fn a_server_that_never_answers_ends_by_the_deadline() {
    let key = Key::random().unwrap();
    let listener = listen();
    let addr = listener.address().unwrap();
    let error = connect(&addr, &hello(), &key, Duration::from_millis(100)).unwrap_err();
    assert!(error.cause().contains("in time"), "{error}");
    drop(listener);
}

#[test]
fn a_condition_refuses_with_its_cause_and_remedy() {
    let key = Key::random().unwrap();
    let listener = listen();
    let addr = listener.address().unwrap();
    for transient in [false, true] {
        let error = std::thread::scope(|scope| {
            let client = scope.spawn(|| connect(&addr, &hello(), &key, SOON).map(drop));
            let (stream, _) = listener.accept().unwrap();
            let refuse = |hello: &Hello| {
                let error = unavailable(format!("no session {}", hello.session)).remedy("open one");
                Err(if transient { error.transient() } else { error })
            };
            assert!(accept_if(&*stream, SOON, |_| Ok(key.clone()), refuse).is_err());
            client.join().unwrap().unwrap_err()
        });
        assert!(error.cause().contains("no session s77; open one"), "{error}");
        assert_eq!(error.is_transient(), transient);
    }
}

#[test]
fn every_hello_comes_back_and_no_garbage_is_taken() {
    use proptest::prelude::*;
    proptest!(|(bytes in proptest::array::uniform32(any::<u8>()), index: u16, session: u64, from: u32)| {
        let hello = Hello::new(Purpose::Peer, SessionId(session), index, PeerId::from_raw(from));
        prop_assert_eq!(Hello::decode(&hello.encode(&bytes)).unwrap(), hello);
        let mut garbage = [0; HELLO_LEN];
        garbage[..32].copy_from_slice(&bytes);
        prop_assert!(Hello::decode(&garbage).is_err());
    });
}

#[test]
fn a_closed_connection_is_an_error() {
    let key = Key::random().unwrap();
    let (server, ()) = meet(&key, SOON, |addr| {
        raw(&addr).shutdown();
    });
    assert!(server.unwrap_err().cause().contains("closed"));
}
