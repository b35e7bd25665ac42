//! Each list and each text on lanes and at the session endpoint has a named bound, which the receiver enforces. Control messages of the cluster are in
//! `proto/tests/bounds.rs`.

use accord_device::image::ENCODED_MAX;
use accord_executor::Limits;
use accord_executor::executor::{ExecutorCore, Facts};
use accord_fabric::ProgramSpec;
use accord_fabric::ending::{ENDING_MAX, ExecutorEnding};
use accord_fabric::frame::session::{self, Message};
use accord_fabric::frame::transfer::{self, Chunk, ChunkKind, DEVICES_BYTES_MAX, HANDLE_MAX};
use accord_fabric::frame::{self, Command, Event, PAYLOAD_MAX};
use accord_types::texts::{ADDRESS_MAX, NAME_MAX, REQUEST_TEXT_MAX, WORDS_MAX};
use accord_types::{
    ArgBlock, DeviceId, DeviceInfo, DeviceKind, ErrorCode, FunctionSpec, JobToken, Lease, LeasedDevice, NodeId,
    ObjectSpec, OrderPolicy, QueueId, QueuedJob, Seq, SessionId, SessionKey, SessionRequest, Span, SpanKind, StreamId,
    TransferId,
};
use std::collections::BTreeSet;
use std::path::Path;

/// The types whose values are sent on lanes, by their files below `crates`.
const TYPES: &[(&str, &[&str])] = &[
    ("fabric/src/program.rs", &["ProgramSpec"]),
    ("fabric/src/ending.rs", &["ExecutorEnding"]),
    ("fabric/src/frame/command.rs", &["Command"]),
    ("fabric/src/frame/event.rs", &["Event"]),
    ("fabric/src/frame/failure.rs", &["Failure"]),
    ("fabric/src/frame/payload.rs", &["Position", "SpanRecord"]),
    ("fabric/src/frame/session.rs", &["Message", "Claim"]),
    ("fabric/src/transfer/control.rs", &["ReceiveAnnouncement", "ControlMessage"]),
    ("types/src/function.rs", &["ObjectSpec", "FunctionSpec", "GlobalSpec"]),
    ("types/src/session.rs", &["SessionRequest", "Lease", "LeasedDevice"]),
    ("types/src/job.rs", &["QueuedJob"]),
    ("types/src/device.rs", &["DeviceInfo"]),
    ("types/src/error.rs", &["ErrorParts"]),
    ("image/src/lib.rs", &["Image", "ImageFunction", "ImageVariable"]),
];

/// Returns the fields of these types that may have any length: `Type.field`, `Type.Variant` or `Type.Variant.field`.
fn places() -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeSet::new();
    for (file, types) in TYPES {
        let text = std::fs::read_to_string(crates.join(file)).unwrap();
        for name in *types {
            let begins = |line: &&str| {
                let line = line.strip_prefix("pub ").unwrap_or(line);
                let rest = line.strip_prefix("struct ").or_else(|| line.strip_prefix("enum "));
                rest.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with([' ', '(']))
            };
            let mut lines = text.lines().skip_while(|line| !begins(line));
            assert!(lines.next().is_some(), "{file} has no {name}");
            let mut variant = String::new();
            for line in lines.take_while(|line| *line != "}") {
                let code = line.split("//").next().unwrap();
                let depth = code.len() - code.trim_start().len();
                let word = code.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
                let own: String = word.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if depth == 4 && !own.is_empty() {
                    variant = own.clone();
                }
                let many = ["String", "Vec<", "Box<", "Arc<", "Map<", "Set<"];
                if many.iter().any(|many| code.contains(many)) {
                    let inner = if depth == 4 { String::new() } else { format!(".{own}") };
                    found.insert(format!("{name}.{variant}{inner}"));
                }
            }
        }
    }
    found
}

/// The text that marks a field in a message.
const MARK: &str = "MARK";

