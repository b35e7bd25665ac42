//! A remote device behaves like a local one.

pub mod common;

use accord_client::{SessionSettings, connect_direct};
use accord_fabric::Key;
use accord_fabric::route::TransportChoice;
use accord_fabric::transport::Transport;
use accord_runtime::ports::{Cluster, ReadWhen};
use accord_types::{DeviceInfo, ErrorCode, GlobalSpec, Lease, ObjectSpec, QueueId, Span, SpanKind, SpanSink};
use common::*;
use std::sync::{Arc, Mutex};

#[test]
fn bytes_go_in_are_computed_on_and_come_out() {
    let world = world(1, 1, regions(&Gate::default()));
    let (client, start) = world.mapped(0, 4 * MIB);
    for len in [1, 100, 4096, 4097, 65536, 65537, 3_000_001] {
        let bytes = pattern(len, len);
        copy_in(&*client, QueueId::SYNC, start, &bytes, ReadWhen::BeforeReturn);
        launch(&*client, QueueId::SYNC, ADD, &[start.0, 3, len as u64]).unwrap();
        let expected: Vec<u8> = bytes.iter().map(|byte| byte.wrapping_add(3)).collect();
        assert!(read_back(&*client, start, len) == expected, "{len} bytes");
    }
}

#[test]
fn a_device_of_this_node_that_this_process_cannot_drive_is_its_executors() {
    let key = Key::random().unwrap();
    let agents = [Agent::start(1, 2, &key, regions(&Gate::default()))];
    let lease = Lease { own_node: Some(agents[0].node), ..lease(&agents, 2) };
    let local = Box::new(|devices: &[DeviceInfo]| Ok(vec![None; devices.len()]));
    let session = connect_direct(lease, SessionSettings { local, ..settings(None, Vec::new()) }).unwrap();
    let client = session.clients()[1].clone();
    client.start().unwrap();
    let start = client.addresses().0;
    client.map(start, MIB).unwrap();
    copy_in(&*client, QueueId::SYNC, start, &[7; 16], ReadWhen::BeforeReturn);
    launch(&*client, QueueId::SYNC, ADD, &[start.0, 1, 16]).unwrap();
    assert_eq!(read_back(&*client, start, 16), [8; 16]);
}

#[test]
fn queues_run_beside_each_other_and_each_in_order() {
    let gate = Gate::default();
    let world = world(1, 1, regions(&gate));
    let (client, start) = world.mapped(0, MIB);
    launch(&*client, Q1, GATE, &[]).unwrap();
    copy_in(&*client, Q1, start, &[5; 4000], ReadWhen::BeforeReturn);
    // Not eager, because it must wait behind the gate.
    let late = vec![6; 100_000];
    copy_in(&*client, Q1, start.offset(4000), &late, ReadWhen::InOrder);
    copy_in(&*client, Q2, start.offset(200_000), &[7; 8], ReadWhen::InOrder);
    launch(&*client, Q2, ADD, &[start.0 + 200_000, 1, 8]).unwrap();
    client.wait(&[Q2]).unwrap();
    assert!(!client.test(&[Q1]).unwrap());
    assert!(client.test(&[Q2]).unwrap());
    assert_eq!(read_back(&*client, start, 8), [0; 8]);
    assert_eq!(read_back(&*client, start.offset(200_000), 8), [8; 8]);
    gate.open();
    client.wait(&[Q1, Q2]).unwrap();
    assert_eq!(read_back(&*client, start.offset(3999), 2), [5, 6]);
    assert_eq!(read_back(&*client, start.offset(103_999), 1), [6]);
}

#[test]
fn bytes_that_must_be_read_now_may_change_at_once() {
    let gate = Gate::default();
    let world = world(1, 1, regions(&gate));
    let (client, start) = world.mapped(0, MIB);
    launch(&*client, Q1, GATE, &[]).unwrap();
    let mut small = vec![1; 50_000];
    copy_in(&*client, Q1, start, &small, ReadWhen::BeforeReturn);
    small.fill(2);
    // Too large for a staging copy: the call waits for its turn.
    let opener = std::thread::spawn(move || gate.open());
    let mut large = vec![3; 500_000];
    copy_in(&*client, Q1, start.offset(50_000), &large, ReadWhen::BeforeReturn);
    large.fill(4);
    opener.join().unwrap();
    client.wait(&[Q1]).unwrap();
    assert!(read_back(&*client, start, 50_000) == [1; 50_000]);
    assert!(read_back(&*client, start.offset(50_000), 500_000) == [3; 500_000]);
}

