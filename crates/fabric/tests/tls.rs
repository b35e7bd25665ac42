//! TLS lanes against a man in the middle. He can read no plaintext, any change ends the lane, and bytes that are not TLS
//! are refused.

mod common;

use accord_fabric::transport::{Lane, SharedLane, accept_tls, adopt, connect_tls};
use accord_trust::explain;
use common::{PROTOCOL, SHORT, SOON, identities, pattern};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A change to each record of one direction.
type Tamper = Box<dyn FnMut(&mut Vec<u8>) + Send>;

fn untouched() -> Tamper {
    Box::new(|_| {})
}

/// Returns two connections through a man in the middle: to the server, and back. He may change both directions.
fn between(mut there: Tamper, mut back: Tamper) -> (SharedLane, SharedLane) {
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (outer, inner) = (listen(), listen());
    let client = TcpStream::connect(outer.local_addr().unwrap()).unwrap();
    let (near, _) = outer.accept().unwrap();
    let far = TcpStream::connect(inner.local_addr().unwrap()).unwrap();
    let (server, _) = inner.accept().unwrap();
    let carry = |mut from: TcpStream, mut to: TcpStream, tamper: &mut Tamper| {
        while let Some(mut piece) = record(&mut from) {
            tamper(&mut piece);
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    };
    let (near2, far2) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    std::thread::spawn(move || carry(near, far, &mut there));
    std::thread::spawn(move || carry(far2, near2, &mut back));
    let lanes = [client, server].map(|stream| adopt(stream.into()).unwrap());
    let [client, server] = lanes;
    (client, server)
}

/// Reads one TLS record, or the rest of the stream if that is less. Returns `None` at the end. TCP may deliver several records at once.
fn record(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    // An error ends the stream, like its end.
    let _ = Read::by_ref(from).take(5).read_to_end(&mut bytes);
    if let [.., high, low] = bytes[..]
        && bytes.len() == 5
    {
        let _ = Read::by_ref(from).take(u16::from_be_bytes([high, low]).into()).read_to_end(&mut bytes);
    }
    (!bytes.is_empty()).then_some(bytes)
}

type Ends = (std::io::Result<SharedLane>, std::io::Result<SharedLane>);

fn shake((near, far): (SharedLane, SharedLane), limit: Duration) -> Ends {
    let (client, server) = identities();
    let server = server.server(&[PROTOCOL]).unwrap();
    let far = std::thread::spawn(move || accept_tls(far, server, limit));
    let near = connect_tls(near, client.to_coordinator(PROTOCOL).unwrap(), limit);
    let far = far.join().unwrap();
    for lane in [&near, &far].into_iter().flatten() {
        lane.limit(Some(SOON)).unwrap();
    }
    (near, far)
}

/// Applies `how` to the byte with this number in a direction.
fn change(at: usize, how: impl Fn(u8) -> u8 + Send + 'static) -> Tamper {
    let mut seen = 0;
    Box::new(move |piece| {
        if let Some(byte) = at.checked_sub(seen).and_then(|at| piece.get_mut(at)) {
            *byte = how(*byte);
        }
        seen += piece.len();
    })
}

/// Passes so many bytes, and no more.
fn cut(at: usize) -> Tamper {
    let mut seen = 0;
    Box::new(move |piece| {
        let left = at - seen.min(at);
        seen += piece.len();
        piece.truncate(left);
    })
}

fn counted() -> (Tamper, std::sync::Arc<std::sync::Mutex<Vec<u8>>>) {
    let all = std::sync::Arc::<std::sync::Mutex<Vec<u8>>>::default();
    let kept = all.clone();
    (Box::new(move |piece| kept.lock().unwrap().extend_from_slice(piece)), all)
}

/// Bytes by which two recorded sessions may differ in length, because signatures may have leading zeros.
const ENDS_DIFFER: usize = 16;
/// Bytes of a record besides its contents: header, type, tag.
const RECORD_MORE: usize = 5 + 1 + 16;
/// Bytes of the two headers at the start of a direction: the record's and its message's.
const HEADERS: usize = 5 + 4;
/// Distance between two tested bytes.
const STEP: usize = 37;

const SECRET: &[u8] = b"a secret that is said three times: a secret, a secret";

#[test]
fn network_traffic_does_not_reveal_the_plaintext() {
    let (there, heard_there) = counted();
    let (back, heard_back) = counted();
    let (near, far) = shake(between(there, back), SOON);
    let (near, far) = (near.unwrap(), far.unwrap());
    near.send(SECRET).unwrap();
    let mut received = vec![0; SECRET.len()];
    far.read_exact(&mut received).unwrap();
    far.send(SECRET).unwrap();
    near.read_exact(&mut received).unwrap();
    assert_eq!(received, SECRET);
    for observed in [heard_there, heard_back] {
        let observed = observed.lock().unwrap();
        assert!(observed.len() > 500, "{}", observed.len());
        for word in [&b"secret"[..], b"tenant", b"eva", b"coordinator"] {
            assert!(!observed.windows(word.len()).any(|window| window == word), "{}", String::from_utf8_lossy(word));
        }
    }
}

/// Returns the lengths of a recorded session, by direction: the handshake, a message, its answer.
fn recorded() -> (usize, usize) {
    let (there, heard_there) = counted();
    let (back, heard_back) = counted();
    let (near, far) = shake(between(there, back), SOON);
    // Bytes sent at the end do not count.
    let (near, far) = (near.unwrap(), far.unwrap());
    assert!(exchange(&*near, &*far));
    (heard_there.lock().unwrap().len(), heard_back.lock().unwrap().len())
}

/// Exchanges a message and its answer. Returns whether both arrived unchanged.
fn exchange(near: &dyn Lane, far: &dyn Lane) -> bool {
    let mut received = vec![0; SECRET.len()];
    let there = near.send(SECRET).is_ok() && far.read_exact(&mut received).is_ok();
    if !there {
        return false;
    }
    assert_eq!(received, SECRET, "changed bytes were believed");
    let back = far.send(SECRET).is_ok() && near.read_exact(&mut received).is_ok();
    if back {
        assert_eq!(received, SECRET, "changed bytes were believed");
    }
    back
}

#[test]
fn each_changed_byte_ends_the_lane_and_none_is_believed() {
    let (there, back) = recorded();
    // Testing all bytes takes minutes: headers are always tested, and other bytes vary by run.
    let begin = HEADERS + std::process::id() as usize % STEP;
    for at in (0..HEADERS).chain((begin..there).step_by(STEP)) {
        let limit = Duration::from_millis(500);
        let (near, far) = shake(between(change(at, |byte| byte ^ 0x10), untouched()), limit);
        let (Ok(near), Ok(far)) = (near, far) else { continue };
        for lane in [&near, &far] {
            lane.limit(Some(limit)).unwrap();
        }
        assert!(!exchange(&*near, &*far) || at + ENDS_DIFFER >= there, "byte {at} of {there} does not matter");
    }
    for at in (0..HEADERS).chain((begin..back).step_by(STEP)) {
        let limit = Duration::from_millis(500);
        let (near, far) = shake(between(untouched(), change(at, |byte| byte ^ 0x10)), limit);
        let (Ok(near), Ok(far)) = (near, far) else { continue };
        for lane in [&near, &far] {
            lane.limit(Some(limit)).unwrap();
        }
        assert!(!exchange(&*near, &*far) || at + ENDS_DIFFER >= back, "byte {at} of {back} does not matter");
    }
}

#[test]
fn a_lane_cut_anywhere_ends_as_cut_and_never_in_the_middle_of_anything() {
    let (there, _) = recorded();
    for at in (0..there - ENDS_DIFFER).step_by(2 * STEP) {
        let (near, far) = shake(between(cut(at), untouched()), Duration::from_millis(300));
        let (Ok(near), Ok(far)) = (near, far) else { continue };
        far.limit(Some(Duration::from_millis(300))).unwrap();
        near.send(SECRET).unwrap();
        let mut received = vec![0; SECRET.len()];
        assert!(far.read_exact(&mut received).is_err(), "cut after {at} bytes of {there}");
    }
    // An end without `close_notify` is an error: the rest may be missing.
    let (near, far) = shake(between(untouched(), untouched()), SOON);
    let (near, far) = (near.unwrap(), far.unwrap());
    near.send(SECRET).unwrap();
    near.finish().unwrap();
    let mut all = Vec::new();
    far.read_to_end(&mut all).unwrap();
    assert_eq!(all, SECRET);
    let without_end: Tamper = Box::new(|piece| {
        if piece.len() == 2 + RECORD_MORE {
            piece.clear();
        }
    });
    let (near, far) = shake(between(without_end, untouched()), SOON);
    let (near, far) = (near.unwrap(), far.unwrap());
    near.send(SECRET).unwrap();
    near.finish().unwrap();
    let mut all = Vec::new();
    let end = far.read_to_end(&mut all);
    assert_eq!((end.unwrap_err().kind(), &*all), (ErrorKind::UnexpectedEof, SECRET));
}

#[test]
fn replayed_or_reordered_records_end_the_lane() {
    for how in ["twice", "swapped"] {
        let (mut records, mut held) = (0, Vec::new());
        let tamper: Tamper = Box::new(move |piece| {
            // A record of five bytes.
            if piece.len() == 5 + RECORD_MORE {
                records += 1;
                match (how, records) {
                    ("twice", 1) => piece.extend_from_within(..),
                    ("swapped", 1) => held = std::mem::take(piece),
                    ("swapped", 2) => piece.append(&mut held),
                    _ => {}
                }
            }
        });
        let (near, far) = shake(between(tamper, untouched()), SOON);
        let (near, far) = (near.unwrap(), far.unwrap());
        let mut received = [0; 5];
        for word in [b"first", b"later", b"again"] {
            near.send(word).unwrap();
        }
        near.finish().unwrap();
        let mut all = Vec::new();
        let error = loop {
            match far.read(&mut received) {
                Ok(0) => panic!("{how}: unnoticed: {}", String::from_utf8_lossy(&all)),
                Ok(n) => all.extend_from_slice(&received[..n]),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{how}: {error}");
        assert!(b"firstlateragain".starts_with(&all), "{how}: {}", String::from_utf8_lossy(&all));
        // The lane is unusable for every later caller.
        assert!(far.read(&mut received).is_err() && far.is_readable());
    }
}

#[test]
fn garbage_and_plain_text_are_refused_in_words() {
    let (_, server) = identities();
    let words: [&[u8]; 4] =
        [b"GET / HTTP/1.1\r\n\r\n", b"ACCORD\r\n\x02\0\0\0\x04\0\0\0", &[0; 64], &[0x16, 3, 1, 0xff, 0xff]];
    for word in words {
        let (near, far) = between(untouched(), untouched());
        near.write_all(&mut [IoSlice::new(word)]).unwrap();
        near.finish().unwrap();
        let error = accept_tls(far, server.server(&[PROTOCOL]).unwrap(), SOON).unwrap_err();
        let printed = explain::broken(&error, "the program").to_string();
        assert!(printed.contains("the program") && printed.contains(';'), "{printed}");
    }
}

#[test]
fn silent_tls_peer_times_out() {
    let (client, server) = identities();
    let start = Instant::now();
    let (_near, far) = between(untouched(), untouched());
    assert!(accept_tls(far, server.server(&[PROTOCOL]).unwrap(), SHORT).is_err());
    let (near, _far) = between(untouched(), untouched());
    assert!(connect_tls(near, client.to_coordinator(PROTOCOL).unwrap(), SHORT).is_err());
    assert!(start.elapsed() < SOON / 2);
}

#[test]
fn other_versions_of_the_protocol_and_of_tls_are_refused_by_name() {
    let (client, server) = identities();
    let (near, far) = between(untouched(), untouched());
    let config = server.server(&[b"accord-test/2"]).unwrap();
    let far = std::thread::spawn(move || accept_tls(far, config, SOON).unwrap_err());
    let error = connect_tls(near, client.to_coordinator(PROTOCOL).unwrap(), SOON).unwrap_err();
    let printed = explain::broken(&error, "the coordinator").to_string();
    assert!(printed.contains("another version") && printed.contains("same version"), "{printed}");
    let printed = explain::broken(&far.join().unwrap(), "the program").to_string();
    assert!(printed.contains("another version"), "{printed}");

    // A man in the middle that removes TLS 1.3 from the client's offer.
    let mut first = true;
    let downgrade: Tamper = Box::new(move |piece| {
        if std::mem::take(&mut first) {
            for at in 0..piece.len() - 6 {
                // The extension supported_versions, with 1.3 alone in it.
                if piece[at..at + 7] == [0, 43, 0, 3, 2, 3, 4] {
                    piece[at + 6] = 3;
                }
            }
        }
    });
    let (near, far) = shake(between(downgrade, untouched()), SOON);
    let printed = explain::broken(&near.unwrap_err(), "the coordinator").to_string();
    assert!(printed.contains("TLS 1.3"), "{printed}");
    assert!(far.is_err());
}

#[test]
fn a_long_stream_is_whole() {
    let (near, far) = shake(between(untouched(), untouched()), SOON);
    let (near, far) = (near.unwrap(), far.unwrap());
    let bytes = pattern(8 << 20, 3);
    std::thread::scope(|scope| {
        scope.spawn(|| near.send(&bytes).unwrap());
        let mut all = vec![0; bytes.len()];
        far.read_exact(&mut all).unwrap();
        assert!(all == bytes);
    });
}
