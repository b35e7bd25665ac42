//! Programs that exceed their lease or break the protocol: the executor itself refuses them.

mod support;

use accord_device::Device;
use accord_device::fake::FakeRegion;
use accord_device::image::Image;
use accord_executor::Limits;
use accord_executor::queue_table::QUEUES_MAX;
use accord_fabric::frame::{self, Command, EXCHANGE_STEP, Event, STREAM_WINDOW};
use accord_fabric::handshake::Purpose;
use accord_fabric::peer::PeerId;
use accord_fabric::transfer::ControlSender;
use accord_types::{Error, ErrorCode, NodeId, QueueId, Seq};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Program, SYNC};

const MIB: u64 = 1 << 20;

fn limits() -> Limits {
    Limits { ordinals: vec![0, 2], memory: 16 * MIB, streams: 4 }
}

#[test]
fn a_device_that_the_lease_does_not_name_is_refused() {
    let mut program = Program::new(limits());
    program.start().unwrap();
    for device in [1, 3, u32::MAX] {
        let error = program.ask(|ticket| Command::Open { device, ticket, start: 0, len: 0 }).unwrap_err();
        assert_eq!(error.code(), ErrorCode::DeviceUnavailable);
        assert!(error.cause().contains(&format!("session s7 does not name device {device}")), "{error}");
        // A device must not be used without being opened.
        assert!(program.ask(|ticket| Command::Memory { device, ticket }).is_err());
        program.send(&Command::Store { device, queue: SYNC, dst: 0 }, &[1]);
        assert_eq!(program.failure(SYNC).cause(), "the device is not started");
    }
    program.ask(|ticket| Command::Open { device: 2, ticket, start: 0, len: 0 }).unwrap();
    assert_eq!(program.devices().len(), 1);
}

