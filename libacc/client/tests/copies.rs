//! Copies in to devices of another node: on several lanes at the same time, without blocking each other.

mod common;

use accord_client::connect_direct;
use accord_fabric::Key;
use accord_runtime::ports::{DeviceClient, ReadWhen};
use accord_test_tier::splitmix64;
use accord_types::{ErrorCode, Lease, QueueId};
use common::*;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const Q3: QueueId = QueueId(3);
const Q4: QueueId = QueueId(4);
/// A time limit that nothing here reaches, not even under a sanitizer.
const LIMIT: Duration = Duration::from_secs(180);
/// More bytes than sockets hold.
const LARGE: usize = 48 << 20;

/// Creates a node whose devices have this many streams for a program's queues. The program may believe that there are
/// more.
fn world_of_streams(devices: u32, quota: u32, believed: u32, gate: &Gate) -> World {
    let key = Key::random().unwrap();
    let agents = vec![Agent::start(1, devices, &key, regions(gate))];
    agents[0].limit_streams(quota);
    let lease = Lease { stream_quota: believed, ..lease(&agents, devices) };
    let session = connect_direct(lease, settings(None, Vec::new())).unwrap();
    World { session: Arc::new(session), agents, key }
}

/// Runs `work` with a time limit.
fn within<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (to, from) = channel();
    std::thread::spawn(move || to.send(work()));
    match from.recv_timeout(LIMIT) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => panic!("{what} never ended"),
        Err(RecvTimeoutError::Disconnected) => panic!("{what} failed"),
    }
}

/// Waits for queues.
fn wait(client: &Arc<dyn DeviceClient>, queues: &[QueueId], what: &str) {
    let (client, queues) = (client.clone(), queues.to_vec());
    within(what, move || client.wait(&queues)).unwrap();
}

/// Waits until this many bytes were sent on bulk lanes.
fn sent(world: &World, bytes: u64) {
    while world.session.counters()[0].bulk_sent < bytes {
        std::thread::yield_now();
    }
}

#[test]
fn two_queues_copy_at_the_same_time() {
    let gate = Gate::default();
    let bytes = pattern(LARGE, 1);
    // The third queue shares the stream of the second, and the program believes that nothing blocks it.
    let world = world_of_streams(1, 2, 0, &gate);
    let (client, start) = world.mapped(0, 128 * MIB);
    client.store(Q1, start, &[1]).unwrap();
    launch(&*client, Q2, GATE, &[]).unwrap();
    // The first copy is not read before the gate opens, so its lane stays occupied.
    copy_in(&*client, Q3, start, &bytes, ReadWhen::InOrder);
    sent(&world, 1);
    copy_in(&*client, Q1, start.offset(64 * MIB), &bytes, ReadWhen::InOrder);
    wait(&client, &[Q1], "a copy on another lane");
    assert!(!client.test(&[Q3]).unwrap());
    assert!(read_back(&*client, start.offset(64 * MIB), LARGE) == bytes);
    gate.open();
    wait(&client, &[Q2, Q3], "a copy behind a gate");
    assert!(read_back(&*client, start, LARGE) == bytes);
}

#[test]
fn requested_copies_do_not_wait_for_copies_that_are_not_taken_yet() {
    for len in [10_000, LARGE] {
        let gate = Gate::default();
        let (early, late) = (pattern(100_000, 1), pattern(len, 2));
        let world = world_of_streams(1, 1, 0, &gate);
        let (client, start) = world.mapped(0, 160 * MIB);
        launch(&*client, Q1, GATE, &[]).unwrap();
        // All queues share one stream, which the program does not know: this copy is read when the gate is open, and
        // theirs after it. A reader of commands that waits for a full stream leaves eager bytes unread in the same way.
        copy_in(&*client, Q1, start, &early, ReadWhen::InOrder);
        for (queue, at) in [(Q2, 1), (Q3, 50), (Q4, 100)] {
            copy_in(&*client, queue, start.offset(at * MIB), &late, ReadWhen::InOrder);
        }
        // All that can be sent.
        sent(&world, if len == LARGE { MIB } else { 3 * len as u64 });
        gate.open();
        wait(&client, &[Q1, Q2, Q3, Q4], "copies that share a stream");
        assert!(read_back(&*client, start, early.len()) == early);
        for at in [1, 50, 100] {
            assert!(read_back(&*client, start.offset(at * MIB), len) == late);
        }
    }
}

