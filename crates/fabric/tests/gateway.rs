//! Lanes through a gateway: a process reaches another rank's node, and the lane's bytes are forwarded unchanged.

mod common;

use accord_fabric::Key;
use accord_fabric::handshake::{self, Hello};
use accord_fabric::route::{Endpoint, TransportChoice};
use accord_fabric::transport::{Handover, Transport, route};
use accord_types::NodeId;
use common::gateways::{NODE, hello, job, lanes};
use common::worlds::two_ranks;
use common::{SHORT, SOON, pattern};
use std::io::IoSlice;
use std::sync::mpsc;

#[test]
fn a_process_goes_by_its_gateway_to_another_rank() {
    let (_here, there, wanted) = job("goes");
    let key = Key::new(vec![5; 32]).unwrap();
    let of_server = key.clone();
    let server = std::thread::spawn(move || {
        let (lane, rank) = there.accept().unwrap();
        assert_eq!(rank, 0);
        assert_eq!(handshake::accept(&*lane, &of_server, SOON).unwrap().hello, Hello { to: Some(NODE), ..hello() });
        let mut all = Vec::new();
        lane.read_to_end(&mut all).unwrap();
        lane.send(&all).unwrap();
        lane.finish().unwrap();
        there
    });
    let route = route(&Endpoint::new(NODE, "nowhere:1"), wanted.into());
    assert_eq!((route.transport, route.way()), (Transport::Mpi, "mpi (ACCORD_TRANSPORT=mpi)".to_owned()));
    let lane = handshake::connect_by(&route, &hello(), &key, SOON).unwrap();
    let (bytes, mut back) = (pattern(10 << 20, 3), Vec::new());
    lane.send(&bytes).unwrap();
    lane.finish().unwrap();
    lane.read_to_end(&mut back).unwrap();
    assert!(back == bytes);
    drop(server.join().unwrap());
}

/// No byte of such a lane uses MPI.
#[test]
fn a_process_goes_by_its_gateway_to_that_ones_own_node() {
    const OWN: NodeId = NodeId(6);
    let (here, there, wanted) = job("own");
    here.announce(OWN);
    assert!(there.await_rank(0, SOON) && here.await_rank(0, SOON));
    let key = Key::new(vec![5; 32]).unwrap();
    let (of_server, server) = (key.clone(), here.clone());
    let server = std::thread::spawn(move || {
        let (lane, rank) = server.accept().unwrap();
        assert_eq!((rank, lane.transport()), (0, Transport::Shm));
        let client = handshake::accept(&*lane, &of_server, SOON).unwrap();
        // As an agent passes the lane to an executor in its process.
        let (lane, client) = Handover::within_process(lane, client).unwrap();
        assert_eq!(client.hello, Hello { to: Some(OWN), ..hello() });
        let mut all = Vec::new();
        lane.read_to_end(&mut all).unwrap();
        lane.send(&all).unwrap();
        lane.finish().unwrap();
    });
    let before = here.counts();
    let route = route(&Endpoint::new(OWN, "nowhere:1"), wanted.into());
    let lane = handshake::connect_by(&route, &hello(), &key, SOON).unwrap();
    assert!(!lane.moves_in_place());
    let (bytes, mut back) = (pattern(10 << 20, 3), Vec::new());
    lane.send(&bytes).unwrap();
    lane.finish().unwrap();
    lane.read_to_end(&mut back).unwrap();
    server.join().unwrap();
    assert!(back == bytes);
    assert_eq!(here.counts(), before);
}

/// An agent's thread that accepts lanes sleeps while others are in use: waking it for each message took longer than the message.
#[test]
fn messages_do_not_wake_the_thread_that_accepts_lanes() {
    let [here, there] = two_ranks();
    let near = here.connect(1).unwrap();
    near.send(b"first").unwrap();
    let (far, _) = there.accept().unwrap();
    let mut bytes = [0; 5];
    far.read_exact(&mut bytes).unwrap();
    let before = (here.counts().news, there.counts().news);
    for _ in 0..1000 {
        near.send(&bytes).unwrap();
        far.read_exact(&mut bytes).unwrap();
        far.send(&bytes).unwrap();
        near.read_exact(&mut bytes).unwrap();
    }
    assert_eq!((here.counts().news, there.counts().news), before);
    let _other = there.connect(0).unwrap();
    here.accept().unwrap();
    assert!(here.counts().news > before.0);
}

#[test]
fn a_node_that_is_none_of_the_job_is_refused_by_name() {
    let (_here, _there, wanted) = job("refused");
    let route = route(&Endpoint::new(NodeId(8), "nowhere:1"), wanted.into());
    let key = Key::new(vec![5; 32]).unwrap();
    let error = handshake::connect_by(&route, &hello(), &key, SOON).unwrap_err();
    assert!(error.cause().contains("node 8 is none of this MPI job"), "{error}");
}

#[test]
fn without_a_gateway_the_error_says_so() {
    let wanted: TransportChoice = "mpi:no-such-job".parse().unwrap();
    let key = Key::new(vec![5; 32]).unwrap();
    let error = handshake::connect_by(&route(&Endpoint::new(NODE, "nowhere:1"), wanted.into()), &hello(), &key, SOON)
        .unwrap_err();
    assert!(error.cause().contains("no gateway no-such-job here"), "{error}");
}

/// Both ends of a lane through a gateway learn of the world's end in any state.
#[test]
fn the_end_of_the_world_ends_lanes_by_the_gateway() {
    for reads in [true, false] {
        let (here, there, wanted) = job(if reads { "ends-reading" } else { "ends-writing" });
        let key = Key::new(vec![5; 32]).unwrap();
        let of_server = key.clone();
        let server = std::thread::spawn(move || {
            let (lane, _) = there.accept().unwrap();
            handshake::accept(&*lane, &of_server, SOON).unwrap();
            (there, lane)
        });
        let lane =
            handshake::connect_by(&route(&Endpoint::new(NODE, "nowhere:1"), wanted.into()), &hello(), &key, SOON);
        let lane = lane.unwrap();
        let (_there, _theirs) = server.join().unwrap();
        let (ended, ends) = mpsc::channel();
        std::thread::spawn(move || {
            let piece = vec![0; 1 << 20];
            if reads {
                while matches!(lane.read(&mut [0; 4]), Ok(1..)) {}
            } else {
                while lane.write(&[IoSlice::new(&piece)]).is_ok() {}
            }
            ended.send(()).unwrap();
        });
        std::thread::sleep(SHORT);
        here.stop();
        ends.recv_timeout(SOON).expect("it waits on");
    }
}

/// Short answers do not wait for a thread of the gateway: the receiving thread writes them to the process.
#[test]
fn short_messages_to_a_process_are_passed_on_as_they_come() {
    const ROUNDS: u64 = 400;
    let ([gateway, _there], near, far) = lanes("short");
    let before = gateway.counts().passed;
    for round in 0..ROUNDS {
        let bytes = pattern(usize::try_from(round % 90).unwrap() + 1, 3);
        for (from, to) in [(&near, &far), (&far, &near)] {
            let mut received = vec![0; bytes.len()];
            from.send(&bytes).unwrap();
            to.read_exact(&mut received).unwrap();
            assert!(received == bytes);
        }
    }
    let passed = gateway.counts().passed - before;
    println!("{passed} of {ROUNDS}");
    // A thread that forwards the first messages may be late.
    assert!(passed > ROUNDS / 2 && passed < ROUNDS);
    far.finish().unwrap();
    assert!(far.send(b"one more").is_err(), "however short it is");
    assert_eq!(near.read(&mut [0; 9]).unwrap(), 0);
}
