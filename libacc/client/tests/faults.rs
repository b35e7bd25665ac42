//! Peers that have died, lie or stay silent cause an error that says so, never a hang, and affect no other session.

mod common;

use accord_client::{Session, connect_direct};
use accord_fabric::frame::transfer::CHUNK_MAX;
use accord_fabric::frame::{self, Command, Event, FrameReader, HEADER_LEN};
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::transport::{Lane, Listener, SharedLane};
use accord_fabric::{Key, ProgramSpec, new_session_key};
use accord_runtime::ports::{Cluster, ReadWhen};
use accord_types::{Error, ErrorCode, Lease, QueueId, SessionId};
use common::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest delay due to a lost agent.
const SOON: Duration = Duration::from_secs(3);

fn assert_lost(error: &Error, node: &str) {
    assert_eq!(error.code(), ErrorCode::DeviceUnavailable, "{error}");
    assert_eq!(error.place().node.as_deref(), Some(node), "{error}");
}

/// Connects a client without a connection's threads, in a session of its own.
fn raw_client(agent: &Agent, key: &Key, session: u64, purpose: Purpose) -> SharedLane {
    let hello = Hello::new(purpose, SessionId(session), 0, PeerId::PROGRAM);
    handshake::connect(&agent.address, &hello, key, SOON).unwrap()
}

/// Asserts that a device of `world` still works.
fn assert_well(world: &World) {
    let (client, start) = world.mapped(0, MIB);
    client.store(Q1, start, b"well").unwrap();
    launch(&*client, Q1, ADD, &[start.0, 1, 4]).unwrap();
    client.wait(&[Q1]).unwrap();
    assert_eq!(read_back(&*client, start, 4), b"xfmm");
}

#[test]
fn no_peer_at_the_address() {
    let key = Key::random().unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let agent = Agent::start(1, 1, &key, Vec::new());
    let mut lease = lease(std::slice::from_ref(&agent), 1);
    lease.devices[0].address = listener.address().unwrap().to_string();
    drop(listener);
    let session = connect_direct(lease, settings(None, Vec::new())).unwrap();
    let error = session.clients()[0].start().unwrap_err();
    assert_lost(&error, "h1");
    assert!(error.cause().contains("cannot connect to the agent at 127.0.0.1:"), "{error}");
}

#[test]
fn answer_with_an_unknown_ticket_ends_the_connection() {
    let twice = |ticket, other| {
        let reply = |ticket| (Event::Reply { ticket, value: 0, extra: 0 }, Vec::new());
        vec![reply(ticket), reply(other)]
    };
    let same = move |command: &Command| match *command {
        Command::Start { ticket, .. } => twice(ticket, ticket),
        _ => Vec::new(),
    };
    let other = move |command: &Command| match *command {
        Command::Start { ticket, .. } => twice(ticket, ticket + 7),
        _ => Vec::new(),
    };
    for session in [session_with(same), session_with(other)] {
        let error = session.clients()[0].start().unwrap_err();
        assert_lost(&error, "h1");
        assert!(error.cause().contains("broke the protocol: reply"), "{error}");
    }
}

/// A wait finds a stream's failure first; only then is it an event of its own.
#[test]
fn a_queue_whose_wait_fails_has_failed() {
    let session = session_with(|command| match *command {
        Command::Start { ticket, .. } => vec![(Event::Reply { ticket, value: 0, extra: 0 }, Vec::new())],
        Command::Open { ticket, .. } => vec![(Event::Reply { ticket, value: 1 << 20, extra: 1 << 20 }, Vec::new())],
        Command::Wait { ticket } => {
            let mut text = Vec::new();
            let failure = frame::encode_error(&Error::new(ErrorCode::Execution, "crashed").queue(Q1), &mut text);
            vec![(Event::ReplyFailed { ticket, failure }, text)]
        }
        _ => Vec::new(),
    });
    let client = &session.clients()[0];
    client.start().unwrap();
    launch(&**client, Q1, EMPTY, &[]).unwrap();
    let error = client.wait(&[Q1]).unwrap_err();
    assert_eq!(error.cause(), "crashed");
    assert_eq!(launch(&**client, Q1, EMPTY, &[]).unwrap_err(), error);
    launch(&**client, Q2, EMPTY, &[]).unwrap();
}

