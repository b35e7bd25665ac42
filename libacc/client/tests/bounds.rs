//! A blocked stream and a program that goes on: the open operations are bounded at both ends, and other queues are not
//! blocked.

mod common;

use accord_fabric::frame::{EXCHANGE_WINDOW, STREAM_WINDOW, operation_cost};
use accord_runtime::ports::{Cluster, ReadWhen};
use accord_types::{ErrorCode, QueueId};
use common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// More operations than one stream accepts.
const MANY: usize = 3_000;
/// Most operations that one stream accepts.
const OPEN_MAX: usize = (STREAM_WINDOW / 1024) as usize + 1;
/// A time limit that nothing here reaches.
const SOON: Duration = Duration::from_secs(60);

fn until(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Enqueues many launches after one that does not end. Returns the number of enqueued ones, and the thread.
fn fill(world: &World, queue: QueueId) -> (Arc<AtomicUsize>, std::thread::JoinHandle<accord_types::Result<()>>) {
    let client = world.client(0);
    let count = Arc::<AtomicUsize>::default();
    let counted = count.clone();
    launch(&*client, queue, GATE, &[]).unwrap();
    let thread = std::thread::spawn(move || {
        (0..MANY).try_for_each(|_| {
            launch(&*client, queue, EMPTY, &[])?;
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    });
    (count, thread)
}

#[test]
fn a_stuck_stream_blocks_only_the_thread_that_fills_it() {
    let gate = Gate::default();
    let world = world(1, 1, regions(&gate));
    let (client, start) = world.mapped(0, MIB);
    let (count, filling) = fill(&world, Q1);
    until("the stream never fills", || count.load(Ordering::Relaxed) >= OPEN_MAX - 16);
    // Other queues' operations complete, any number of times.
    for round in 0..MANY {
        let value = [round as u8; 64];
        copy_in(&*client, Q2, start, &value, ReadWhen::BeforeReturn);
        if round % 100 == 0 {
            assert_eq!(read_back(&*client, start, 64).len(), 64);
            client.wait(&[Q2]).unwrap();
        }
    }
    client.wait(&[Q2]).unwrap();
    assert!(!client.test(&[Q1]).unwrap());
    // One frame may exceed the window.
    let most = OPEN_MAX + usize::try_from(64 * 1024 / operation_cost(0)).unwrap();
    assert!(count.load(Ordering::Relaxed) <= most, "{count:?} operations went in");
    let pending = world.agents[0].devices()[0].pending();
    assert!(pending <= most, "the executor holds {pending} operations");
    assert!(!filling.is_finished());

    gate.open();
    filling.join().unwrap().unwrap();
    client.wait(&[Q1]).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), MANY);
}

#[test]
fn stream_waiter_gets_the_failure_and_the_connection_loss() {
    for kill in [false, true] {
        let gate = Gate::default();
        let world = world(1, 1, regions(&gate));
        world.mapped(0, MIB);
        let (count, filling) = fill(&world, Q1);
        until("the stream never fills", || count.load(Ordering::Relaxed) >= OPEN_MAX - 16);
        if kill {
            world.agents[0].kill();
        } else {
            let error = accord_types::Error::new(ErrorCode::Execution, "the worker has crashed");
            world.agents[0].devices()[0].fail(error);
        }
        let error = filling.join().unwrap().unwrap_err();
        let expected = if kill { "is lost" } else { "the worker has crashed" };
        assert!(error.cause().contains(expected), "{error}");
        gate.open();
    }
}

#[test]
fn many_queues_that_share_streams_never_fill_one_of_them_up() {
    let gate = Gate::default();
    let world = world(1, 1, regions(&gate));
    let (client, _) = world.mapped(0, MIB);
    // 64 queues share 32 streams, and are used in turn.
    for round in 0..40 {
        for queue in 0..64 {
            launch(&*client, QueueId(queue), if round == 0 && queue == 7 { GATE } else { EMPTY }, &[]).unwrap();
        }
        if round == 20 {
            gate.open();
        }
    }
    let all: Vec<_> = (0..64).map(QueueId).collect();
    client.wait(&all).unwrap();
}

/// Copies to another node's device, after an operation of the source or of the target that does not end.
#[test]
fn stuck_copies_between_nodes_block_only_the_thread_that_enqueues_them() {
    for stuck in 0..2 {
        let gate = Gate::default();
        let world = world(2, 1, regions(&gate));
        let ends = [0, 1].map(|index| world.mapped(index, MIB));
        let [(source, from), (target, to)] = &ends;
        source.store(QueueId::SYNC, *from, b"pushed. ").unwrap();
        source.wait(&[QueueId::SYNC]).unwrap();
        // Copies follow their own queue's operations, and synchronous ones on the target.
        launch(&*ends[stuck].0, if stuck == 0 { Q1 } else { QueueId::SYNC }, GATE, &[]).unwrap();
        let count = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let filling = scope.spawn(|| {
                (0..MANY).try_for_each(|_| {
                    world.session.copy_between(Q1, 0, *from, 1, *to, 8)?;
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, accord_types::Error>(())
                })
            });
            until("the stream never fills", || count.load(Ordering::Relaxed) >= OPEN_MAX - 16);
            // Other queues of both devices go on, and copies in the other direction.
            for round in 0..300 {
                let value = [round as u8; 64];
                for (client, start) in &ends {
                    copy_in(&**client, Q2, start.offset(4096), &value, ReadWhen::BeforeReturn);
                    client.wait(&[Q2]).unwrap();
                }
                world.session.copy_between(Q2, 1, to.offset(4096), 0, from.offset(8192), 64).unwrap();
                target.wait(&[Q2]).unwrap();
            }
            let most = OPEN_MAX + usize::try_from(64 * 1024 / operation_cost(0)).unwrap();
            assert!(count.load(Ordering::Relaxed) <= most, "{count:?} copies went in");
            for (node, holds) in [(0, most), (1, 2)] {
                let pending = world.agents[node].devices()[0].pending();
                assert!(pending <= holds, "executor {node} holds {pending} operations");
            }
            assert!(!filling.is_finished());
            gate.open();
            filling.join().unwrap().unwrap();
        });
        source.wait(&[Q1]).unwrap();
        assert_eq!(count.into_inner(), MANY);
        assert_eq!(read_back(&**target, *to, 8), b"pushed. ");
    }
}

