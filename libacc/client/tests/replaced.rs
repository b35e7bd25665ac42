//! Lost executors and devices, and their replacements.

mod common;

use accord_client::{SessionSettings, TimeLimits, connect_direct};
use accord_fabric::Key;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_runtime::ports::{Cluster, DeviceClient, ReadWhen};
use accord_types::{DevicePtr, Error, ErrorCode, QueueId};
use common::*;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

fn shut_down(clients: &[&Arc<dyn DeviceClient>]) {
    clients.iter().for_each(|client| client.shutdown().unwrap());
}

/// Asserts that the device computes on newly mapped memory.
fn assert_works(client: &Arc<dyn DeviceClient>) -> DevicePtr {
    let start = client.addresses().0;
    client.map(start, MIB).unwrap();
    assert_eq!(read_back(&**client, start, 8), [0; 8], "memory of the executor before");
    copy_in(&**client, Q1, start, b"abcdefgh", ReadWhen::BeforeReturn);
    launch(&**client, Q1, ADD, &[start.0, 1, 8]).unwrap();
    client.wait(&[Q1]).unwrap();
    assert_eq!(read_back(&**client, start, 8), b"bcdefghi");
    start
}

/// Asserts that a copy larger than any frame works between two devices.
fn assert_copies(world: &World, source: usize, from: DevicePtr, target: usize, to: DevicePtr) {
    let (source_port, target_port) = (&world.session.clients()[source], &world.session.clients()[target]);
    let bytes = pattern(300_000, source + 2 * target);
    copy_in(&**source_port, Q1, from, &bytes, ReadWhen::BeforeReturn);
    world.session.copy_between(Q1, source, from, target, to, bytes.len() as u64).unwrap();
    source_port.wait(&[Q1]).unwrap();
    assert!(read_back(&**target_port, to, bytes.len()) == bytes);
}

#[test]
fn an_executor_that_dies_is_replaced_when_its_devices_are_shut_down() {
    let world = world(1, 2, regions(&Gate::default()));
    let (first, second) = (world.client(0), world.client(1));
    assert_works(&first);
    assert_works(&second);
    world.agents[0].kill_now();
    let error = launch(&*first, Q1, EMPTY, &[]).and_then(|()| first.wait(&[Q1])).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeviceUnavailable, "{error}");
    assert!(error.remedy_text().unwrap().contains("acc_shutdown"), "{error}");
    // A start does not help while the lost memory counts as present.
    assert_eq!(first.start().unwrap_err().code(), ErrorCode::DeviceUnavailable);
    first.shutdown().unwrap();
    // The other device still uses the lost executor.
    let error = first.start().unwrap_err();
    assert_eq!((error.code(), error.place().node.as_deref()), (ErrorCode::DeviceUnavailable, Some("h1")), "{error}");
    let remedy = error.remedy_text().unwrap();
    assert!(remedy.contains("acc_shutdown") && remedy.ends_with(": acc_device_cpu 1"), "{error}");
    assert_eq!(world.agents[0].executors(), 1);
    second.shutdown().unwrap();
    first.start().unwrap();
    second.start().unwrap();
    assert_eq!(world.agents[0].executors(), 2);
    assert_works(&first);
    assert_works(&second);
}

#[test]
fn executor_is_replaced_repeatedly_even_when_its_loss_was_not_noticed() {
    let world = world(1, 1, regions(&Gate::default()));
    let client = world.client(0);
    for executors in 2..6 {
        assert_works(&client);
        if executors % 2 == 0 {
            shut_down(&[&client]);
            world.agents[0].kill_now();
        } else {
            world.agents[0].kill_now();
            shut_down(&[&client]);
        }
        client.start().unwrap();
        assert_eq!(world.agents[0].executors(), executors);
    }
}

#[test]
fn copies_between_nodes_go_to_and_from_the_new_executor() {
    let world = world(2, 1, regions(&Gate::default()));
    let ((source, from), (target, to)) = (world.mapped(0, MIB), world.mapped(1, MIB));
    for _ in 0..3 {
        // In both directions, so that lanes of both exist when it dies.
        assert_copies(&world, 0, from, 1, to);
        assert_copies(&world, 1, to, 0, from);
        world.agents[1].kill_now();
        shut_down(&[&target]);
        target.start().unwrap();
        target.map(to, MIB).unwrap();
    }
    assert_copies(&world, 0, from, 1, to);
    assert_copies(&world, 1, to, 0, from);
    source.wait(&[Q1]).unwrap();
    assert_eq!((world.agents[0].executors(), world.agents[1].executors()), (1, 4));
}

