//! Copies in whose bytes are requested: ahead of their stream as far as there is space, otherwise in their turn.

mod support;

use accord_device::fake::FakeRegion;
use accord_executor::Limits;
use accord_executor::request_window::AHEAD_MAX;
use accord_fabric::frame::{Command, Event};
use accord_fabric::handshake::Purpose;
use accord_fabric::stats::LinkStats;
use accord_fabric::transfer::{ControlMessage, Outbox, receive_control};
use accord_types::{Error, ErrorCode, Result, TransferId};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Program, SYNC};

const MIB: u64 = 1 << 20;
/// Two such copies may be requested ahead, but not three.
const LEN: u64 = 3 * MIB;
const SOON: Duration = Duration::from_secs(20);

/// A program with one lane for bytes, and the transfers that are requested of it.
struct RequestedTransfers {
    program: Program,
    start: u64,
    outbox: Arc<Outbox>,
    asked: Receiver<TransferId>,
    /// Ends the region with this outcome.
    go: Sender<Result<()>>,
}

impl RequestedTransfers {
    fn new() -> Self {
        let (go, gate) = channel::<Result<()>>();
        let gate = Mutex::new(gate);
        let region: FakeRegion = Arc::new(move |_| gate.lock().unwrap().recv().unwrap_or(Ok(())));
        let limits = Limits { ordinals: vec![0], memory: 64 * MIB, streams: 0 };
        let mut program = Program::with_regions(limits, vec![(0x10, region)]);
        program.start().unwrap();
        let start = program.ask(|ticket| Command::Open { device: 0, ticket, start: 0, len: 0 }).unwrap();
        program.ask(|ticket| Command::Map { device: 0, ticket, start, len: 32 * MIB }).unwrap();
        program.function(0, 1, 0x10);
        let outbox = Outbox::new(Arc::default());
        outbox.add(program.lane(Purpose::Bulk));
        let (control, (to, asked)) = (program.lane(Purpose::Control), channel());
        std::thread::spawn(move || {
            let _ = receive_control(&*control, &LinkStats::default(), |message| {
                if let ControlMessage::Ready(transfer, _) = message {
                    let _ = to.send(transfer);
                }
                Ok(())
            });
        });
        Self { program, start, outbox, asked, go }
    }

    fn launch(&self, queue: u32) {
        let launch = Command::Launch {
            device: 0,
            queue,
            function: 1,
            gangs: 1,
            workers: 1,
            vector: 1,
            slots: 0,
            float_control: 0,
        };
        self.program.send(&launch, &[]);
    }

    /// Copies in to the transfer's own place.
    fn copy_in(&self, queue: u32, transfer: u64, len: u64) {
        let dst = self.start + transfer * LEN;
        self.program.send(&Command::CopyIn { device: 0, queue, dst, len, transfer, eager: false }, &[]);
    }

    fn next(&self) -> u64 {
        self.asked.recv_timeout(SOON).expect("it is not asked for").0
    }

    fn send(&self, transfer: u64, len: u64) {
        let bytes = vec![u8::try_from(transfer).unwrap(); usize::try_from(len).unwrap()];
        self.outbox.begin(TransferId(transfer), len).unwrap().send(&bytes).expect("its bytes don't leave their lane");
    }

    /// The first and the last byte there.
    fn found(&mut self, transfer: u64, len: u64) -> Vec<u8> {
        let ends = [0, len - 1].map(|at| self.start + transfer * LEN + at);
        let mut bytes = Vec::new();
        for (number, src) in ends.into_iter().enumerate() {
            let transfer = 1_000 + number as u64;
            self.program.send(&Command::CopyOut { device: 0, queue: SYNC, src, len: 1, transfer }, &[]);
            loop {
                if let (Event::Data { .. }, byte) = self.program.event().expect("the session goes on") {
                    break bytes.extend(byte);
                }
            }
        }
        bytes
    }
}

/// The requested bytes leave the lane in any order, so that later ones are not blocked by a region that runs for days.
#[test]
fn bytes_come_while_a_region_runs_as_far_as_there_is_room() {
    let mut w = RequestedTransfers::new();
    w.launch(1);
    for transfer in 1..=3 {
        w.copy_in(1, transfer, LEN);
    }
    const { assert!(2 * LEN <= AHEAD_MAX && AHEAD_MAX < 3 * LEN) };
    assert_eq!([w.next(), w.next()], [1, 2]);
    w.send(2, LEN);
    w.send(1, LEN);
    assert!(w.asked.try_recv().is_err(), "there is no room for it");
    w.go.send(Ok(())).unwrap();
    assert_eq!(w.next(), 3);
    w.send(3, LEN);
    w.program.wait(0, 1, 4).unwrap();
    assert_eq!([1, 2, 3].map(|transfer| w.found(transfer, LEN)), [[1, 1], [2, 2], [3, 3]]);
}

/// A copy beyond the bound is requested in its turn, and shorter ones after it precede it.
#[test]
fn long_copies_are_asked_for_in_their_turn() {
    let mut w = RequestedTransfers::new();
    let long = AHEAD_MAX + 1;
    w.launch(1);
    w.copy_in(1, 1, long);
    w.copy_in(1, 5, LEN);
    assert_eq!(w.next(), 5);
    w.go.send(Ok(())).unwrap();
    assert_eq!(w.next(), 1);
    w.send(1, long);
    w.send(5, LEN);
    w.program.wait(0, 1, 3).unwrap();
    assert_eq!([w.found(1, long), w.found(5, LEN)], [[1, 1], [5, 5]]);
}

/// The program aborts the bytes, or they arrive too late: the lane and their space become free.
#[test]
fn failed_requested_copies_free_their_lane_and_space() {
    let mut w = RequestedTransfers::new();
    for round in 0..8_u32 {
        let (queue, crashed) = (2 * round, Error::new(ErrorCode::Execution, "crashed"));
        w.launch(queue);
        w.copy_in(queue, 1, LEN);
        w.copy_in(queue, 2, LEN);
        assert_eq!([w.next(), w.next()], [1, 2]);
        w.go.send(Err(crashed)).unwrap();
        w.program.failure(queue);
        w.send(1, LEN);
        drop(w.outbox.begin(TransferId(2), LEN).unwrap());
        w.copy_in(queue + 1, 3, LEN);
        assert_eq!(w.next(), 3);
        w.send(3, LEN);
        w.program.wait(0, queue + 1, 1).unwrap();
        assert_eq!(w.found(3, LEN), [3, 3]);
    }
}