#[test]
fn a_queue_waits_for_another_without_the_program() {
    let gate = Gate::default();
    let world = world(1, 1, regions(&gate));
    let (client, start) = world.mapped(0, MIB);
    client.store(Q1, start, &[1; 16]).unwrap();
    launch(&*client, Q1, GATE, &[]).unwrap();
    launch(&*client, Q1, ADD, &[start.0, 1, 16]).unwrap();
    client.wait_queue(Q2, Q1).unwrap();
    launch(&*client, Q2, ADD, &[start.0, 1, 16]).unwrap();
    assert!(!client.test(&[Q2]).unwrap());
    gate.open();
    client.wait(&[Q2]).unwrap();
    assert_eq!(read_back(&*client, start, 16), [3; 16]);
}

#[test]
fn steady_state_costs_no_round_trips_but_for_growth_waits_and_copies_out() {
    let world = world(1, 1, regions(&Gate::default()));
    let (client, start) = world.mapped(0, 64 * MIB);
    let bytes = pattern(300_000, 0);
    // The first use of everything names functions, creates streams and starts threads.
    copy_in(&*client, QueueId::SYNC, start, &bytes, ReadWhen::BeforeReturn);
    launch(&*client, Q1, EMPTY, &[]).unwrap();
    client.wait(&[Q1, QueueId::SYNC]).unwrap();

    /// Each round maps more memory, which may be in use by other sessions.
    const ROUNDS: u64 = 20;
    let before = world.round_trips() + ROUNDS;
    for i in 0..ROUNDS {
        let place = start.offset(2 * MIB + i * MIB);
        client.map(place.offset(64 * MIB), MIB).unwrap_or_else(|_| unreachable!());
        copy_in(&*client, QueueId::SYNC, start, &bytes, ReadWhen::BeforeReturn);
        copy_in(&*client, QueueId::SYNC, place, &bytes[..100], ReadWhen::BeforeReturn);
        launch(&*client, Q1, EMPTY, &[]).unwrap();
        copy_in(&*client, Q1, place, &bytes[..100], ReadWhen::InOrder);
        copy_in(&*client, Q1, place, &bytes, ReadWhen::InOrder);
        client.wait_queue(Q2, Q1).unwrap();
        client.copy(Q2, start, place, 100).unwrap();
        client.unmap(Q2, place.offset(64 * MIB), MIB).unwrap();
    }
    assert_eq!(world.round_trips(), before, "launch, copyin, create, delete, update device, queue wait");
    client.wait(&[Q1, Q2]).unwrap();
    assert_eq!(world.round_trips(), before + 1, "one wait for two queues");
    client.wait(&[Q1, Q2]).unwrap();
    assert!(client.test(&[Q1]).unwrap());
    assert_eq!(world.round_trips(), before + 1, "nothing is left to wait for");
    for len in [100, 300_000] {
        let before = world.round_trips();
        let mut out = vec![0; len];
        client.copy_out(QueueId::SYNC, start, range_mut(&mut out)).unwrap();
        client.wait(&[QueueId::SYNC]).unwrap();
        assert_eq!(world.round_trips(), before + 1, "a copyout of {len} bytes");
    }
}