/// Whether the session endpoint refuses a message whose text [`MARK`] has one byte more than `max`, and accepts one byte less.
fn is_bounded(message: &Message, max: usize) -> bool {
    let bytes = message.encode();
    let text = |text: &[u8]| [&(text.len() as u32).to_le_bytes()[..], text].concat();
    let mark = text(MARK.as_bytes());
    let at = bytes.windows(mark.len()).position(|window| window == mark).expect("it has the mark");
    let with = |len: usize| {
        let body = [&bytes[session::HEADER_LEN..at], &text(&vec![b'x'; len]), &bytes[at + mark.len()..]].concat();
        Message::decode(bytes[4], &body)
    };
    with(max).is_ok() && with(max + 1).is_err()
}

fn info() -> DeviceInfo {
    DeviceInfo {
        id: DeviceId { node: NodeId(1), ordinal: 0 },
        node_name: "h".into(),
        kind: DeviceKind::CPU,
        name: "n".into(),
        vendor: "v".into(),
        driver: "d".into(),
        uuid: "u".into(),
        memory: 1,
        units: 1,
        compute: (0, 0),
        context: 0,
        attributes: Vec::new(),
        numa: None,
        cpus: Vec::new(),
    }
}

fn granted(devices: Vec<LeasedDevice>) -> Message {
    Message::Granted(Lease {
        session: SessionId(7),
        key: SessionKey(std::array::from_fn(|at| (at * at * 7 + 5) as u8)),
        own_node: None,
        devices,
        memory_quota: 0,
        stream_quota: 0,
        plain_tcp: false,
        is_of_job: false,
    })
}

fn device(info: DeviceInfo) -> Message {
    granted(vec![LeasedDevice { info, address: "a".into(), is_shared: false }])
}

/// Whether a message is refused whose last list, which is empty, claims `len` elements, followed by so many bytes.
fn refuses_list(message: &Message, before_end: usize, len: usize, bytes: usize) -> bool {
    let encoded = message.encode();
    let at = encoded.len() - before_end - 4;
    let rest = [&(len as u32).to_le_bytes()[..], &vec![0; bytes], &encoded[at + 4..]].concat();
    let error = Message::decode(encoded[4], &[&encoded[session::HEADER_LEN..at], &rest].concat()).unwrap_err();
    error.cause().contains("at most")
}

fn token() -> JobToken {
    JobToken { job: 1, key: SessionKey(std::array::from_fn(|at| (at * at * 7 + 5) as u8)) }
}

fn request(node_name: &str, program: &str) -> SessionRequest {
    SessionRequest {
        node_name: node_name.into(),
        pid: 1,
        program: program.into(),
        rank: None,
        kind: None,
        order: OrderPolicy::Local,
        devices: None,
        job: None,
    }
}

/// Whether a payload is too long for a frame, whose reader accepts at most [`PAYLOAD_MAX`] bytes.
fn fits_no_frame(payload: &[u8]) -> bool {
    let command = Command::Function { device: 0, function: 0, offset: 0, executable: true };
    payload.len() > PAYLOAD_MAX && frame::put(&mut Vec::new(), &command, &[payload]).is_err()
}

fn program_fits_no_frame(program: &ProgramSpec) -> bool {
    let mut payload = Vec::new();
    frame::encode_program(&mut payload, program);
    fits_no_frame(&payload)
}

fn function_fits_no_frame(object: ObjectSpec, name: &str) -> bool {
    let mut payload = Vec::new();
    frame::encode_function(&mut payload, &FunctionSpec { object, offset: 0, name: name.into(), kernel: None });
    fits_no_frame(&payload)
}

fn chunk_is_refused(kind: ChunkKind, max: usize) -> bool {
    let header = |len| Chunk { kind, transfer: TransferId(1), offset: 0, len }.encode();
    Chunk::decode(&header(max)).is_ok() && Chunk::decode(&header(max + 1)).is_err()
}

struct Nothing;

impl Facts for Nothing {
    fn reached(&self, _: u32, _: StreamId, _: Seq) -> bool {
        true
    }

