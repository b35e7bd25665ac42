//! A recording of an executor's events in a short session, with each byte changed in turn: the program's connection
//! refuses it or goes on, and all waits are over when it ends.

use accord_client::connection::{Completion, CopyOut, Effect, Machine, MayStall, StoreDecision, WaitId, WaitStep};
use accord_fabric::frame::{self, Command, EXCHANGE_WINDOW, Event, Failure, FrameReader};
use accord_types::{DevicePtr, Error, ErrorCode, HostRange, QueueId, Result, TransferId};
use std::time::Duration;

const DEVICE: u32 = 1;
const QUEUES: [QueueId; 2] = [QueueId(3), QueueId(4)];
const NOW: Duration = Duration::ZERO;
/// Changes of the last and the first bit: to neighbouring values and distant ones.
const CHANGES: [u8; 2] = [0x01, 0x80];
const COPIED: usize = 100;

/// A program in the middle of a session.
struct Program {
    machine: Machine<u32>,
    waits: Vec<WaitId>,
    copies: Vec<TransferId>,
}

impl Program {
    /// Creates a program with pending requests: memory, a region, copies out, and the ends of two queues.
    fn new() -> Self {
        let mut machine = Machine::new(EXCHANGE_WINDOW);
        machine.open(DEVICE, 2);
        let map = |ticket| Command::Map { device: DEVICE, ticket, start: 4096, len: 4096 };
        let mut waits = vec![machine.ask(map, &[], 0, NOW).unwrap()];
        let mut copies = Vec::new();
        for (number, queue) in (1..).zip(QUEUES) {
            let store = Command::Store { device: DEVICE, queue: queue.0, dst: 4096 };
            machine.operate((DEVICE, queue), MayStall::No, &store, &[&[1; 8]], NOW).unwrap();
            let launch = Command::Launch {
                device: DEVICE,
                queue: queue.0,
                function: 1,
                gangs: 1,
                workers: 1,
                vector: 1,
                slots: 0,
                float_control: 0,
            };
            machine.operate((DEVICE, queue), MayStall::Yes, &launch, &[], NOW).unwrap();
            let transfer = TransferId(number);
            let dst = HostRange { start: 4096 * number as usize, len: COPIED };
            let (len, completion) = (COPIED as u64, Completion::Write);
            let copy = CopyOut { device: DEVICE, queue, src: DevicePtr(4096), len, dst, transfer, completion };
            machine.copy_out(copy, NOW).unwrap();
            copies.push(transfer);
        }
        let asked = machine.await_positions(DEVICE, &QUEUES, 1, NOW).unwrap();
        waits.extend(asked.replies);
        waits.push(machine.ask(|ticket| Command::Memory { device: DEVICE, ticket }, &[], 2, NOW).unwrap());
        let unmap = Command::Unmap { device: DEVICE, queue: QUEUES[0].0, start: 4096, len: 4096 };
        machine.operate((DEVICE, QUEUES[0]), MayStall::No, &unmap, &[], NOW).unwrap();
        waits.push(machine.ask(|ticket| Command::Close { device: DEVICE, ticket }, &[], 3, NOW).unwrap());
        Self { machine, waits, copies }
    }

    /// Returns an executor's answers to all requests.
    fn recording(&mut self) -> Vec<u8> {
        let (mut sent, mut printed, mut bytes) = (Vec::new(), FrameReader::default(), Vec::new());
        assert!(self.machine.take_frames(&mut sent).unwrap());
        let mut sent = sent.as_slice();
        let mut say = |event: Event, payload: &[u8]| frame::put(&mut bytes, &event, &[payload]).map(drop).unwrap();
        while printed.fill(|space| std::io::Read::read(&mut sent, space)).unwrap() {
            while let Some(frame) = printed.take::<Command>().unwrap() {
                match frame.record {
                    Command::Map { ticket, .. } | Command::Wait { ticket } | Command::Close { ticket, .. } => {
                        say(Event::Reply { ticket, value: 0, extra: 0 }, &[]);
                    }
                    Command::Memory { ticket, .. } => {
                        say(Event::ReplyFailed { ticket, failure: Failure::new(1) }, b"no such memory");
                    }
                    Command::CopyOut { transfer, .. } => say(Event::Data { transfer }, &[5; COPIED]),
                    Command::Launch { queue, .. } => say(Event::Done { device: DEVICE, queue, bytes: 2048 }, &[]),
                    _ => {}
                }
            }
        }
        say(Event::Output { descriptor: 1 }, b"hello\n");
        say(Event::Credit { bytes: 512 }, &[]);
        say(Event::Exchanged { pushes: 0, expects: 0 }, &[]);
        bytes
    }

    /// Handles bytes as the program's reader does, up to the lane's end or an error that ends the connection.
    fn read(&mut self, mut bytes: &[u8]) -> Result<()> {
        let mut reader = FrameReader::default();
        while reader.fill(|space| std::io::Read::read(&mut bytes, space)).unwrap() {
            while let Some(frame) = reader.take::<Event>()? {
                match frame.record {
                    Event::Data { transfer } => {
                        let transfer = TransferId(transfer);
                        // Only what the program has requested is stored anywhere.
                        if let StoreDecision::Now(begun) = self.machine.begin(transfer) {
                            assert!(self.copies.contains(&transfer) && begun.dst.len == COPIED);
                            let whole = frame.payload.len() == begun.dst.len;
                            let short = || Error::new(ErrorCode::DeviceUnavailable, "another length");
                            self.machine.landed(transfer, whole.then_some(()).ok_or_else(short));
                        }
                    }
                    event => self.machine.event(event, frame.payload, |error| error)?,
                }
                let effects = self.machine.take_effects();
                // At most one effect for each wait, copy and thread.
                let most = self.waits.len() + self.copies.len() + 4;
                assert!(effects.len() <= most, "{effects:?}");
                assert!(effects.iter().all(|effect| !matches!(effect, Effect::StartCopyThread(_))));
            }
        }
        Ok(())
    }

    /// Returns the outcomes of the waits after the connection is lost.
    fn end(mut self) -> Vec<Result<()>> {
        self.machine.lose(&Error::new(ErrorCode::DeviceUnavailable, "the lane has ended"));
        self.machine.take_effects();
        let mut ended = Vec::new();
        for &wait in &self.waits {
            match self.machine.turn(wait) {
                WaitStep::Done(outcome) => ended.push(outcome.map(drop)),
                turn => panic!("a wait goes on: {turn:?}"),
            }
        }
        assert_eq!(self.machine.waiters(), 0);
        assert!(!self.copies.iter().any(|&copy| self.machine.is_open(copy)), "a copy is waited for");
        ended
    }
}

#[test]
fn events_with_any_byte_changed_end_the_connection_or_are_taken() {
    let recording = Program::new().recording();
    let mut right = Program::new();
    right.read(&recording).unwrap();
    let right = right.end();
    let failed: Vec<bool> = right.iter().map(Result::is_err).collect();
    assert_eq!(failed.iter().filter(|failed| **failed).count(), 1, "{right:?}");
    let (mut tried, mut refused) = (0, 0);
    for change in CHANGES {
        for at in 0..recording.len() {
            let mut changed = recording.clone();
            changed[at] ^= change;
            let mut program = Program::new();
            refused += u32::from(program.read(&changed).is_err());
            program.end();
            tried += 1;
        }
    }
    println!("{tried} recordings of {} bytes: {refused} ended the connection", recording.len());
    assert!(refused > 0 && refused < tried);
}