/// A batch in is one frame with its bytes and no wait; a batch out is a frame each way and one wait.
#[test]
fn rows_travel_in_frames_of_their_own_and_are_waited_for_once() {
    const ROWS: usize = 500;
    const ROW: usize = 256;
    /// Header and record of a frame.
    const FRAME_MAX: u64 = 128;
    let world = world(1, 1, regions(&Gate::default()));
    let (client, start) = world.mapped(0, MIB);
    let (sent, mut back) = (pattern(ROWS * ROW, 3), vec![0; ROWS * ROW]);
    launch(&*client, Q1, EMPTY, &[]).unwrap();
    client.wait(&[Q1]).unwrap();
    let (before, trips) = (world.session.counters()[0], world.round_trips());
    for (row, bytes) in (0..).zip(sent.chunks(ROW)) {
        copy_in(&*client, Q1, start.offset(row * 2 * ROW as u64), bytes, ReadWhen::InOrder);
    }
    for (row, bytes) in (0..).zip(back.chunks_mut(ROW)) {
        client.copy_out(Q1, start.offset(row * 2 * ROW as u64), range_mut(bytes)).unwrap();
    }
    assert_eq!(world.round_trips(), trips);
    client.wait(&[Q1]).unwrap();
    assert_eq!(world.round_trips(), trips + 1);
    assert_eq!(back, sent);
    let after = world.session.counters()[0];
    let (rows, bytes) = (ROWS as u64, (ROWS * ROW) as u64);
    assert_eq!(after.bulk_sent, before.bulk_sent, "no lane but the commands'");
    let there = after.command_sent - before.command_sent;
    assert!(there <= bytes + 2 * rows * FRAME_MAX + 1024, "{there} B there for {bytes} B of rows");
    let returned = after.command_received - before.command_received;
    assert!(returned <= bytes + rows * FRAME_MAX + 1024, "{returned} B back");
}

#[test]
fn many_launches_stay_within_their_credit() {
    let world = world(1, 1, regions(&Gate::default()));
    let (client, start) = world.mapped(0, MIB);
    for i in 0..3000_u64 {
        client.store(Q1, start.offset(i % 100 * 4096), &[i as u8; 4096]).unwrap();
    }
    launch(&*client, Q1, ADD, &[start.0, 1, 100 * 4096]).unwrap();
    client.wait(&[Q1]).unwrap();
    let bytes = read_back(&*client, start, 100 * 4096);
    for i in 0..100 {
        assert_eq!(bytes[i * 4096], ((2900 + i) as u8).wrapping_add(1));
    }
    assert!(world.session.counters()[0].credit_stalls > 0);
}

#[test]
fn as_many_queues_as_a_program_likes() {
    const QUEUES: u32 = 5000;
    let world = world(1, 1, regions(&Gate::default()));
    let (client, start) = world.mapped(0, MIB);
    let queues: Vec<_> = (0..QUEUES).map(QueueId).collect();
    for queue in &queues {
        client.store(*queue, start.offset(u64::from(queue.0)), &[7]).unwrap();
    }
    let before = world.round_trips();
    client.wait(&queues).unwrap();
    assert_eq!(world.round_trips(), before + 2);
    assert!(read_back(&*client, start, QUEUES as usize).iter().all(|byte| *byte == 7));
}

#[test]
fn a_failed_region_fails_its_queue_and_no_other() {
    let world = world(1, 1, regions(&Gate::default()));
    let (client, start) = world.mapped(0, MIB);
    launch(&*client, Q1, FAIL, &[]).unwrap();
    let error = client.wait(&[Q1]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Execution);
    assert_eq!(
        error.to_string().trim_start(),
        "(node h1, queue 1): region fail ended with SIGSEGV [acc_error_execution]; look at line 7"
    );
    assert_eq!(launch(&*client, Q1, EMPTY, &[]).unwrap_err(), error);
    let mut out = vec![9; 100_000];
    assert!(client.copy_out(Q1, start, range_mut(&mut out)).is_err());
    launch(&*client, Q2, EMPTY, &[]).unwrap();
    client.wait(&[Q2]).unwrap();
}

#[test]
fn a_failure_reaches_calls_that_do_not_wait() {
    let world = world(1, 1, regions(&Gate::default()));
    let (client, _) = world.mapped(0, MIB);
    launch(&*client, Q1, FAIL, &[]).unwrap();
    // The event arrives unrequested, and is read although no thread waits.
    while launch(&*client, Q1, EMPTY, &[]).is_ok() {
        std::thread::yield_now();
    }
}