/// Tests a copy to the previous executor. With `used`, the lane between the nodes was used before.
fn a_copy_to_the_executor_before_fails(used: bool) {
    let gate = Gate::default();
    let world = world(2, 1, regions(&gate));
    let ((source, from), (target, to)) = (world.mapped(0, MIB), world.mapped(1, MIB));
    if used {
        assert_copies(&world, 0, from, 1, to);
    }
    launch(&*source, Q2, GATE, &[]).unwrap();
    world.session.copy_between(Q2, 0, from, 1, to, MIB).unwrap();
    assert!(!source.test(&[Q2]).unwrap());
    world.agents[1].kill_now();
    shut_down(&[&target]);
    target.start().unwrap();
    target.map(to, MIB).unwrap();
    gate.open();
    let error = source.wait(&[Q2]).unwrap_err();
    // Whichever was first: the shutdown, or the end of the lane.
    let codes = [ErrorCode::DeviceUnavailable, ErrorCode::DeviceShutdown];
    assert!(codes.contains(&error.code()), "{error}");
    assert_copies(&world, 0, from, 1, to);
}

#[test]
fn a_copy_to_the_executor_before_fails_instead_of_waiting_for_the_new_one() {
    a_copy_to_the_executor_before_fails(false);
    a_copy_to_the_executor_before_fails(true);
}

#[test]
fn a_lane_for_the_executor_before_is_turned_away() {
    let world = world(1, 1, regions(&Gate::default()));
    let client = world.client(0);
    world.agents[0].kill_now();
    shut_down(&[&client]);
    client.start().unwrap();
    // A lane of another node to the first executor of this one.
    let hello = Hello::new(Purpose::Peer, SESSION, 0, PeerId::from_raw(2));
    let lane = handshake::connect(&world.agents[0].address, &hello, &world.key, Duration::from_secs(3)).unwrap();
    lane.limit(Some(Duration::from_secs(10))).unwrap();
    match lane.read(&mut [0; 1]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("it was taken: {other:?}"),
    }
    assert_works(&client);
}

#[test]
fn a_copy_from_the_executor_before_is_forgotten_by_its_target() {
    let gate = Gate::default();
    let world = world(2, 1, regions(&gate));
    let ((source, from), (target, to)) = (world.mapped(0, MIB), world.mapped(1, MIB));
    copy_in(&*target, QueueId::SYNC, to, &[7; 8], ReadWhen::BeforeReturn);
    target.wait(&[QueueId::SYNC]).unwrap();
    launch(&*source, Q2, GATE, &[]).unwrap();
    world.session.copy_between(Q2, 0, from, 1, to, MIB).unwrap();
    assert!(!source.test(&[Q2]).unwrap());
    world.agents[0].kill_now();
    gate.open();
    shut_down(&[&source]);
    source.start().unwrap();
    source.map(from, MIB).unwrap();
    assert_eq!(read_back(&*target, to, 8), [7; 8]);
    assert_copies(&world, 0, from, 1, to);
}

#[test]
fn a_device_that_fails_for_good_gets_a_new_executor_when_the_others_are_shut_down() {
    let world = world(1, 3, regions(&Gate::default()));
    let clients = [world.client(0), world.client(1), world.client(2)];
    clients.iter().for_each(|client| {
        assert_works(client);
    });
    let agent = &world.agents[0];
    agent.devices()[1].fail(Error::new(ErrorCode::Execution, FOR_GOOD));
    clients[1].shutdown().unwrap();
    let error = clients[1].start().unwrap_err();
    assert_eq!((error.code(), error.cause()), (ErrorCode::DeviceInit, FOR_GOOD), "{error}");
    assert!(error.remedy_text().unwrap().ends_with(": acc_device_cpu 0, acc_device_cpu 2"), "{error}");
    // The other devices go on.
    for client in [&clients[0], &clients[2]] {
        launch(&**client, Q1, EMPTY, &[]).unwrap();
        client.wait(&[Q1]).unwrap();
    }
    assert_eq!(agent.executors(), 1);
    shut_down(&[&clients[0], &clients[2]]);
    clients[1].start().unwrap();
    assert_eq!(agent.executors(), 2);
    clients[0].start().unwrap();
    for client in &clients[..2] {
        assert_works(client);
    }
    assert_eq!(agent.executors(), 2);
}

/// The coordinator may be stopped between its messages to the program and to the agent.
#[test]
fn an_agent_that_has_not_heard_of_the_session_is_asked_again() {
    let patient =
        |time| SessionSettings { limits: TimeLimits { silence: None, opening: time }, ..settings(None, Vec::new()) };
    let key = Key::random().unwrap();
    let agents = [Agent::start(1, 1, &key, regions(&Gate::default()))];
    agents[0].hears_late(3);
    let session = connect_direct(lease(&agents, 1), patient(Duration::from_secs(30))).unwrap();
    session.clients()[0].start().unwrap();
    assert_works(&session.clients()[0]);
    assert_eq!(agents[0].still_early(), 0);
    drop(session);

    agents[0].hears_late(1_000);
    let session = connect_direct(lease(&agents, 1), patient(Duration::from_millis(200))).unwrap();
    let error = session.clients()[0].start().unwrap_err();
    assert!(error.cause().contains("no word of the session") && error.is_transient(), "{error}");
    assert!((990..1_000).contains(&agents[0].still_early()), "it was not asked as often as it could be");
    // After the session ends no agent is tried again.
    drop(session);
}
