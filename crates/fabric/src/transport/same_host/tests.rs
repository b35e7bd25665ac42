use super::*;
use std::sync::{Arc, mpsc};

const SESSION: SessionId = SessionId(77);
const NODE: NodeId = NodeId(3);

fn caller(role: Role) -> Caller {
    Caller { from: PeerId::from_raw(9), role }
}

/// Starts a listener in a thread. Returns the connections that it accepts.
fn serving(key: &Key) -> (Arc<Listener>, mpsc::Receiver<(Caller, OwnedFd)>) {
    let listener = Arc::new(Listener::bind(SESSION, NODE, key).unwrap());
    let (to, from) = mpsc::channel();
    let serving = listener.clone();
    std::thread::spawn(move || serving.serve(|caller, socket| to.send((caller, socket)).unwrap()));
    (listener, from)
}

#[test]
fn processes_with_the_key_meet_and_talk_in_messages() {
    let key = Key::random().unwrap();
    let (listener, from) = serving(&key);
    for role in [Role::Import, Role::Export] {
        let near = connect(SESSION, NODE, caller(role), &key).unwrap();
        let (seen, far) = from.recv().unwrap();
        assert_eq!(seen, caller(role));
        for message in [&b"one"[..], b"three"] {
            send_message(&near, message).unwrap();
        }
        assert_eq!(receive_message::<3>(&far), Some(*b"one"));
        assert_eq!(receive_message::<3>(&far), None, "it is not cut");
    }
    listener.close();
    assert!(from.recv().is_err(), "it has ended");
    drop(listener);
    assert!(connect(SESSION, NODE, caller(Role::Import), &key).is_none());
    Listener::bind(SESSION, NODE, &key).unwrap();
}

#[test]
fn another_key_session_or_node_reaches_no_executor() {
    let (key, other) = (Key::random().unwrap(), Key::random().unwrap());
    let (_listener, _from) = serving(&key);
    assert!(connect(SESSION, NODE, caller(Role::Import), &other).is_none());
    assert!(connect(SessionId(78), NODE, caller(Role::Import), &key).is_none());
    assert!(connect(SESSION, NodeId(4), caller(Role::Import), &key).is_none());
    assert!(Listener::bind(SESSION, NODE, &key).is_err(), "there is one already");
}

/// Connects to the executor's name without proving the key.
fn intruder(key: &Key) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect_socket(&socket, &name(SESSION, NODE, key).unwrap()).unwrap();
    socket
}

#[test]
fn a_client_without_the_key_is_dropped() {
    let (key, other) = (Key::random().unwrap(), Key::random().unwrap());
    let (_listener, from) = serving(&key);
    let hello = encode(SESSION, caller(Role::Import), &[5; NONCE_LEN]);
    let socket = intruder(&key);
    send_message(&socket, &hello).unwrap();
    let challenge: [u8; NONCE_LEN + MAC_LEN] = receive_message(&socket).unwrap();
    send_message(&socket, &other.prove(&[CLIENT, &hello, &challenge[..NONCE_LEN]])).unwrap();
    assert_eq!(receive_message::<1>(&socket), None);
    // Hellos of another session, with no role, and of another length.
    let mut without_role = hello;
    without_role[12] = 0;
    let of_another = encode(SessionId(1), caller(Role::Import), &[5; NONCE_LEN]);
    for wrong in [&without_role[..], &of_another, &hello[..63], &[0; 65]] {
        let socket = intruder(&key);
        send_message(&socket, wrong).unwrap();
        assert_eq!(receive_message::<64>(&socket), None);
    }
    // The listener still serves others.
    connect(SESSION, NODE, caller(Role::Export), &key).unwrap();
    assert_eq!(from.recv().unwrap().0, caller(Role::Export));
}

#[test]
fn a_listener_without_the_key_is_not_trusted() {
    let (key, other) = (Key::random().unwrap(), Key::random().unwrap());
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &name(SESSION, NODE, &key).unwrap()).unwrap();
    listen(&socket, 1).unwrap();
    let squatter = Listener { socket, session: SESSION, key: other };
    std::thread::spawn(move || squatter.serve(|_, _| ()));
    assert!(connect(SESSION, NODE, caller(Role::Import), &key).is_none());
}