#[test]
fn operations_after_a_failure_are_skipped_and_release_program_memory() {
    let gate = Gate::default();
    let world = world(1, 1, regions(&gate));
    let (client, start) = world.mapped(0, 16 * MIB);
    launch(&*client, Q1, GATE, &[]).unwrap();
    launch(&*client, Q1, FAIL, &[]).unwrap();
    let bytes = vec![1; 300_000];
    copy_in(&*client, Q1, start, &bytes, ReadWhen::InOrder);
    let mut out = vec![9; 300_000];
    client.copy_out(Q1, start, range_mut(&mut out)).unwrap();
    // More bytes than are requested ahead, so that the call blocks until its turn, which never comes.
    let blocked = std::thread::spawn({
        let client = client.clone();
        move || {
            let bytes = vec![2; LONG];
            client.copy_in(Q1, start, range(&bytes), ReadWhen::BeforeReturn).map_err(|error| error.code())
        }
    });
    gate.open();
    assert_eq!(client.wait(&[Q1]).unwrap_err().code(), ErrorCode::Execution);
    assert_eq!(blocked.join().unwrap(), Err(ErrorCode::Execution));
    // The lanes still work for other queues.
    copy_in(&*client, Q2, start, &bytes, ReadWhen::InOrder);
    client.wait(&[Q2]).unwrap();
    assert!(read_back(&*client, start, 300_000) == bytes);
    assert!(out == [9; 300_000]);
}

#[test]
fn memory_runs_out_at_the_call() {
    let world = world(1, 1, regions(&Gate::default()));
    let (client, start) = world.mapped(0, MIB);
    assert_eq!(client.memory_free().unwrap(), MEMORY - MIB);
    let error = client.map(start.offset(MIB), MEMORY).unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    client.unmap(QueueId::SYNC, start, MIB).unwrap();
    client.wait(&[QueueId::SYNC]).unwrap();
    client.map(start, MEMORY).unwrap();
}

#[test]
fn addresses_outside_of_the_device_fail_the_queue() {
    let world = world(1, 1, regions(&Gate::default()));
    let (client, start) = world.mapped(0, MIB);
    client.store(Q1, accord_types::DevicePtr(4096), b"x").unwrap();
    assert_eq!(client.wait(&[Q1]).unwrap_err().code(), ErrorCode::InvalidArgument);
    let bytes = vec![0; 100_000];
    client.copy_in(Q2, start.offset(u64::MAX - 10), range(&bytes), ReadWhen::BeforeReturn).unwrap();
    assert_eq!(client.wait(&[Q2]).unwrap_err().code(), ErrorCode::InvalidArgument);
    copy_in(&*client, QueueId::SYNC, start, &bytes, ReadWhen::BeforeReturn);
    client.wait(&[QueueId::SYNC]).unwrap();
}

#[test]
fn variables_have_an_address_and_are_written_through_it() {
    let world = world(1, 1, regions(&Gate::default()));
    let client = world.client(0);
    let object = ObjectSpec { path: "/bin/app".to_owned(), build_id: "1".to_owned(), executable: true };
    let spec = GlobalSpec { object, offset: 4096, len: 8, variable: None };
    let address = client.global(&spec).unwrap();
    assert_eq!(client.global(&spec).unwrap(), address);
    client.store(QueueId::SYNC, address, b"variable").unwrap();
    assert_eq!(read_back(&*client, address, 8), b"variable");
}

#[test]
fn unknown_regions_are_named() {
    let world = world(1, 1, regions(&Gate::default()));
    let client = world.client(0);
    launch(&*client, Q1, 999, &[]).unwrap();
    let error = client.wait(&[Q1]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeviceInit);
    assert!(error.cause().contains("0x3e7"), "{error}");
}

#[test]
fn a_device_starts_anew_after_its_shutdown() {
    let world = world(1, 2, regions(&Gate::default()));
    let (client, start) = world.mapped(0, MIB);
    let (other, other_start) = world.mapped(1, MIB);
    client.store(Q1, start, b"old").unwrap();
    client.shutdown().unwrap();
    assert!(client.store(Q1, start, b"x").is_err());
    assert!(world.agents[0].devices()[0].has_ended());
    client.start().unwrap();
    client.map(start, MIB).unwrap();
    assert_eq!(read_back(&*client, start, 3), [0; 3]);
    other.store(Q1, other_start, b"other").unwrap();
    other.wait(&[Q1]).unwrap();
    assert_eq!(world.agents[0].devices().len(), 3);
}

#[test]
fn the_end_of_the_session_ends_its_devices() {
    let mut world = world(1, 1, regions(&Gate::default()));
    let (client, start) = world.mapped(0, MIB);
    client.store(QueueId::SYNC, start, b"x").unwrap();
    let agent = world.agents.remove(0);
    drop((client, world));
    agent.join();
    assert!(agent.devices()[0].has_ended());
}

