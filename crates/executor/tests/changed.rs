//! A short recorded session, replayed with each byte changed in turn. The executor refuses it or continues, ends when its lanes do, and never has more
//! memory mapped than the lease allows.

mod support;

use accord_device::Device;
use accord_device::fake::FakeRegion;
use accord_executor::Limits;
use accord_fabric::ProgramSpec;
use accord_fabric::frame::transfer::{Chunk, ChunkKind};
use accord_fabric::frame::{self, Command, Event, Position};
use accord_fabric::handshake::Purpose;
use accord_types::{AddressRange, FunctionSpec, ObjectSpec, QueueId, Seq, TransferId};
use std::sync::Arc;
use support::Program;

const MIB: u64 = 1 << 20;
/// The address of the device's memory, so that a recording can name its addresses.
const START: u64 = AddressRange::WINDOW.start.0;
const MEMORY: u64 = 1 << 30;
const LEASED: u64 = 4 * MIB;
const QUEUE: u32 = 5;
/// The ticket of the question after the recording.
const LAST: u64 = 1 << 40;
/// The bytes of a copy in on a bulk lane.
const COPIED: [u8; 40] = [9; 40];
/// The lowest and the highest bit: small and large changes.
const CHANGES: [u8; 2] = [0x01, 0x80];

fn limits() -> Limits {
    Limits { ordinals: vec![0], memory: LEASED, streams: 4 }
}

/// All commands that a program sends.
struct Recording {
    commands: Vec<u8>,
    bulk: Vec<u8>,
    tickets: u64,
    /// The bytes of the commands, and the requests among them, before the program first waits for replies.
    first: (usize, u64),
}

impl Recording {
    fn new() -> Self {
        let mut recording = Self { commands: Vec::new(), bulk: Vec::new(), tickets: 0, first: (0, 0) };
        let mut program = Vec::new();
        frame::encode_program(&mut program, &ProgramSpec { exe: "/bin/app".to_owned(), ..ProgramSpec::default() });
        recording.ask(|ticket| Command::Start { ticket, trace: false, emulate_gpu: false }, &program);
        recording.ask(|ticket| Command::Open { device: 0, ticket, start: START, len: MEMORY }, &[]);
        recording.ask(|ticket| Command::Map { device: 0, ticket, start: START, len: MIB }, &[]);
        recording.say(&Command::Store { device: 0, queue: QUEUE, dst: START }, &[7; 20]);
        let (dst, len) = (START + 64, COPIED.len() as u64);
        recording.say(&Command::CopyIn { device: 0, queue: QUEUE, dst, len, transfer: 1, eager: true }, &[]);
        let chunk = Chunk { kind: ChunkKind::Data, transfer: TransferId(1), offset: 0, len: COPIED.len() };
        recording.bulk = [&chunk.encode()[..], &COPIED].concat();
        let object = ObjectSpec { path: "/bin/app".to_owned(), build_id: "1".to_owned(), executable: true };
        let (mut function, offset) = (Vec::new(), 0x10);
        frame::encode_function(
            &mut function,
            &FunctionSpec { object, offset, name: "region".to_owned(), kernel: None },
        );
        recording.say(&Command::Function { device: 0, function: 1, offset, executable: true }, &function);
        let launch = Command::Launch {
            device: 0,
            queue: QUEUE,
            function: 1,
            gangs: 1,
            workers: 1,
            vector: 1,
            slots: 0,
            float_control: 0,
        };
        recording.say(&launch, &[]);
        recording.say(&Command::Copy { device: 0, queue: QUEUE, dst: START + 256, src: START, len: 128 }, &[]);
        recording.say(&Command::WaitQueue { device: 0, queue: 6, other: QUEUE, seq: 4 }, &[]);
        recording.say(&Command::CopyOut { device: 0, queue: 6, src: START + 256, len: 128, transfer: 2 }, &[]);
        let mut positions = Vec::new();
        frame::put_position(&mut positions, Position { device: 0, queue: QueueId(QUEUE), seq: Seq(4) });
        frame::put_position(&mut positions, Position { device: 0, queue: QueueId(6), seq: Seq(2) });
        recording.ask(|ticket| Command::Wait { ticket }, &positions);
        recording.ask(|ticket| Command::Memory { device: 0, ticket }, &[]);
        recording.first = (recording.commands.len(), recording.tickets);
        recording.say(&Command::Unmap { device: 0, queue: QUEUE, start: START, len: MIB }, &[]);
        recording.ask(|ticket| Command::Close { device: 0, ticket }, &[]);
        recording.ask(|ticket| Command::Clock { ticket }, &[]);
        recording
    }