#[test]
fn no_more_memory_than_the_lease_has_is_mapped_on_a_device() {
    let (mut program, start) = Program::open(limits(), 0);
    let map = |start, len| move |ticket| Command::Map { device: 0, ticket, start, len };
    program.ask(map(start, 4 * MIB)).unwrap();
    program.ask(map(start + 4 * MIB, 8 * MIB)).unwrap();
    let error = program.ask(map(start + 12 * MIB, 5 * MIB)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert!(error.cause().contains("12582912 of the quota of 16777216 bytes"), "{error}");
    assert_eq!(program.ask(|ticket| Command::Memory { device: 0, ticket }).unwrap(), 4 * MIB);
    for len in [0, 1 << 60, u64::MAX] {
        assert!(program.ask(map(start + 12 * MIB, len)).is_err(), "{len} bytes");
    }
    assert!(program.ask(map(start + 8 * MIB, MIB)).is_err(), "it is mapped already");
    // Another device has its own limit.
    let other = program.ask(|ticket| Command::Open { device: 2, ticket, start: 0, len: 0 }).unwrap();
    program.ask(|ticket| Command::Map { device: 2, ticket, start: other, len: 16 * MIB }).unwrap();

    // Freed memory may be mapped again, but only mapped memory is freed.
    program.send(&Command::Unmap { device: 0, queue: SYNC, start, len: 4 * MIB }, &[]);
    program.wait(0, SYNC, 1).unwrap();
    program.ask(map(start, 4 * MIB)).unwrap();
    program.ask(map(start + 12 * MIB, 4 * MIB)).unwrap();
    program.send(&Command::Unmap { device: 0, queue: 5, start: start + 15 * MIB, len: 8 * MIB }, &[]);
    let error = program.failure(5);
    assert!(error.cause().contains("were not mapped"), "{error}");
    assert!(program.ask(map(start + 16 * MIB, 1)).is_err());

    // Without a ticket the failure is the device's.
    program.send(&Command::Map { device: 0, ticket: 0, start: start + 16 * MIB, len: 1 }, &[]);
    assert_eq!(program.failure(u32::MAX).code(), ErrorCode::OutOfMemory);
}

#[test]
fn many_queues_share_the_streams_of_the_lease() {
    let (mut program, start) = Program::open(limits(), 0);
    program.ask(|ticket| Command::Map { device: 0, ticket, start, len: MIB }).unwrap();
    for queue in 0..100 {
        program.send(&Command::Store { device: 0, queue, dst: start }, &[1]);
    }
    for queue in 0..100 {
        program.wait(0, queue, 1).unwrap();
    }
    let streams = program.devices()[0].create_stream(QueueId(0)).unwrap().0;
    assert_eq!(streams, 4, "the program has {streams} streams");
    // A wait for an operation that a queue never had is refused.
    assert!(program.wait(0, 3, 2).is_err());
    assert!(program.wait(0, 101, 1).is_err());
}

#[test]
fn too_many_queues_and_queues_of_accords_own_end_the_session() {
    for queue in [0x8000_0000, QueueId::INCOMING.0, u32::MAX] {
        let (mut program, start) = Program::open(limits(), 0);
        program.send(&Command::Store { device: 0, queue, dst: start }, &[1]);
        assert!(program.failure(u32::MAX).cause().contains("no queue of a program"));
        program.assert_ended();
    }
    let (mut program, start) = Program::open(limits(), 0);
    program.ask(|ticket| Command::Map { device: 0, ticket, start, len: MIB }).unwrap();
    for queue in 0..=QUEUES_MAX as u32 {
        program.send(&Command::Store { device: 0, queue, dst: start }, &[1]);
        if queue % 256 == 255 {
            // The program keeps to the windows of its streams by waiting for the last queues of each.
            for last in queue - 3..=queue {
                program.wait(0, last, 1).unwrap();
            }
        }
    }
    assert!(program.failure(u32::MAX).cause().contains("more than 65536 queues"));
    program.assert_ended();
}

#[test]
fn addresses_and_lengths_beyond_the_device_fail_their_queue_only() {
    const HUGE: u64 = 1 << 60;
    let (mut program, start) = Program::open(limits(), 0);
    program.ask(|ticket| Command::Map { device: 0, ticket, start, len: MIB }).unwrap();
    let commands = |queue| {
        [
            Command::CopyIn { device: 0, queue, dst: start, len: HUGE, transfer: 1, eager: true },
            Command::CopyIn { device: 0, queue, dst: start, len: HUGE, transfer: 2, eager: false },
            Command::CopyOut { device: 0, queue, src: start, len: HUGE, transfer: 3 },
            Command::Copy { device: 0, queue, dst: start, src: start, len: HUGE },
            Command::Push {
                device: 0,
                queue,
                src: start,
                len: HUGE,
                transfer: 4 + u64::from(queue),
                to: PeerId::PROGRAM,
            },
            Command::Relay { device: 0, queue, src: start, target: 0, dst: start, len: HUGE, seq: 0 },
            Command::Unmap { device: 0, queue, start, len: HUGE },
            Command::Store { device: 0, queue, dst: u64::MAX },
            Command::Launch {
                device: 0,
                queue,
                function: 9,
                gangs: 1,
                workers: 1,
                vector: 1,
                slots: 0,
                float_control: 0,
            },
            Command::WaitQueue { device: 0, queue, other: 77, seq: 1 },
        ]
    };
    for number in 0..commands(0).len() {
        let queue = number as u32;
        program.send(&commands(queue)[number], &[]);
        let error = program.failure(queue);
        assert!(!error.cause().is_empty());
        // The failure stays, and is that queue's alone.
        assert!(program.wait(0, queue, 1).is_err());
        program.send(&Command::Store { device: 0, queue: 50 + queue, dst: start }, &[1]);
        program.wait(0, 50 + queue, 1).unwrap();
    }
    program
        .send(&Command::Expect { device: 0, dst: start, len: HUGE, transfer: 90, from: PeerId::PROGRAM, seq: 0 }, &[]);
    program.ask(|ticket| Command::Clock { ticket }).unwrap();
}

#[test]
fn commands_out_of_turn_end_the_session() {
    let mut program = Program::new(limits());
    assert!(
        program.ask(|ticket| Command::Open { device: 0, ticket, start: 0, len: 0 }).is_err(),
        "a device before the start"
    );
    program.start().unwrap();
    assert!(program.start().unwrap_err().cause().contains("a second start"));
    program.assert_ended();

    let program = Program::new(limits());
    program.send(&Command::Image { offset: 0, len: 1 << 60 }, &[1]);
    program.assert_ended();

    // Transfers with the same number twice: the second is refused.
    let (mut program, start) = Program::open(limits(), 0);
    program.ask(|ticket| Command::Map { device: 0, ticket, start, len: MIB }).unwrap();
    for _ in 0..2 {
        let expect = Command::Expect { device: 0, dst: start, len: MIB, transfer: 5, from: PeerId::PROGRAM, seq: 0 };
        program.send(&expect, &[]);
    }
    program.assert_ended();
}

/// In an MPI job the agent would hold the code, with that of other sessions.
#[test]
fn gpu_code_without_end_ends_the_session() {
    /// Most images of a program on a node.
    const IMAGES: usize = 4_096;
    let (mut beside, _) = Program::open(limits(), 0);
    let mut program = Program::new(limits());
    program.start().unwrap();
    let send = |program: &Program, number: usize| {
        let object = format!("// {number}").into_bytes();
        let image = Image { objects: vec![object], functions: Vec::new(), variables: Vec::new() }.encode().unwrap();
        program.send(&Command::Image { offset: 0, len: image.len() as u64 }, &image);
    };
    (0..IMAGES).for_each(|number| send(&program, number));
    program.ask(|ticket| Command::Clock { ticket }).expect("as many as there may be");
    send(&program, IMAGES);
    let error = program.failure(u32::MAX);
    assert!(error.cause().contains("one more image of GPU code than the 4096"), "{error}");
    program.assert_ended();
    beside.ask(|ticket| Command::Clock { ticket }).unwrap();
}

/// The device keeps every function that it resolves, whatever its number.
#[test]
fn functions_that_are_named_again_and_again_end_the_session() {
    let region: FakeRegion = Arc::new(|_| Ok(()));
    let mut program = Program::with_regions(limits(), vec![(0x10, region)]);
    program.start().unwrap();
    program.ask(|ticket| Command::Open { device: 0, ticket, start: 0, len: 0 }).unwrap();
    (1..100).for_each(|function| program.function(0, function, 0x10));
    program.ask(|ticket| Command::Clock { ticket }).expect("each has a number of its own");
    program.function(0, 7, 0x10);
    let error = program.failure(u32::MAX);
    assert!(error.cause().contains("function 7 was named before"), "{error}");
    program.assert_ended();
}

#[test]
fn announcements_of_2_to_the_60_bytes_end_the_session() {
    let huge = (1u64 << 60).to_le_bytes();
    for purpose in [Purpose::Command, Purpose::Bulk, Purpose::Control] {
        let (program, _) = Program::open(limits(), 0);
        let lane = if purpose == Purpose::Command { program.lane.clone() } else { program.lane(purpose) };
        let kind = if purpose == Purpose::Control { 3 } else { 1 };
        let mut header = [0; 32];
        header[..8].copy_from_slice(&huge);
        header[if purpose == Purpose::Command { 12 } else { 8 }] = kind;
        lane.send(&header).unwrap();
        program.assert_ended();
    }
}

/// A holder of the session's key can claim to be any of its executors. The executor has a link and a thread for each.
#[test]
fn executors_without_end_are_turned_away_and_the_session_goes_on() {
    /// Most links: one for each possible node.
    const LINKS_MAX: u32 = 4_096;
    let (mut program, start) = Program::open(limits(), 0);
    program.ask(|ticket| Command::Map { device: 0, ticket, start, len: MIB }).unwrap();
    let from = |node| PeerId::executor(NodeId(2 + node), 0).unwrap();
    let announce = |transfer, from| Command::Expect { device: 0, dst: start, len: 8, transfer, from, seq: 0 };
    // A valid one connected before.
    program.send(&announce(1, from(0)), &[]);
    let honest = program.lane_of(Purpose::Peer, from(0));
    let lanes: Vec<_> = (1..LINKS_MAX + 64).map(|node| program.lane_of(Purpose::Peer, from(node))).collect();
    // The refused lanes are closed.
    for lane in &lanes[LINKS_MAX as usize - 1..] {
        match lane.read(&mut [0]) {
            Ok(0) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            other => panic!("one more is taken: {other:?}"),
        }
    }
    // The messages to the others show that they are served.
    program.send(&announce(2, from(LINKS_MAX - 1)), &[]);
    for lane in [&honest, &lanes[LINKS_MAX as usize - 2]] {
        assert!(lane.read(&mut [0; 16]).unwrap() > 0, "no answer says that the bytes may come");
    }
    // A lane that ends frees a place for another.
    drop(lanes);
    program.send(&announce(3, from(LINKS_MAX + 100)), &[]);
    let begun = Instant::now();
    loop {
        let lane = program.lane_of(Purpose::Peer, from(LINKS_MAX + 100));
        if lane.read(&mut [0; 16]).is_ok_and(|read| read > 0) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "no link ends");
    }
    program.ask(|ticket| Command::Clock { ticket }).unwrap();
}

