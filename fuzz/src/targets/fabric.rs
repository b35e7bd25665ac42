//! Messages between processes of a cluster.

use super::first;
use crate::{Memory, Target};
use accord_fabric::ProgramSpec;
use accord_fabric::ending::ExecutorEnding;
use accord_fabric::frame::session::{self, Message};
use accord_fabric::frame::transfer::{CHUNK_MAX, Chunk, ChunkKind, EXPOSED_MAX};
use accord_fabric::frame::{self, Command, Event, FRAME_MAX, Failure, FrameReader, Record};
use accord_fabric::handshake::{Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::stats::Counters;
use accord_types::{
    ArgBlock, DeviceFault, DeviceId, DeviceInfo, DeviceKind, DeviceUse, Error, ErrorCode, FunctionSpec, HeldJob,
    ImageId, ImageRef, JobToken, Lease, LeasedDevice, NodeId, ObjectSpec, OrderPolicy, QueueId, QueuedJob, Rank, Seq,
    SessionId, SessionKey, SessionRequest, Span, SpanKind,
};
use std::io::Read;

/// Frames of a command lane in both directions, with their payloads.
pub(super) const FRAMES: Target = Target {
    name: "frames",
    run: frames,
    seeds: frame_seeds,
    words: &[],
    input_max: 8 << 10,
    // Two readers of two frames each, whatever length a frame announces; texts take a little more than their bytes.
    memory: Memory { fixed: 5 * FRAME_MAX, per_byte: 64 },
    inputs: 8_000,
};

/// Payloads alone.
pub(super) const PAYLOADS: Target = Target {
    name: "payloads",
    run: payloads,
    seeds: payload_seeds,
    words: &["/", "PATH=", "\0"],
    input_max: 4 << 10,
    memory: Memory { fixed: 4 << 10, per_byte: 64 },
    inputs: 40_000,
};

/// Hellos, and headers of chunks and of session messages.
pub(super) const HEADERS: Target = Target {
    name: "headers",
    run: headers,
    seeds: header_seeds,
    words: &["ACCORD\r\n"],
    input_max: 128,
    memory: Memory { fixed: 4 << 10, per_byte: 16 },
    inputs: 100_000,
};

/// Messages between a program and the coordinator.
pub(super) const SESSION: Target = Target {
    name: "session",
    run: session,
    seeds: session_seeds,
    words: &[],
    input_max: 4 << 10,
    memory: Memory { fixed: 4 << 10, per_byte: 64 },
    inputs: 40_000,
};

/// The first byte selects the direction, and whether the bytes arrive in one piece or in many.
fn frames(mut bytes: &[u8]) {
    let how = first(&mut bytes);
    let piece = if how & 2 == 0 { bytes.len().max(1) } else { usize::from(how >> 2) + 1 };
    if how & 1 == 0 {
        read_frames::<Command>(bytes, piece, command_payload);
    } else {
        read_frames::<Event>(bytes, piece, |event, payload| match event {
            Event::ReplyFailed { failure, .. } | Event::Failed { failure, .. } => error(failure, payload),
            Event::Spans => spans(payload),
            Event::Ending => ending(payload),
            Event::Reply { .. } => drop(Counters::decode(payload)),
            _ => {}
        });
    }
}

fn ending(payload: &[u8]) {
    if let Some(ending) = ExecutorEnding::decode(payload) {
        assert_eq!(ExecutorEnding::decode(&ending.encode()), Some(ending));
    }
}

fn read_frames<R: Record + PartialEq + std::fmt::Debug>(bytes: &[u8], piece: usize, take_payload: impl Fn(R, &[u8])) {
    let mut reader = FrameReader::default();
    for mut part in bytes.chunks(piece) {
        while !part.is_empty() {
            if !matches!(reader.fill(|bytes| part.read(bytes)), Ok(true)) {
                return;
            }
            loop {
                match reader.take::<R>() {
                    Ok(Some(frame)) => {
                        let mut again = Vec::new();
                        let len = frame::put(&mut again, &frame.record, &[frame.payload]).unwrap();
                        assert_eq!(len, frame.length, "a frame of another length comes back");
                        let mut second = FrameReader::default();
                        second.fill(|bytes| (&again[..]).read(bytes)).unwrap();
                        let back = second.take::<R>().unwrap().unwrap();
                        assert_eq!((back.record, back.payload), (frame.record, frame.payload));
                        take_payload(frame.record, frame.payload);
                    }
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
    }
}

fn command_payload(command: Command, payload: &[u8]) {
    match command {
        Command::Start { .. } => program(payload),
        Command::Function { offset, executable, .. } => function(payload, offset, executable),
        Command::Global { offset, len, executable, .. } => global(payload, offset, len, executable),
        Command::Launch { slots, .. } => {
            let mut words = [0; ArgBlock::RELATIVE_WORDS_MAX];
            if let Some(block) = ArgBlock::decode(payload, slots, &mut words) {
                assert!(block.is_sound());
            }
        }
        Command::Wait { .. } | Command::Test { .. } => positions(payload),
        _ => {}
    }
}

fn payloads(mut bytes: &[u8]) {
    match first(&mut bytes) % 7 {
        0 => program(bytes),
        1 => function(bytes, 7, true),
        2 => global(bytes, 7, 8, false),
        3 => positions(bytes),
        4 => spans(bytes),
        5 => error(Failure::new(u16::from(first(&mut bytes))), bytes),
        _ => {
            let (counters, rest) = Counters::decode(bytes);
            let mut again = Vec::new();
            counters.encode(&mut again);
            again.extend_from_slice(rest);
            assert_eq!(Counters::decode(&again), (counters, rest));
        }
    }
}

fn program(bytes: &[u8]) {
    if let Ok(program) = frame::decode_program(bytes) {
        let mut again = Vec::new();
        frame::encode_program(&mut again, &program);
        assert_eq!(frame::decode_program(&again).unwrap(), program);
    }
}

fn function(bytes: &[u8], offset: u64, executable: bool) {
    if let Ok(function) = frame::decode_function(bytes, offset, executable) {
        let mut again = Vec::new();
        frame::encode_function(&mut again, &function);
        assert_eq!(frame::decode_function(&again, offset, executable).unwrap(), function);
    }
}

fn global(bytes: &[u8], offset: u64, len: u64, executable: bool) {
    if let Ok(global) = frame::decode_global(bytes, offset, len, executable) {
        let mut again = Vec::new();
        frame::encode_global(&mut again, &global);
        assert_eq!(frame::decode_global(&again, offset, len, executable).unwrap(), global);
    }
}

fn positions(bytes: &[u8]) {
    if let Ok(positions) = frame::positions(bytes) {
        let mut again = Vec::new();
        positions.for_each(|position| frame::put_position(&mut again, position));
        assert_eq!(again, bytes);
    }
}

fn spans(bytes: &[u8]) {
    if let Ok(spans) = frame::decode_spans(bytes) {
        let mut again = Vec::new();
        for span in &spans {
            let device = DeviceId { node: NodeId(0), ordinal: span.device };
            let (queue, kind, name, bytes) = (span.queue, span.kind, span.name.clone(), span.bytes);
            let span = Span { device, queue, kind, name, bytes, start_ns: span.start_ns, end_ns: span.end_ns };
            frame::encode_span(&mut again, &span);
        }
        assert_eq!(frame::decode_spans(&again).unwrap(), spans);
    }
}

/// Overlong texts are truncated once.
fn error(failure: Failure, bytes: &[u8]) {
    let round = |error: &Error| {
        let mut text = Vec::new();
        let failure = frame::encode_error(error, &mut text);
        frame::decode_error(failure, &text)
    };
    let error = frame::decode_error(failure, bytes);
    let _ = error.to_string();
    let cut = round(&error);
    assert_eq!(round(&cut), cut);
}

fn headers(bytes: &[u8]) {
    if let Some(hello) = bytes.first_chunk()
        && let Ok(decoded) = Hello::decode(hello)
    {
        let nonce = hello.last_chunk().unwrap();
        assert_eq!(Hello::decode(&decoded.encode(nonce)).unwrap(), decoded);
    }
    if let Some(header) = bytes.first_chunk()
        && let Ok(chunk) = Chunk::decode(header)
    {
        // Only exposed buffers arrive in longer pieces.
        assert!(chunk.len <= if chunk.kind == ChunkKind::Data { EXPOSED_MAX } else { CHUNK_MAX });
        assert_eq!(Chunk::decode(&chunk.encode()).unwrap(), chunk);
    }
    if let Some(header) = bytes.first_chunk()
        && let Ok((_, len)) = Message::header(header, session::REQUEST_MAX)
    {
        assert!(len <= session::REQUEST_MAX);
    }
}

fn session(mut bytes: &[u8]) {
    let kind = first(&mut bytes);
    if let Ok(message) = Message::decode(kind, bytes) {
        let again = message.encode();
        let (head, body) = again.split_first_chunk().unwrap();
        let (kind, len) = Message::header(head, usize::MAX).unwrap();
        assert_eq!(len, body.len());
        assert_eq!(Message::decode(kind, body).unwrap(), message);
    }
}

fn the_program() -> ProgramSpec {
    ProgramSpec {
        exe: "/bin/app".to_owned(),
        build_id: "00ff".to_owned(),
        argv0: "./app".to_owned(),
        cwd: "/tmp".to_owned(),
        env: vec!["A=1".to_owned(), "PATH=/bin".to_owned()],
        ..ProgramSpec::default()
    }
}

fn the_function() -> FunctionSpec {
    let object = ObjectSpec { path: "/bin/app".to_owned(), build_id: "00ff".to_owned(), executable: true };
    let kernel = Some(ImageRef { image: ImageId([0xab; 32]), index: 3 });
    FunctionSpec { object, offset: 7, name: "main._omp_fn.0".to_owned(), kernel }
}

fn the_spans() -> Vec<u8> {
    let mut bytes = Vec::new();
    for kind in SpanKind::ALL {
        let device = DeviceId { node: NodeId(0), ordinal: 1 };
        let name = "main._omp_fn.0".to_owned();
        let span = Span { device, queue: QueueId(2), kind, name, bytes: 4096, start_ns: 5, end_ns: 9 };
        frame::encode_span(&mut bytes, &span);
    }
    bytes
}

fn the_error() -> (Failure, Vec<u8>) {
    let error = Error::new(ErrorCode::OutOfMemory, "4 GiB wanted").remedy("ask for less").node("h2").call("launch");
    let mut text = Vec::new();
    (frame::encode_error(&error.queue(QueueId(1)), &mut text), text)
}

fn payload(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    bytes
}

fn the_positions() -> Vec<u8> {
    let position = frame::Position { device: 1, queue: QueueId::SYNC, seq: Seq(99) };
    payload(|bytes| (0..3).for_each(|_| frame::put_position(bytes, position)))
}

fn payload_seeds() -> Vec<Vec<u8>> {
    let bodies = [
        payload(|bytes| frame::encode_program(bytes, &the_program())),
        payload(|bytes| frame::encode_function(bytes, &the_function())),
        payload(|bytes| frame::encode_function(bytes, &the_function())),
        the_positions(),
        the_spans(),
        [&[3], &the_error().1[..]].concat(),
        payload(|bytes| Counters { round_trips: 5, ..Counters::default() }.encode(bytes)),
    ];
    bodies.iter().zip(0u8..).map(|(body, kind)| [&[kind], &body[..]].concat()).collect()
}

fn frame_seeds() -> Vec<Vec<u8>> {
    let program = payload(|bytes| frame::encode_program(bytes, &the_program()));
    let function = payload(|bytes| frame::encode_function(bytes, &the_function()));
    let block: Vec<u8> = [0b1u64, 16, 0x7000, 42, 43].iter().flat_map(|word| word.to_le_bytes()).collect();
    let commands = [
        (Command::Start { ticket: 1, trace: true, emulate_gpu: false }, program),
        (Command::Open { device: 0, ticket: 2, start: 0, len: 0 }, Vec::new()),
        (Command::Store { device: 0, queue: 1, dst: 4096 }, vec![7; 40]),
        (Command::Function { device: 0, function: 1, offset: 7, executable: true }, function),
        (
            Command::Launch {
                device: 0,
                queue: 1,
                function: 1,
                gangs: 8,
                workers: 1,
                vector: 32,
                slots: 2,
                float_control: 0,
            },
            block,
        ),
        (Command::Wait { ticket: 9 }, the_positions()),
        (Command::Map { device: 0, ticket: 0, start: 1 << 44, len: 1 << 20 }, Vec::new()),
    ];
    let (failure, text) = the_error();
    let events = [
        (Event::Reply { ticket: 2, value: 1 << 44, extra: 1 << 40 }, Vec::new()),
        (Event::ReplyFailed { ticket: 3, failure }, text.clone()),
        (Event::Failed { device: 0, queue: 1, failure }, text),
        (Event::Credit { bytes: 4096 }, Vec::new()),
        (Event::Data { transfer: 5 }, vec![1; 100]),
        (Event::PeerLost { peer: PeerId::from_raw(3).on_lane(1) }, Vec::new()),
        (Event::Spans, the_spans()),
        (Event::Ending, ExecutorEnding::time_is_over(SessionId(7)).encode()),
    ];
    let mut seeds = vec![vec![0], vec![3]];
    for (command, payload) in &commands {
        frame::put(&mut seeds[0], command, &[payload]).unwrap();
    }
    for (event, payload) in &events {
        frame::put(&mut seeds[1], event, &[payload]).unwrap();
    }
    for (command, payload) in &commands {
        let mut one = vec![0];
        frame::put(&mut one, command, &[payload]).unwrap();
        seeds.push(one);
    }
    seeds
}

fn header_seeds() -> Vec<Vec<u8>> {
    let hello = Hello::new(Purpose::Command, SessionId(5), 1, PeerId::PROGRAM).encode(&[9; 32]);
    let chunk = payload(|bytes| {
        bytes.extend(100u64.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend([7u64, 4096].iter().flat_map(|number| number.to_le_bytes()));
    });
    vec![hello.to_vec(), chunk, Message::MayUse(DeviceId { node: NodeId(2), ordinal: 3 }).encode()]
}

fn session_seeds() -> Vec<Vec<u8>> {
    let request = SessionRequest {
        node_name: "h1".into(),
        pid: 4711,
        program: "app".into(),
        rank: Some(Rank { rank: 1, size: 4, local_rank: 1, local_size: 2, job: 0 }),
        kind: Some(DeviceKind::CUDA),
        order: OrderPolicy::Rank,
        devices: None,
        job: None,
    };
    let device = |ordinal| LeasedDevice {
        info: DeviceInfo {
            id: DeviceId { node: NodeId(1), ordinal },
            node_name: "h1".into(),
            kind: DeviceKind::CPU,
            name: "CPU".into(),
            vendor: "someone".into(),
            driver: "1".into(),
            uuid: "GPU-0".into(),
            memory: 1 << 40,
            units: 2,
            compute: (0, 0),
            context: 0,
            attributes: Vec::new(),
            numa: Some(0),
            cpus: vec![0, 3],
        },
        address: "10.0.0.1:7447".into(),
        is_shared: true,
    };
    let lease = Lease {
        session: SessionId(7),
        key: SessionKey(std::array::from_fn(|at| (at * at * 7 + 1) as u8)),
        own_node: Some(NodeId(1)),
        devices: (0..3).map(device).collect(),
        memory_quota: 0,
        stream_quota: 32,
        plain_tcp: false,
        is_of_job: false,
    };
    let token = JobToken { job: 17, key: lease.key };
    let device = DeviceId { node: NodeId(2), ordinal: 1 };
    let used = DeviceUse { busy_ms: Some(9), bytes_in: 1 << 40, bytes_out: 2, held: 3, fault: DeviceFault::cuda(214) };
    let messages = [
        Message::Hold(request.clone()),
        Message::Open(request),
        Message::Queued(QueuedJob { token, position: Some(2), why: "devices".into(), starts_in_ms: Some(1) }),
        Message::Held(HeldJob { token, devices: 8 }),
        Message::MayUse(device),
        Message::InUse(vec![device, device]),
        Message::UseAnswered { device, error: None },
        Message::UseAnswered { device, error: Some(Error::new(ErrorCode::DeviceUnavailable, "held").remedy("wait")) },
        Message::Used(vec![(device, used), (device, DeviceUse { busy_ms: None, ..used })]),
        Message::Granted(lease),
        Message::Refused(Error::new(ErrorCode::DeviceUnavailable, "none").remedy("wait").node("h2")),
        Message::NodeLost { node: NodeId(2), name: "h2".into() },
        Message::NodeLeft { node: NodeId(2), name: "h2".into() },
        Message::ExecutorEnded { node: NodeId(2), why: "signal: 9 (SIGKILL)".into() },
        Message::Warning("careful".into()),
        Message::Ended("over".into()),
    ];
    // The kind without the rest of the header.
    messages.iter().map(Message::encode).map(|bytes| [&bytes[4..5], &bytes[session::HEADER_LEN..]].concat()).collect()
}