#[test]
fn queues_that_share_a_stream_keep_no_lane_from_others() {
    let gate = Gate::default();
    let bytes = Arc::new(pattern(LARGE, 3));
    let world = world_of_streams(2, 1, 1, &gate);
    let ((client, start), (other, there)) = (world.mapped(0, 160 * MIB), world.mapped(1, 64 * MIB));
    launch(&*client, Q1, GATE, &[]).unwrap();
    for (queue, at) in [(Q2, 0), (Q3, 50), (Q4, 100)] {
        copy_in(&*client, queue, start.offset(at * MIB), &bytes, ReadWhen::InOrder);
    }
    for (client, start) in [(other, there), (client.clone(), start.offset(150 * MIB))] {
        let bytes = bytes.clone();
        within("a copy that has a stream of its own", move || {
            copy_in(&*client, QueueId::SYNC, start, &bytes[..MIB as usize], ReadWhen::BeforeReturn);
            client.wait(&[QueueId::SYNC])
        })
        .unwrap();
    }
    gate.open();
    wait(&client, &[Q1, Q2, Q3, Q4], "copies that share a stream");
    for at in [0, 50, 100] {
        assert!(read_back(&*client, start.offset(at * MIB), LARGE) == *bytes);
    }
}

#[test]
fn an_executor_that_dies_ends_copies_that_stand_in_line() {
    let gate = Gate::default();
    let bytes = pattern(LARGE, 4);
    let world = world_of_streams(1, 1, 0, &gate);
    let (client, start) = world.mapped(0, 64 * MIB);
    launch(&*client, Q1, GATE, &[]).unwrap();
    for queue in [Q2, Q3] {
        copy_in(&*client, queue, start, &bytes, ReadWhen::InOrder);
    }
    std::thread::scope(|scope| {
        // The first is not requested yet, the others have no lane.
        let calls = [Q1, Q4, QueueId(5)].map(|queue| {
            let (client, bytes) = (&client, &bytes);
            scope.spawn(move || client.copy_in(queue, start, range(bytes), ReadWhen::BeforeReturn))
        });
        while world.round_trips() == 0 {
            std::thread::yield_now();
        }
        sent(&world, MIB);
        world.agents[0].kill();
        for call in calls {
            assert_eq!(call.join().unwrap().unwrap_err().code(), ErrorCode::DeviceUnavailable);
        }
    });
    // No thread reads the program's memory any more.
    let end = Instant::now() + LIMIT;
    while threads().iter().any(|name| name.trim_end() == "accord-copy") {
        assert!(Instant::now() < end, "{:?}", threads());
        std::thread::yield_now();
    }
    gate.open();
}

/// Returns the names of this process's threads.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread that has just ended has no name.
    tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok()).collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        splitmix64(&mut self.0) % end
    }
}

#[test]
fn copies_of_all_sizes_on_many_queues_of_two_devices_all_come() {
    for (seed, quota) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
        within(&format!("the copies of seed {seed}"), move || copies_of_all_sizes(seed, quota));
    }
}

fn copies_of_all_sizes(seed: u64, quota: u32) {
    const COPIES: u64 = 40;
    const QUEUES: u64 = 5;
    let gate = Gate::default();
    let mut random = Random(seed);
    let bytes: Vec<_> = (0..COPIES)
        .map(|copy| {
            let most = [5_000, 70_000, 400_000, 3_000_000][random.below(4) as usize];
            pattern(4097 + random.below(most) as usize, copy as usize)
        })
        .collect();
    let world = world_of_streams(2, quota, quota, &gate);
    let clients: Vec<_> = (0..2).map(|device| world.mapped(device, COPIES * 4 * MIB)).collect();
    for (copy, bytes) in (0..).zip(&bytes) {
        let ((client, start), queue) = (&clients[random.below(2) as usize], QueueId(random.below(QUEUES) as u32));
        match random.below(10) {
            // Later copies in this queue must be requested.
            0 => launch(&**client, queue, if copy < COPIES / 2 { GATE } else { EMPTY }, &[]).unwrap(),
            1 if copy >= COPIES / 2 => client.wait(&[queue]).unwrap(),
            _ => {}
        }
        // Written on both devices, so that the place to check is known.
        for (client, at) in [(client, start), (&clients[0].0, &clients[0].1), (&clients[1].0, &clients[1].1)] {
            copy_in(&**client, queue, at.offset(copy * 4 * MIB), bytes, ReadWhen::InOrder);
        }
        if random.below(4) == 0 {
            // Sent by this thread, if possible.
            copy_in(&**client, QueueId::SYNC, start.offset(copy * 4 * MIB), bytes, ReadWhen::BeforeReturn);
        }
        if copy == COPIES / 2 - 1 {
            gate.open();
        }
    }
    let mut queues: Vec<_> = (0..QUEUES as u32).map(QueueId).collect();
    queues.push(QueueId::SYNC);
    for (client, start) in &clients {
        client.wait(&queues).unwrap();
        for (copy, bytes) in (0..).zip(&bytes) {
            assert!(
                read_back(&**client, start.offset(copy * 4 * MIB), bytes.len()) == *bytes,
                "seed {seed}, copy {copy}"
            );
        }
    }
}