/// Returns a region that blocks until its sender sends or is dropped.
fn held() -> (std::sync::mpsc::Sender<()>, FakeRegion) {
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let region: FakeRegion = Arc::new(move |_| {
        let _ = gate.lock().unwrap().recv();
        Ok(())
    });
    (go, region)
}

/// Of two copies with one number only one would count towards the bound on buffered bytes, so that a program could fill all memory.
#[test]
fn copy_with_a_repeated_transfer_id_ends_the_session() {
    let (go, region) = held();
    let mut program = Program::with_regions(limits(), vec![(0x10, region)]);
    program.start().unwrap();
    let start = program.ask(|ticket| Command::Open { device: 0, ticket, start: 0, len: 0 }).unwrap();
    program.ask(|ticket| Command::Map { device: 0, ticket, start, len: MIB }).unwrap();
    program.function(0, 1, 0x10);
    program.send(
        &Command::Launch {
            device: 0,
            queue: 1,
            function: 1,
            gangs: 1,
            workers: 1,
            vector: 1,
            slots: 0,
            float_control: 0,
        },
        &[],
    );
    let copy = |transfer| Command::CopyIn { device: 0, queue: 1, dst: start, len: MIB, transfer, eager: false };
    program.send(&copy(1), &[]);
    program.send(&copy(2), &[]);
    program.ask(|ticket| Command::Clock { ticket }).unwrap();
    program.send(&copy(1), &[]);
    let error = program.failure(u32::MAX);
    assert!(error.cause().contains("was put in twice"), "{error}");
    drop(go);
    program.assert_ended();
}