    fn say(&mut self, command: &Command, payload: &[u8]) {
        frame::put(&mut self.commands, command, &[payload]).unwrap();
    }

    fn ask(&mut self, command: impl FnOnce(u64) -> Command, payload: &[u8]) {
        self.tickets += 1;
        self.say(&command(self.tickets), payload);
    }
}

/// The outcome of a replayed recording.
struct Outcome {
    /// Number of replies.
    replies: u64,
    data: Vec<Vec<u8>>,
    /// Whether the session lasted to the recording's end.
    went_on: bool,
    mapped: u64,
}

/// Sends the first part of a recording, reads replies, and sends the rest. After each part a further request makes sure that there is a last reply,
/// whatever the recording does. Waits for `wanted` other replies.
fn play(parts: [&[u8]; 2], bulk: &[u8], wanted: [u64; 2]) -> Outcome {
    let region: FakeRegion = Arc::new(|_| Ok(()));
    let mut program = Program::with_regions(limits(), vec![(0x10, region)]);
    let lane = program.lane(Purpose::Bulk);
    let _ = lane.send(bulk);
    let mut outcome = Outcome { replies: 0, data: Vec::new(), went_on: true, mapped: 0 };
    for (part, wanted) in parts.into_iter().zip(wanted) {
        let _ = program.lane.send(part);
        program.send(&Command::Clock { ticket: LAST }, &[]);
        let mut heard_last = false;
        while !heard_last || outcome.replies < wanted {
            // A long silence is an error, and so is a malformed frame.
            let Some((event, payload)) = program.event() else { break };
            match event {
                Event::Reply { ticket: LAST, .. } => heard_last = true,
                Event::Reply { .. } => outcome.replies += 1,
                Event::Data { .. } => outcome.data.push(payload),
                Event::Failed { device: u32::MAX, .. } => outcome.went_on = false,
                _ => {}
            }
            for device in program.devices() {
                outcome.mapped = outcome.mapped.max(device.info().memory.saturating_sub(device.memory_free()));
            }
        }
    }
    let _ = program.lane.finish();
    drop(lane);
    program.assert_ended();
    outcome
}

#[test]
fn a_session_with_any_byte_changed_is_refused_or_goes_on_within_its_lease() {
    let Recording { commands, bulk, tickets, first: (first, asked) } = Recording::new();
    let (before, after) = commands.split_at(first);
    let right = play([before, after], &bulk, [asked, tickets]);
    assert!(right.went_on && right.replies == tickets, "{} of {tickets} were answered", right.replies);
    let brought: Vec<u8> = [&[7; 20][..], &[0; 44], &COPIED, &[0; 24]].concat();
    assert_eq!(right.data, [brought]);
    assert!(right.mapped <= LEASED);
    let (mut tried, mut refused, mut most) = (0, 0, 0);
    for change in CHANGES {
        for at in 0..commands.len() + bulk.len() {
            let (mut commands, mut bulk) = (commands.clone(), bulk.clone());
            match at.checked_sub(commands.len()) {
                None => commands[at] ^= change,
                Some(at) => bulk[at] ^= change,
            }
            let (before, after) = commands.split_at(first);
            let outcome = play([before, after], &bulk, [0, 0]);
            assert!(outcome.mapped <= LEASED, "byte {at} by {change:#x}: {} bytes are mapped", outcome.mapped);
            tried += 1;
            refused += u32::from(!outcome.went_on);
            most = most.max(outcome.mapped);
        }
    }
    println!(
        "{tried} recordings of {} bytes: {refused} ended the session, at most {most} bytes mapped",
        commands.len()
    );
}
