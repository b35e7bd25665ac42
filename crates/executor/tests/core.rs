//! The executor's decisions, without a device or a lane.

use accord_executor::Limits;
use accord_executor::executor::{CopyTarget, Effect, ExecutorCore, Facts, Operation, Request};
use accord_fabric::ProgramSpec;
use accord_fabric::frame::{self, Command};
use accord_fabric::peer::PeerId;
use accord_types::{ArgBlock, DevicePtr, Error, ErrorCode, QueueId, Result, Seq, SessionId, StreamId, TransferId};

const BASE: u64 = 1 << 32;
const FRAME: usize = 100;

/// Facts of an executor whose streams have done no work.
struct Nothing;

impl Facts for Nothing {
    fn reached(&self, _: u32, _: StreamId, _: Seq) -> bool {
        false
    }

    fn incoming(&self) -> usize {
        0
    }
}

/// Returns a core with devices 0 and 1 open.
fn core() -> ExecutorCore {
    let mut core = ExecutorCore::new(SessionId(7), Limits { ordinals: vec![0, 1], ..Limits::default() }, 4096);
    let mut program = Vec::new();
    frame::encode_program(&mut program, &ProgramSpec::default());
    let start = Command::Start { ticket: 1, trace: false, emulate_gpu: false };
    let mut words = [0; ArgBlock::RELATIVE_WORDS_MAX];
    assert!(matches!(core.handle(start, &program, FRAME, &mut words, &Nothing), Ok(Request::Start { .. })));
    for device in 0..2 {
        assert!(matches!(ask(&mut core, Command::Open { device, ticket: 2, start: 0, len: 0 }), Request::Open { .. }));
        core.opened(device, 2, Ok((DevicePtr(BASE), 4096)));
    }
    core.effects().for_each(drop);
    core
}

fn ask(core: &mut ExecutorCore, command: Command) -> Request<'static> {
    // These commands have empty payloads.
    let words = Box::leak(Box::new([0; ArgBlock::RELATIVE_WORDS_MAX]));
    core.handle(command, &[], FRAME, words, &Nothing).expect("the protocol")
}

/// Handles a command until its queue has a stream.
fn with_stream(core: &mut ExecutorCore, command: Command) -> Request<'static> {
    match ask(core, command) {
        Request::MakeStream { device, queue } => {
            core.stream_made(device, queue, Ok(StreamId(queue.0)));
            ask(core, command)
        }
        request => request,
    }
}

fn failed(core: &mut ExecutorCore) -> Vec<(u32, u32)> {
    let failed = |effect| match effect {
        Effect::Failed { device, queue, .. } => Some((device, queue)),
        _ => None,
    };
    core.effects().filter_map(failed).collect()
}

fn crash() -> Result<Seq> {
    Err(Error::new(ErrorCode::Execution, "a region has crashed"))
}

#[test]
fn operation_may_be_retried_until_it_is_enqueued() {
    let mut core = core();
    let copy = Command::Copy { device: 0, queue: 1, dst: BASE, src: BASE, len: 8 };
    for _ in 0..3 {
        assert!(matches!(with_stream(&mut core, copy), Request::Put { stream: StreamId(1), .. }));
    }
    core.put(Ok(Seq(9))).unwrap();
    // The operation counts once.
    let mut positions = Vec::new();
    for (seq, known) in [(1, true), (2, false)] {
        positions.clear();
        frame::put_position(&mut positions, frame::Position { device: 0, queue: QueueId(1), seq: Seq(seq) });
        let place = core.places(&positions).unwrap().next().unwrap();
        assert_eq!(place.is_ok_and(|place| place.unwrap().seq == Seq(9)), known, "{seq}");
    }
}