#[test]
fn a_program_that_goes_on_without_credit_for_a_stream_is_refused() {
    let (go, region) = held();
    let mut program = Program::with_regions(limits(), vec![(0x10, region)]);
    program.start().unwrap();
    let start = program.ask(|ticket| Command::Open { device: 0, ticket, start: 0, len: 0 }).unwrap();
    program.ask(|ticket| Command::Map { device: 0, ticket, start, len: MIB }).unwrap();
    program.function(0, 1, 0x10);
    program.send(
        &Command::Launch {
            device: 0,
            queue: 1,
            function: 1,
            gangs: 1,
            workers: 1,
            vector: 1,
            slots: 0,
            float_control: 0,
        },
        &[],
    );
    // A full window is accepted, and other queues continue meanwhile.
    for _ in 0..STREAM_WINDOW / 1024 - 1 {
        program.send(&Command::Store { device: 0, queue: 1, dst: start }, &[1]);
    }
    program.send(&Command::Store { device: 0, queue: 2, dst: start }, &[1]);
    program.wait(0, 2, 1).unwrap();
    go.send(()).unwrap();
    program.wait(0, 1, STREAM_WINDOW / 1024).unwrap();

    program.send(
        &Command::Launch {
            device: 0,
            queue: 1,
            function: 1,
            gangs: 1,
            workers: 1,
            vector: 1,
            slots: 0,
            float_control: 0,
        },
        &[],
    );
    for _ in 0..10 * STREAM_WINDOW / 1024 {
        program.send(&Command::Store { device: 0, queue: 1, dst: start }, &[1]);
    }
    // A lane that closes with commands unread may lose the reason.
    while let Some((event, text)) = program.event() {
        if let Event::Failed { device: u32::MAX, failure, .. } = event {
            let error = frame::decode_error(failure, &text);
            assert!(error.cause().contains("more than 524288 bytes of operations open in one stream"), "{error}");
        }
    }
    let open = program.devices()[0].pending();
    assert!(open < 4 * (STREAM_WINDOW / 1024) as usize, "{open} operations are open");
    drop(go);
    program.assert_ended();
}