/// Opens a program's session with an executor that answers commands with `answer`.
fn session_with(answer: impl Fn(&Command) -> Vec<(Event, Vec<u8>)> + Clone + Send + 'static) -> Session {
    let key = Key::random().unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let agent = Agent::start(1, 1, &key, Vec::new());
    let mut lease = lease(std::slice::from_ref(&agent), 1);
    lease.devices[0].address = listener.address().unwrap().to_string();
    // Until the test's process ends.
    std::thread::spawn(move || {
        while let Ok((lane, _)) = listener.accept() {
            let (key, answer) = (key.clone(), answer.clone());
            std::thread::spawn(move || {
                // Some lanes only check whether the agent listens.
                if let Ok(lane) = handshake::accept(&*lane, &key, SOON).and_then(|client| client.secure(lane)) {
                    answer_commands(&*lane, answer);
                }
            });
        }
    });
    connect_direct(lease, settings(None, Vec::new())).unwrap()
}

fn answer_commands(lane: &dyn Lane, answer: impl Fn(&Command) -> Vec<(Event, Vec<u8>)>) {
    let mut reader = FrameReader::default();
    while reader.fill(|bytes| lane.read(bytes)).unwrap_or(false) {
        while let Some(frame) = reader.take::<Command>().unwrap() {
            let mut bytes = Vec::new();
            for (event, payload) in answer(&frame.record) {
                frame::put(&mut bytes, &event, &[&payload]).unwrap();
            }
            lane.send(&bytes).unwrap();
        }
    }
}

#[test]
fn another_key() {
    let key = Key::random().unwrap();
    let agent = Agent::start(1, 1, &key, Vec::new());
    let lease = lease(std::slice::from_ref(&agent), 1);
    let session =
        connect_direct(Lease { key: new_session_key().unwrap(), ..lease }, settings(None, Vec::new())).unwrap();
    let error = session.clients()[0].start().unwrap_err();
    assert_lost(&error, "h1");
    assert!(error.cause().contains("has another key"), "{error}");
    assert!(error.remedy_text().is_some());
}

#[test]
fn an_executor_that_dies_ends_waits_calls_and_copies() {
    let gate = Gate::default();
    let world = Arc::new(world(2, 1, regions(&gate)));
    let (client, start) = world.mapped(0, 64 * MIB);
    let (other, to) = world.mapped(1, 64 * MIB);
    launch(&*client, Q1, GATE, &[]).unwrap();
    // All that can be in flight: a wait, a copy in and out behind the gate, copies to and from another node, and memory
    // that no operation uses.
    let mut out = vec![9; 200_000];
    client.copy_out(Q1, start, range_mut(&mut out)).unwrap();
    world.session.copy_between(Q1, 0, start, 1, to, MIB).unwrap();
    launch(&*other, Q2, EMPTY, &[]).unwrap();
    world.session.copy_between(Q1, 0, start, 1, to, MIB).unwrap();
    let blocked = std::thread::spawn({
        let client = client.clone();
        move || {
            // More bytes than are requested ahead.
            let bytes = vec![2; LONG];
            client.copy_in(Q1, start, range(&bytes), ReadWhen::BeforeReturn).unwrap_err()
        }
    });
    let waiting = std::thread::spawn({
        let client = client.clone();
        move || client.wait(&[Q1]).unwrap_err()
    });
    while world.session.counters()[0].round_trips < 3 {
        std::thread::yield_now();
    }
    let killed = Instant::now();
    world.agents[0].kill();
    assert_lost(&blocked.join().unwrap(), "h1");
    let error = waiting.join().unwrap();
    assert_lost(&error, "h1");
    assert!(error.cause().contains("lost"), "{error}");
    assert_lost(&client.store(Q2, start, b"x").unwrap_err(), "h1");
    assert_lost(&client.start().unwrap_err(), "h1");
    assert!(killed.elapsed() < SOON);
    assert!(out == [9; 200_000]);
    // The other node goes on.
    other.wait(&[Q2]).unwrap();
    assert_eq!(read_back(&*other, to, 1), [0]);
    gate.open();
}