#[test]
fn bytes_that_come_unasked_are_thrown_away_if_nothing_takes_them() {
    let mut core = core();
    let copy_in = |device, dst, eager| Command::CopyIn { device, queue: 1, dst, len: 8, transfer: 5, eager };
    let thrown = |request: &Request<'_>| matches!(request, Request::Discard { transfer: TransferId(5), len: 8 });
    // A device that is not there, a range that is not the device's.
    assert!(thrown(&ask(&mut core, copy_in(3, BASE, true))));
    assert!(thrown(&with_stream(&mut core, copy_in(0, 0, true))));
    assert_eq!(failed(&mut core), [(3, 1), (0, 1)]);
    // A queue that has failed; that is no news.
    assert!(thrown(&ask(&mut core, copy_in(0, BASE, true))));
    assert!(failed(&mut core).is_empty());
    // Bytes that were not requested do not arrive.
    assert!(matches!(ask(&mut core, copy_in(0, BASE, false)), Request::Done));
}

#[test]
fn target_is_notified_of_an_abandoned_push() {
    let mut core = core();
    let push = |src| Command::Push { device: 0, queue: 1, src, len: 8, transfer: 5, to: PeerId::PROGRAM };
    assert!(matches!(with_stream(&mut core, push(0)), Request::Abandon { .. }));
    assert_eq!(failed(&mut core), [(0, 1)]);
}

#[test]
fn refused_operation_fails_only_its_queue() {
    let mut core = core();
    let copy = |queue| Command::Copy { device: 0, queue, dst: BASE, src: BASE, len: 8 };
    assert!(matches!(with_stream(&mut core, copy(1)), Request::Put { .. }));
    core.put(crash()).unwrap();
    assert_eq!(failed(&mut core), [(0, 1)]);
    assert!(matches!(ask(&mut core, copy(1)), Request::Done));
    assert!(matches!(with_stream(&mut core, copy(2)), Request::Put { .. }));
    core.put(Ok(Seq(1))).unwrap();
    assert!(failed(&mut core).is_empty());
}

#[test]
fn a_queue_without_a_stream_fails_and_says_so_once() {
    let mut core = core();
    let copy = Command::Copy { device: 0, queue: 1, dst: BASE, src: BASE, len: 8 };
    assert!(matches!(ask(&mut core, copy), Request::MakeStream { .. }));
    core.stream_made(0, QueueId(1), Err(Error::new(ErrorCode::System, "no thread")));
    assert!(matches!(ask(&mut core, copy), Request::Done));
    assert_eq!(failed(&mut core), [(0, 1)]);
}

#[test]
fn copies_between_devices_come_after_the_targets_synchronous_queue() {
    let mut core = core();
    let before = Command::Copy { device: 1, queue: QueueId::SYNC.0, dst: BASE, src: BASE, len: 8 };
    assert!(matches!(with_stream(&mut core, before), Request::Put { .. }));
    core.put(Ok(Seq(4))).unwrap();
    let relay = Command::Relay { device: 0, queue: 1, src: BASE, target: 1, dst: BASE + 8, len: 8, seq: 1 };
    let place = CopyTarget { device: 1, dst: DevicePtr(BASE + 8), after: Some((StreamId(QueueId::SYNC.0), Seq(4))) };
    match with_stream(&mut core, relay) {
        Request::Put { operation: Operation::Relay { target, .. }, .. } => assert_eq!(target, place),
        other => panic!("{other:?}"),
    }
    let expect = Command::Expect { device: 1, dst: BASE + 8, len: 8, transfer: 5, from: PeerId::PROGRAM, seq: 1 };
    match ask(&mut core, expect) {
        Request::Expect { place: Ok(found), .. } => assert_eq!(found, place),
        other => panic!("{other:?}"),
    }
    // An operation that was never enqueued can't precede a copy.
    let never = Command::Expect { device: 1, dst: BASE, len: 8, transfer: 6, from: PeerId::PROGRAM, seq: 2 };
    assert!(matches!(ask(&mut core, never), Request::Expect { place: Err(_), .. }));
}