/// An expected transfer from a lost executor is over at once, but the device still remembers the position that it waited for.
#[test]
fn a_program_that_expects_copies_from_an_executor_that_is_lost_is_refused() {
    /// Most positions for which a program may wait.
    const POSITIONS: u64 = 1 << 18;
    let (go, region) = held();
    let mut program = Program::with_regions(limits(), vec![(0x10, region)]);
    program.start().unwrap();
    let start = program.ask(|ticket| Command::Open { device: 0, ticket, start: 0, len: 0 }).unwrap();
    program.ask(|ticket| Command::Map { device: 0, ticket, start, len: MIB }).unwrap();
    program.function(0, 1, 0x10);
    let launch = Command::Launch {
        device: 0,
        queue: SYNC,
        function: 1,
        gangs: 1,
        workers: 1,
        vector: 1,
        slots: 0,
        float_control: 0,
    };
    program.send(&launch, &[]);
    let from = PeerId::executor(NodeId(9), 1).unwrap();
    let expect = |transfer| Command::Expect { device: 0, dst: start, len: 8, transfer, from, seq: 1 };
    program.send_all((0..EXCHANGE_STEP.into()).map(expect), &[]);
    program.ask(|ticket| Command::Clock { ticket }).unwrap();
    let control = ControlSender::new("", Arc::default());
    control.connect(program.lane(Purpose::Control));
    control.lost(from, &Error::new(ErrorCode::DeviceUnavailable, "node 9 is silent"));
    while !matches!(program.event().expect("the session goes on").0, Event::Exchanged { .. }) {}
    program.send_all((EXCHANGE_STEP.into()..POSITIONS + 1_000).map(expect), &[]);
    let error = program.failure(u32::MAX);
    assert!(error.cause().contains("positions at the same time"), "{error}");
    drop(go);
    program.assert_ended();
}

/// Waits are no operations, and have no window. A program that waits on and on for a queue that stands still is refused.
#[test]
fn a_program_that_waits_for_everything_at_once_is_refused() {
    let (go, region) = held();
    let mut program = Program::with_regions(limits(), vec![(0x10, region)]);
    program.start().unwrap();
    program.ask(|ticket| Command::Open { device: 0, ticket, start: 0, len: 0 }).unwrap();
    program.function(0, 1, 0x10);
    program.send(
        &Command::Launch {
            device: 0,
            queue: 1,
            function: 1,
            gangs: 1,
            workers: 1,
            vector: 1,
            slots: 0,
            float_control: 0,
        },
        &[],
    );
    let position = frame::Position { device: 0, queue: QueueId(1), seq: Seq(1) };
    let mut positions = Vec::new();
    for _ in 0..1 << 12 {
        frame::put_position(&mut positions, position);
    }
    for ticket in 0..80 {
        program.send(&Command::Wait { ticket: 1_000 + ticket }, &positions);
    }
    while let Some((event, text)) = program.event() {
        if let Event::Failed { device: u32::MAX, failure, .. } = event {
            let error = frame::decode_error(failure, &text);
            assert!(error.cause().contains("it waits for") && error.cause().contains("at the same time"), "{error}");
        }
    }
    drop(go);
    program.assert_ended();
}

/// Returns every command, event and chunk, and some unknown ones, with fields of zeros, of ones and of the largest numbers.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for fill in [0, 1, 0xff] {
        // Commands have kind 1, events kind 2. The record begins with the number of its variant.
        for (kind, number) in [1, 2, 3].into_iter().flat_map(|kind| (0..32).map(move |number| (kind, number))) {
            let mut frame = vec![fill; 80];
            frame[..16].copy_from_slice(&[80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kind, 0, 0, 0]);
            frame[16] = number;
            frames.push(frame);
        }
        for kind in 0..12 {
            let mut chunk = vec![fill; 32 + 16];
            chunk[..16].copy_from_slice(&[16, 0, 0, 0, 0, 0, 0, 0, kind, 0, 0, 0, 0, 0, 0, 0]);
            frames.push(chunk);
        }
    }
    frames
}