    fn incoming(&self) -> usize {
        0
    }
}

/// GPU code arrives in pieces; its encoding contains its lists and texts.
fn image_is_refused() -> bool {
    let mut core = ExecutorCore::new(SessionId(1), Limits { ordinals: vec![0], memory: 0, streams: 1 }, 0);
    let mut words = [0; ArgBlock::RELATIVE_WORDS_MAX];
    let mut program = Vec::new();
    frame::encode_program(&mut program, &ProgramSpec::default());
    let start = Command::Start { ticket: 0, trace: false, emulate_gpu: false };
    core.handle(start, &program, 96, &mut words, &Nothing).map(drop).unwrap();
    let mut takes =
        |len| core.handle(Command::Image { offset: 0, len }, &[0], 96, &mut words, &Nothing).map(drop).is_ok();
    !takes(ENCODED_MAX + 1) && takes(ENCODED_MAX)
}

/// Returns a text longer than a frame's payload.
fn long() -> String {
    "x".repeat(PAYLOAD_MAX + 1)
}

/// Whether the bound of a field is enforced; `None` if the field is unknown.
fn is_enforced(place: &str) -> Option<bool> {
    let object =
        |path: &str, build_id: &str| ObjectSpec { path: path.into(), build_id: build_id.into(), executable: true };
    let mark = || MARK.to_owned();
    Some(match place {
        "ProgramSpec.exe" => program_fits_no_frame(&ProgramSpec { exe: long(), ..Default::default() }),
        "ProgramSpec.build_id" => program_fits_no_frame(&ProgramSpec { build_id: long(), ..Default::default() }),
        "ProgramSpec.argv0" => program_fits_no_frame(&ProgramSpec { argv0: long(), ..Default::default() }),
        "ProgramSpec.cwd" => program_fits_no_frame(&ProgramSpec { cwd: long(), ..Default::default() }),
        "ProgramSpec.env" => {
            // One more than STRINGS_MAX, which is private to the payload's reader, less the four other texts.
            let program = |count| ProgramSpec { env: vec![String::new(); count], ..Default::default() };
            let decodes = |count| {
                let mut payload = Vec::new();
                frame::encode_program(&mut payload, &program(count));
                frame::decode_program(&payload).is_ok()
            };
            program_fits_no_frame(&ProgramSpec { env: vec![long()], ..Default::default() })
                && decodes(4_092)
                && !decodes(4_093)
        }
        "ObjectSpec.path" => function_fits_no_frame(object(&long(), ""), ""),
        "ObjectSpec.build_id" => function_fits_no_frame(object("", &long()), ""),
        "FunctionSpec.name" => function_fits_no_frame(object("", ""), &long()),
        "SpanRecord.name" => {
            let id = DeviceId { node: NodeId(0), ordinal: 0 };
            let (kind, queue) = (SpanKind::ALL[0], QueueId::SYNC);
            let mut payload = Vec::new();
            let span = Span { device: id, queue, kind, name: long(), bytes: 0, start_ns: 0, end_ns: 0 };
            frame::encode_span(&mut payload, &span);
            fits_no_frame(&payload)
        }
        "ExecutorEnding.Session" => ExecutorEnding::decode(&[b's'; ENDING_MAX + 1]).is_none(),
        "Message.NodeLost.name" => is_bounded(&Message::NodeLost { node: NodeId(1), name: mark() }, NAME_MAX),
        "Message.NodeLeft.name" => is_bounded(&Message::NodeLeft { node: NodeId(1), name: mark() }, NAME_MAX),
        "Message.ExecutorEnded.why" => is_bounded(&Message::ExecutorEnded { node: NodeId(1), why: mark() }, WORDS_MAX),
        "Message.Warning" => is_bounded(&Message::Warning(mark()), WORDS_MAX),
        "Message.Ended" => is_bounded(&Message::Ended(mark()), WORDS_MAX),
        "Message.NotLeading" => is_bounded(&Message::NotLeading(mark()), WORDS_MAX),
        "SessionRequest.node_name" => is_bounded(&Message::Open(request(MARK, "p")), NAME_MAX),
        "SessionRequest.devices" => {
            let request = SessionRequest { devices: Some(mark()), ..request("h", "p") };
            is_bounded(&Message::Open(request), REQUEST_TEXT_MAX)
        }
        "QueuedJob.why" => {
            let queued = QueuedJob { token: token(), position: Some(0), why: mark(), starts_in_ms: None };
            is_bounded(&Message::Queued(queued), WORDS_MAX)
        }
        "SessionRequest.program" => is_bounded(&Message::Open(request("h", MARK)), NAME_MAX),
        "Message.Used" => refuses_list(&Message::Used(Vec::new()), 0, session::USES_MAX + 1, 1 << 20),
        "Message.InUse" => refuses_list(&Message::InUse(Vec::new()), 0, session::USES_MAX + 1, 1 << 20),
        "Lease.devices" => refuses_list(&granted(Vec::new()), 0, 1 << 20, 1 << 20),
        "LeasedDevice.address" => {
            is_bounded(&granted(vec![LeasedDevice { info: info(), address: mark(), is_shared: false }]), ADDRESS_MAX)
        }
        "DeviceInfo.node_name" => is_bounded(&device(DeviceInfo { node_name: mark(), ..info() }), NAME_MAX),
        "DeviceInfo.name" => is_bounded(&device(DeviceInfo { name: mark(), ..info() }), NAME_MAX),
        "DeviceInfo.vendor" => is_bounded(&device(DeviceInfo { vendor: mark(), ..info() }), NAME_MAX),
        "DeviceInfo.driver" => is_bounded(&device(DeviceInfo { driver: mark(), ..info() }), NAME_MAX),
        "DeviceInfo.uuid" => is_bounded(&device(DeviceInfo { uuid: mark(), ..info() }), NAME_MAX),
        // The address follows: a length and a byte. Before it there are no NUMA node and a length of 0.
        "DeviceInfo.attributes" => refuses_list(&device(info()), 5 + 5, 1 << 20, 8 << 20),
        "DeviceInfo.cpus" => refuses_list(&device(info()), 5, 1 << 20, 4 << 20),
        "ControlMessage.Ready" => chunk_is_refused(ChunkKind::Ready, HANDLE_MAX),
        "ControlMessage.Ask" => chunk_is_refused(ChunkKind::Ask, DEVICES_BYTES_MAX),
        "ControlMessage.Alive" => chunk_is_refused(ChunkKind::Alive, DEVICES_BYTES_MAX),
        // Refusals too, in chunks with their own bound.
        "ErrorParts.cause" | "ErrorParts.remedy" => {
            let text = format!("{}\0{}", long(), long());
            let error = frame::decode_error(frame::Failure::new(ErrorCode::System.to_wire()), text.as_bytes());
            let is_cut =
                error.cause().len() <= WORDS_MAX && error.remedy_text().is_some_and(|text| text.len() <= WORDS_MAX);
            is_cut && chunk_is_refused(ChunkKind::Refused, transfer::TEXT_MAX)
        }
        "Image.objects" | "Image.functions" | "Image.variables" | "ImageFunction.name" | "ImageVariable.name" => {
            image_is_refused()
        }
        _ => return None,
    })
}

#[test]
fn every_list_and_text_on_a_lane_has_a_bound() {
    let places = places();
    assert!(places.len() > 30, "{places:?}");
    let wrong: Vec<_> = places.iter().filter(|place| is_enforced(place) != Some(true)).collect();
    assert!(wrong.is_empty(), "without a bound that this test sees enforced: {wrong:?}");
}

/// Records of command lanes have a fixed length. Fields without one are in the payload.
#[test]
fn records_hold_nothing_that_has_any_length() {
    fn is_plain<T: Copy>() {}
    is_plain::<Command>();
    is_plain::<Event>();
    is_plain::<frame::Failure>();
}