#[test]
fn threads_share_a_link() {
    let world = world(1, 2, regions(&Gate::default()));
    let clients: Vec<_> = (0..2).map(|index| world.mapped(index, 16 * MIB)).collect();
    std::thread::scope(|scope| {
        for thread in 0..8_u32 {
            let (client, start) = &clients[thread as usize % 2];
            scope.spawn(move || {
                let queue = QueueId(thread);
                let at = start.offset(u64::from(thread) * MIB);
                for round in 0..20 {
                    let bytes = pattern(1000 * (round + 1) * 5, round);
                    copy_in(&**client, queue, at, &bytes, ReadWhen::InOrder);
                    launch(&**client, queue, ADD, &[at.0, 1, bytes.len() as u64]).unwrap();
                    let mut out = vec![0; bytes.len()];
                    client.copy_out(queue, at, range_mut(&mut out)).unwrap();
                    client.wait(&[queue]).unwrap();
                    assert!(out.iter().zip(&bytes).all(|(out, byte)| *out == byte.wrapping_add(1)));
                }
            });
        }
    });
}

#[derive(Default)]
struct Spans(Mutex<Vec<Span>>);

impl SpanSink for Spans {
    fn span(&self, span: Span) {
        self.0.lock().unwrap().push(span);
    }
}

#[test]
fn completed_operations_are_in_the_trace_after_a_wait() {
    let spans = Arc::<Spans>::default();
    let world = traced_world(1, 1, regions(&Gate::default()), Some(spans.clone()));
    let (client, start) = world.mapped(0, MIB);
    let bytes = vec![1; 100_000];
    copy_in(&*client, Q1, start, &bytes, ReadWhen::InOrder);
    launch(&*client, Q1, ADD, &[start.0, 1, 8]).unwrap();
    client.wait(&[Q1]).unwrap();
    let spans = spans.0.lock().unwrap();
    let kinds: Vec<_> = spans.iter().map(|span| (span.kind, &*span.name, span.bytes)).collect();
    assert_eq!(kinds, [(SpanKind::CopyIn, "", 100_000), (SpanKind::Launch, "add", 0)]);
    assert!(spans.iter().all(|span| span.start_ns <= span.end_ns && span.queue == Q1));
    assert_eq!(spans[0].device, world.session.clients()[0].info().id);
}

#[test]
fn queues_beyond_the_quota_of_streams_share_them() {
    for (quota, shared) in [(2, true), (0, false), (1, true)] {
        let gate = Gate::default();
        let world = world(1, 1, regions(&gate));
        world.agents[0].limit_streams(quota);
        let (client, start) = world.mapped(0, MIB);
        // With 2 streams, the third queue shares that of the second; with 1, also that of the first.
        let (first, second) = if quota == 1 { (Q1, Q1) } else { (Q1, Q2) };
        copy_in(&*client, first, start, &[1; 8], ReadWhen::BeforeReturn);
        launch(&*client, second, GATE, &[]).unwrap();
        launch(&*client, QueueId(3), EMPTY, &[]).unwrap();
        if shared {
            assert!(!client.test(&[QueueId(3)]).unwrap(), "quota {quota}");
        } else {
            client.wait(&[QueueId(3)]).unwrap();
        }
        // Synchronous operations have a stream of their own.
        launch(&*client, QueueId::SYNC, EMPTY, &[]).unwrap();
        client.wait(&[QueueId::SYNC]).unwrap();
        gate.open();
        client.wait(&[QueueId(3)]).unwrap();
    }
}

#[test]
fn executors_of_this_machine_share_memory() {
    // The expected transport depends on the test binary.
    let expected = match wanted() {
        TransportChoice::Tcp => Transport::Tcp,
        TransportChoice::Tls => Transport::Tls,
        TransportChoice::Mpi(_) => Transport::Mpi,
        TransportChoice::Auto | TransportChoice::Shm => Transport::Shm,
    };
    let world = world(1, 1, Vec::new());
    world.client(0);
    let report = world.session.report().unwrap();
    assert_eq!(report[0].route.transport, expected, "{}", report[0].route);
}