/// From the program and from another executor, on every lane and in every state of the session: the executor refuses the frame or continues, ends when
/// the lane does, and does not panic. Another session does not notice.
#[test]
fn every_frame_in_every_state_is_handled_without_a_panic() {
    let (mut honest, _) = Program::open(limits(), 0);
    let other = PeerId::executor(NodeId(2), 1).unwrap();
    let lanes = [
        (Purpose::Command, PeerId::PROGRAM),
        (Purpose::Bulk, PeerId::PROGRAM),
        (Purpose::Control, PeerId::PROGRAM),
        (Purpose::Peer, other),
        (Purpose::Bulk, other),
        (Purpose::Control, other),
    ];
    let frames = frames();
    let mut tried = 0;
    for (purpose, from) in lanes {
        for state in 0..3 {
            for frame in &frames {
                let mut program = Program::new(limits());
                if state > 0 {
                    program.start().unwrap();
                }
                if state > 1 {
                    let start = program.ask(|ticket| Command::Open { device: 0, ticket, start: 0, len: 0 }).unwrap();
                    program.ask(|ticket| Command::Map { device: 0, ticket, start, len: MIB }).unwrap();
                }
                let own = purpose == Purpose::Command;
                let lane = if own { program.lane.clone() } else { program.lane_of(purpose, from) };
                let _ = lane.send(frame);
                let _ = lane.finish();
                let _ = program.lane.finish();
                program.assert_ended();
                tried += 1;
            }
        }
        honest.ask(|ticket| Command::Clock { ticket }).unwrap();
    }
    println!("{tried} frames");
}

#[test]
fn a_lane_that_ends_within_a_frame_ends_the_session() {
    let (program, _) = Program::open(limits(), 0);
    program.lane.send(&80u64.to_le_bytes()).unwrap();
    program.lane.finish().unwrap();
    program.assert_ended();
}

#[test]
fn a_second_command_lane_and_lanes_of_others_are_turned_away() {
    let (mut program, _) = Program::open(limits(), 0);
    for purpose in [Purpose::Command, Purpose::Session, Purpose::Peer] {
        let lane = program.lane(purpose);
        match lane.read(&mut [0]) {
            Ok(0) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            other => panic!("{purpose:?} was let in: {other:?}"),
        }
        program.ask(|ticket| Command::Clock { ticket }).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// For any bytes on any lane in any state: the executor ends in order, and does not panic.
    #[test]
    fn garbage_never_harms_the_executor(
        state in 0..3, lane in 0..3, bytes in prop::collection::vec(any::<u8>(), 1..4096), cut in any::<bool>(),
    ) {
        let mut program = Program::new(limits());
        if state > 0 {
            program.start().unwrap();
        }
        if state > 1 {
            program.ask(|ticket| Command::Open { device: 0, ticket, start: 0, len: 0 }).unwrap();
        }
        let lane = match lane {
            0 => program.lane.clone(),
            1 => program.lane(Purpose::Bulk),
            _ => program.lane(Purpose::Control),
        };
        let mut bytes = bytes;
        if cut && bytes.len() >= 16 {
            // A valid header precedes the bytes, so that the record is read.
            bytes.resize(80, 0);
            bytes[..16].copy_from_slice(&[80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        }
        let _ = lane.send(&bytes);
        let _ = lane.finish();
        program.assert_ended();
    }
}

#[test]
fn all_queues_of_a_stream_get_its_failure() {
    let (mut program, start) = Program::open(Limits { streams: 1, ..limits() }, 0);
    program.ask(|ticket| Command::Map { device: 0, ticket, start, len: MIB }).unwrap();
    for queue in 0..3 {
        program.send(&Command::Store { device: 0, queue, dst: start }, &[1]);
        program.wait(0, queue, 1).unwrap();
    }
    program.devices()[0].fail(Error::new(ErrorCode::Execution, "a region has crashed"));
    let mut reported = BTreeSet::new();
    while reported.len() < 3 {
        // This event is the only notice for a waiter whose bytes never arrive.
        let (event, _) = program.event().expect("the executor has closed the lane");
        if let Event::Failed { queue, .. } = event {
            reported.insert(queue);
        }
    }
    assert_eq!(reported, BTreeSet::from([0, 1, 2]));
}