#[test]
fn a_target_that_dies_fails_the_source_of_a_copy() {
    let gate = Gate::default();
    let world = world(2, 1, regions(&gate));
    let ((source, from), (target, to)) = (world.mapped(0, MIB), world.mapped(1, MIB));
    // The target never becomes ready.
    launch(&*target, QueueId::SYNC, GATE, &[]).unwrap();
    world.session.copy_between(Q1, 0, from, 1, to, MIB).unwrap();
    assert!(!source.test(&[Q1]).unwrap());
    world.agents[1].kill();
    let error = source.wait(&[Q1]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeviceUnavailable, "{error}");
    // The source's device still works.
    source.store(QueueId(5), from, b"well").unwrap();
    source.wait(&[QueueId(5)]).unwrap();
    gate.open();
}

/// The executor dies at once, while it waits for the other one, and while bytes are in flight: to the target or from
/// the source.
#[test]
fn an_executor_that_dies_in_the_middle_of_copies_to_another() {
    const LEN: u64 = 16 * MIB;
    const COPIES: usize = 8;
    const Q5: QueueId = QueueId(5);
    for (dies, delay) in [(0, 0), (0, 2), (0, 10), (1, 0), (1, 2), (1, 10)] {
        let world = world(3, 1, regions(&Gate::default()));
        let ends = [0, 1, 2].map(|index| world.mapped(index, LEN));
        for _ in 0..COPIES {
            world.session.copy_between(Q1, 0, ends[0].1, 1, ends[1].1, LEN).unwrap();
        }
        std::thread::sleep(Duration::from_millis(delay));
        world.agents[dies].kill();
        let start = Instant::now();
        // All copies may have completed before.
        if let Err(error) = ends[0].0.wait(&[Q1]) {
            assert_eq!(error.code(), ErrorCode::DeviceUnavailable, "{error}");
        }
        assert!(start.elapsed() < SOON, "it took {:?}", start.elapsed());
        // The remaining executor goes on, and accepts others' pushes.
        let (client, at) = &ends[1 - dies];
        client.store(Q5, *at, b"well").unwrap();
        client.wait(&[Q5]).unwrap();
        let (other, from) = &ends[2];
        other.store(Q5, *from, b"pushed").unwrap();
        world.session.copy_between(Q5, 2, *from, 1 - dies, *at, LEN).unwrap();
        other.wait(&[Q5]).unwrap();
        assert_eq!(read_back(&**client, *at, 6), b"pushed");
    }
}

#[test]
fn an_executor_that_dies_in_the_middle_of_large_copies() {
    let world = world(1, 1, regions(&Gate::default()));
    let (client, start) = world.mapped(0, 64 * MIB);
    let copier = std::thread::spawn({
        let client = client.clone();
        move || {
            let mut bytes = vec![1; 32 << 20];
            loop {
                let all = range(&bytes);
                if let Err(error) = client.copy_in(QueueId::SYNC, start, all, ReadWhen::BeforeReturn) {
                    return error;
                }
                // The wait returns the outcome.
                let _ = client.copy_out(Q1, start, range_mut(&mut bytes));
                if let Err(error) = client.wait(&[Q1]) {
                    return error;
                }
            }
        }
    });
    while world.session.counters()[0].bulk_sent < 3 * CHUNK_MAX as u64 {
        std::thread::yield_now();
    }
    world.agents[0].kill();
    assert_lost(&copier.join().unwrap(), "h1");
}