/// Copies of many queues to one device, after an operation that does not end: more than an executor would remember.
#[test]
#[ignore = "long"]
fn stalled_target_blocks_the_program_only_until_the_limit() {
    const QUEUES: u32 = 32;
    const SOURCES: usize = 5;
    const COPIES: usize = (1 << 16) + 4_000;
    let gate = Gate::default();
    let world = world(2, SOURCES as u32, regions(&gate));
    let sources: Vec<_> = (0..SOURCES).map(|index| world.mapped(index, MIB)).collect();
    let (target, to) = world.mapped(SOURCES, MIB);
    for (source, from) in &sources {
        source.store(QueueId::SYNC, *from, b"pushed. ").unwrap();
        source.wait(&[QueueId::SYNC]).unwrap();
    }
    launch(&*target, QueueId::SYNC, GATE, &[]).unwrap();
    let count = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let filling = scope.spawn(|| {
            let queues = (0..QUEUES).flat_map(|queue| (0..SOURCES).map(move |source| (source, QueueId(queue))));
            queues.cycle().take(COPIES).try_for_each(|(source, queue)| {
                world.session.copy_between(queue, source, sources[source].1, SOURCES, to, 8)?;
                count.fetch_add(1, Ordering::Relaxed);
                Ok::<_, accord_types::Error>(())
            })
        });
        let most = EXCHANGE_WINDOW as usize;
        until("the target never fills", || count.load(Ordering::Relaxed) >= most || filling.is_finished());
        if filling.is_finished() {
            panic!("nothing holds the program up: {:?}", filling.join());
        }
        // Other operations complete, and copies in the other direction.
        for _ in 0..100 {
            copy_in(&*target, Q2, to.offset(4096), &[7; 64], ReadWhen::BeforeReturn);
            world.session.copy_between(Q2, SOURCES, to.offset(4096), 0, sources[0].1.offset(8192), 64).unwrap();
            target.wait(&[Q2]).unwrap();
        }
        assert_eq!(count.load(Ordering::Relaxed), most);
        gate.open();
        filling.join().unwrap().unwrap();
    });
    let queues: Vec<_> = (0..QUEUES).map(QueueId).collect();
    sources.iter().for_each(|(source, _)| source.wait(&queues).unwrap());
    assert_eq!(count.into_inner(), COPIES);
    assert_eq!(read_back(&*target, to, 8), b"pushed. ");
}