#[test]
fn a_program_that_dies_leaves_nothing() {
    let gate = Gate::default();
    let world = world(1, 1, regions(&gate));
    let agent = &world.agents[0];
    let client = raw_client(agent, &world.key, 99, Purpose::Command);
    start(&*client);
    // The client dies while its device works and a copy waits for bytes.
    let mut bytes = Vec::new();
    let copy = Command::CopyIn { device: 0, queue: 1, dst: 0x1100_0000_0000, len: 100, transfer: 1, eager: true };
    frame::put(&mut bytes, &Command::Map { device: 0, ticket: 0, start: 0x1100_0000_0000, len: MIB }, &[]).unwrap();
    frame::put(&mut bytes, &copy, &[]).unwrap();
    frame::put(&mut bytes, &Command::Clock { ticket: 3 }, &[]).unwrap();
    client.send(&bytes).unwrap();
    assert!(matches!(next_event(&*client), Some(Event::Reply { ticket: 3, .. })));
    let device = agent.devices().last().unwrap().clone();
    assert!(!device.has_ended());
    drop(client);
    let dropped = Instant::now();
    while !device.has_ended() {
        assert!(dropped.elapsed() < SOON);
        std::thread::yield_now();
    }
    assert_well(&world);
    gate.open();
}

/// Starts a program and device 0.
fn start(client: &dyn Lane) {
    let mut payload = Vec::new();
    let program = ProgramSpec { exe: "/bin/app".to_owned(), ..ProgramSpec::default() };
    frame::encode_program(&mut payload, &program);
    let mut bytes = Vec::new();
    let command = Command::Start { ticket: 1, trace: false, emulate_gpu: false };
    frame::put(&mut bytes, &command, &[&payload]).unwrap();
    frame::put(&mut bytes, &Command::Open { device: 0, ticket: 2, start: 0, len: 0 }, &[]).unwrap();
    client.send(&bytes).unwrap();
    let mut reader = FrameReader::default();
    for expected in 1..=2 {
        let event = loop {
            if let Some(frame) = reader.take::<Event>().unwrap() {
                break frame.record;
            }
            assert!(reader.fill(|bytes| client.read(bytes)).unwrap());
        };
        assert!(matches!(event, Event::Reply { ticket, .. } if ticket == expected), "{event:?}");
    }
}

/// Returns the next event; `None` at the end of the lane.
fn next_event(client: &dyn Lane) -> Option<Event> {
    let mut reader = FrameReader::default();
    loop {
        if let Some(frame) = reader.take::<Event>().unwrap() {
            return Some(frame.record);
        }
        if !reader.fill(|bytes| client.read(bytes)).ok()? {
            return None;
        }
    }
}

#[test]
fn garbage_ends_only_its_own_session() {
    let world = world(1, 1, regions(&Gate::default()));
    let mut immense = Vec::new();
    frame::put(&mut immense, &Command::Clock { ticket: 1 }, &[]).unwrap();
    immense[..8].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    let mut malformed = Vec::new();
    frame::put(&mut malformed, &Command::Clock { ticket: 1 }, &[]).unwrap();
    malformed[HEADER_LEN] = 0xee;
    let mut second_start = Vec::new();
    let command = Command::Start { ticket: 5, trace: false, emulate_gpu: false };
    frame::put(&mut second_start, &command, &[]).unwrap();
    let mut wait = Vec::new();
    frame::put(&mut wait, &Command::Wait { ticket: 1 }, &[b"no whole number of positions"]).unwrap();
    let noise = pattern(4096, 3);
    for (session, bytes) in (50..).zip([immense, malformed, second_start, wait, noise]) {
        let client = raw_client(&world.agents[0], &world.key, session, Purpose::Command);
        start(&*client);
        client.send(&bytes).unwrap();
        // The client gets the reason, and then the lane ends.
        assert!(matches!(next_event(&*client), Some(Event::Failed { .. })), "session {session}");
        while matches!(client.read(&mut [0; 64]), Ok(1..)) {}
    }
    assert_well(&world);
}

#[test]
fn garbage_on_a_bulk_lane_costs_the_session() {
    let world = world(1, 1, regions(&Gate::default()));
    let client = raw_client(&world.agents[0], &world.key, 60, Purpose::Command);
    start(&*client);
    let bulk = raw_client(&world.agents[0], &world.key, 60, Purpose::Bulk);
    bulk.send(&pattern(4096, 1)).unwrap();
    while next_event(&*client).is_some() {}
    assert_well(&world);
}

#[test]
fn half_a_frame_and_silence_block_no_other_session() {
    let world = world(1, 1, regions(&Gate::default()));
    let mut bytes = Vec::new();
    frame::put(&mut bytes, &Command::Clock { ticket: 1 }, &[&[0; 1000]]).unwrap();
    let silent = raw_client(&world.agents[0], &world.key, 70, Purpose::Command);
    silent.send(&bytes[..500]).unwrap();
    assert_well(&world);
    drop(silent);
}

#[test]
fn nonsense_in_commands_fails_queues_only() {
    let world = world(1, 1, regions(&Gate::default()));
    let client = raw_client(&world.agents[0], &world.key, 80, Purpose::Command);
    start(&*client);
    let start = 0x1100_0000_0000;
    let commands = [
        Command::Store { device: 77, queue: 1, dst: start },
        Command::Store { device: 0, queue: 1, dst: u64::MAX },
        Command::CopyIn { device: 0, queue: 2, dst: start, len: u64::MAX, transfer: 1, eager: true },
        Command::CopyOut { device: 0, queue: 3, src: start, len: u64::MAX, transfer: 2 },
        Command::Copy { device: 0, queue: 4, dst: start, src: u64::MAX - 4, len: 8 },
        Command::Launch {
            device: 0,
            queue: 5,
            function: 9,
            gangs: 0,
            workers: 0,
            vector: 0,
            slots: 0,
            float_control: 0,
        },
        Command::Launch {
            device: 0,
            queue: 6,
            function: 9,
            gangs: 0,
            workers: 0,
            vector: 0,
            slots: u32::MAX,
            float_control: 0,
        },
        Command::WaitQueue { device: 0, queue: 7, other: 1, seq: u64::MAX },
        Command::Unmap { device: 0, queue: 8, start, len: u64::MAX },
        Command::Map { device: 0, ticket: 0, start: 0, len: u64::MAX },
        Command::Relay { device: 0, queue: 9, src: start, target: 66, dst: start, len: 8, seq: 0 },
    ];
    for command in commands {
        let mut bytes = Vec::new();
        frame::put(&mut bytes, &command, &[]).unwrap();
        client.send(&bytes).unwrap();
        let event = next_event(&*client);
        assert!(matches!(event, Some(Event::Failed { .. })), "{command:?}: {event:?}");
    }
    let mut bytes = Vec::new();
    frame::put(&mut bytes, &Command::Clock { ticket: 4 }, &[]).unwrap();
    client.send(&bytes).unwrap();
    assert!(matches!(next_event(&*client), Some(Event::Reply { ticket: 4, .. })));
    assert_well(&world);
}

#[test]
fn a_crashed_device_is_one_devices_loss() {
    let world = world(1, 2, regions(&Gate::default()));
    let (client, _) = world.mapped(0, MIB);
    let (other, start) = world.mapped(1, MIB);
    launch(&*client, Q1, EMPTY, &[]).unwrap();
    client.wait(&[Q1]).unwrap();
    world.agents[0].devices()[0].fail(Error::new(ErrorCode::Execution, "the worker was killed"));
    let error = launch(&*client, Q1, EMPTY, &[]).and_then(|()| client.wait(&[Q1])).unwrap_err();
    assert_eq!(error.cause(), "the worker was killed");
    other.store(Q1, start, b"x").unwrap();
    other.wait(&[Q1]).unwrap();
    client.shutdown().unwrap();
    client.start().unwrap();
    launch(&*client, Q1, EMPTY, &[]).unwrap();
    client.wait(&[Q1]).unwrap();
}
