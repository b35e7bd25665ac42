//! The requirements on a link, over every transport: it carries records, transfers and control messages, or is lost as a whole.

mod common;

use accord_fabric::frame::{self, Command, FrameReader};
use accord_fabric::handshake::Purpose;
use accord_fabric::link::{Link, Reader, Unposted};
use accord_fabric::peer::PeerId;
use accord_fabric::transfer::{DeviceReceives, Exchange, IncomingBytes, Pushing, TransferEnding, TransferTarget};
use accord_fabric::transport::{SharedLane, Transport};
use accord_types::{Error, ErrorCode, NativeRange, NodeId, Result, TransferId};
use common::{SHORT, SOON, all, ends, pattern};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

const T: TransferId = TransferId(1);
/// More than all buffers of a lane hold.
const LARGE: usize = 64 << 20;
const LANES: [Purpose; 4] = [Purpose::Command, Purpose::Bulk, Purpose::Bulk, Purpose::Control];

/// One process's end, with a thread for each lane, as in programs and executors.
struct End {
    link: Arc<Link>,
    exchange: Arc<Exchange>,
    readers: Vec<JoinHandle<()>>,
    commands: Mutex<mpsc::Receiver<u64>>,
}

/// Ends a link as every user of one does when a reader has ended.
fn lose(link: &Link, exchange: &Arc<Exchange>) {
    let error = Error::new(ErrorCode::DeviceUnavailable, "the link is lost");
    link.close(&error);
    exchange.push_lost(link.peer(), &error);
    exchange.peer_lost(link.peer());
}

/// Sends the tickets of commands to `to` until the lane ends.
fn read_commands(link: &Link, to: &mpsc::Sender<u64>) {
    let lane = link.records().unwrap();
    let mut reader = FrameReader::default();
    loop {
        while let Some(frame) = reader.take::<Command>().unwrap() {
            let Command::Clock { ticket } = frame.record else { panic!("{:?}", frame.record) };
            let _ = to.send(ticket);
        }
        if !matches!(reader.fill(|bytes| lane.read(bytes)), Ok(true)) {
            return;
        }
    }
}

/// A destination whose bytes go to a function.
struct TargetOfTest<F>(F);

impl<F: Fn(IncomingBytes, TransferEnding) + Send + Sync> TransferTarget for TargetOfTest<F> {
    fn export(&self) -> Vec<u8> {
        Vec::new()
    }

    fn native(&self) -> Option<(Arc<DeviceReceives>, NativeRange)> {
        None
    }

    fn is_free(&self) -> bool {
        true
    }

    fn start(&self, bytes: IncomingBytes, ending: TransferEnding) {
        (self.0)(bytes, ending);
    }
}

impl End {
    fn new(to: PeerId, lanes: impl Iterator<Item = (Purpose, SharedLane)>) -> Self {
        let link = Link::new("", to, Arc::default(), Unposted::Wait);
        let exchange = Exchange::new();
        let (tickets, commands) = mpsc::channel();
        let mut readers = Vec::new();
        for (purpose, lane) in lanes {
            let reader = link.accept(lane, purpose).unwrap();
            let (link, exchange, tickets) = (link.clone(), exchange.clone(), tickets.clone());
            readers.push(std::thread::spawn(move || {
                match reader {
                    Reader::Records => read_commands(&link, &tickets),
                    Reader::Transfers(reader) => drop(reader.run()),
                    Reader::Control(reader) => {
                        drop(reader.run(|message| exchange.on_control(link.peer(), message, link.outbox())));
                    }
                }
                lose(&link, &exchange);
            }));
        }
        link.join(&exchange);
        Self { link, exchange, readers, commands: Mutex::new(commands) }
    }

    fn command(&self, ticket: u64) -> bool {
        let mut bytes = Vec::new();
        frame::put(&mut bytes, &Command::Clock { ticket }, &[]).unwrap();
        self.link.records().unwrap().send(&bytes).is_ok()
    }

    fn push(&self, len: usize) -> Pushing {
        self.link.push(&self.exchange, T, len as u64).unwrap()
    }

    /// Receives a transfer. Returns its bytes, and the object to report their landing.
    fn expect(&self, len: usize) -> mpsc::Receiver<(Vec<u8>, TransferEnding)> {
        let (to, received) = mpsc::channel();
        let take = move |mut bytes: IncomingBytes, ending| {
            let to = to.clone();
            std::thread::spawn(move || {
                let mut all = vec![0; len];
                all.chunks_mut(1 << 20).for_each(|piece| bytes.fill(piece));
                drop(bytes);
                let _ = to.send((all, ending));
            });
        };
        self.exchange.expect(T, self.link.peer(), len as u64, Arc::new(TargetOfTest(take))).unwrap();
        self.exchange.due(T, Ok(()));
        received
    }

    /// Waits until all threads have ended.
    fn wait(self) {
        for reader in self.readers {
            reader.join().unwrap();
        }
    }
}

/// Returns both ends, and the lanes between them.
fn two(transport: Transport) -> (End, End, Vec<SharedLane>) {
    let lanes: Vec<_> = LANES.iter().map(|&purpose| (purpose, ends(transport))).collect();
    for (_, (near, far)) in &lanes {
        near.limit(None).unwrap();
        far.limit(None).unwrap();
    }
    let (executor, program) = (PeerId::executor(NodeId(1), 0).unwrap(), PeerId::PROGRAM);
    let near = End::new(executor, lanes.iter().map(|(purpose, (near, _))| (*purpose, near.clone())));
    let far = End::new(program, lanes.iter().map(|(purpose, (_, far))| (*purpose, far.clone())));
    (near, far, lanes.into_iter().map(|(_, (near, _))| near).collect())
}

fn over() -> Error {
    Error::new(ErrorCode::DeviceShutdown, "over")
}

#[test]
fn commands_keep_their_order_while_transfers_go_both_ways() {
    for transport in all() {
        let (near, far, _) = two(transport);
        let (up, down) = (pattern(5 << 20, 1), pattern(5 << 20, 2));
        std::thread::scope(|scope| {
            for (from, to, bytes) in [(&near, &far, &up), (&far, &near, &down)] {
                scope.spawn(move || {
                    let mut pushing = from.push(bytes.len());
                    bytes.chunks(300_000).for_each(|piece| pushing.drain(piece).unwrap());
                    pushing.finish().unwrap();
                });
                scope.spawn(move || {
                    let (received, ending) = to.expect(bytes.len()).recv_timeout(SOON).unwrap();
                    assert!(received == *bytes);
                    ending.landed(Ok(()));
                });
            }
            for (from, to) in [(&near, &far), (&far, &near)] {
                scope.spawn(move || (0..2000).for_each(|ticket| assert!(from.command(ticket))));
                scope.spawn(move || {
                    let commands = to.commands.lock().unwrap();
                    (0..2000).for_each(|ticket| assert_eq!(commands.recv_timeout(SOON).unwrap(), ticket));
                });
            }
        });
        assert!(near.link.stats().read().bulk_sent > up.len() as u64);
        near.link.close(&over());
        near.wait();
        far.wait();
    }
}

#[test]
fn a_refusal_comes_to_the_pusher_with_its_cause() {
    for transport in all() {
        let (near, far, _) = two(transport);
        let mut pushing = near.push(4);
        far.exchange.expect(T, far.link.peer(), 4, Arc::new(TargetOfTest(|_, _| ()))).unwrap();
        far.exchange.due(T, Err(Error::new(ErrorCode::OutOfMemory, "the device is full")));
        assert_eq!(pushing.drain(b"abcd").unwrap_err().code(), ErrorCode::OutOfMemory);
        far.link.close(&over());
        near.wait();
        far.wait();
    }
}

#[test]
fn a_second_command_lane_and_a_late_lane_are_ended() {
    for transport in all() {
        let (near, far, _) = two(transport);
        let (second, other) = ends(transport);
        assert!(near.link.accept(second, Purpose::Command).is_err());
        assert!(matches!(other.read(&mut [0; 1]), Ok(0) | Err(_)));
        near.link.close(&over());
        let (late, other) = ends(transport);
        assert!(near.link.accept(late, Purpose::Bulk).is_err());
        assert!(matches!(other.read(&mut [0; 1]), Ok(0) | Err(_)));
        near.wait();
        far.wait();
    }
}

/// The state of one side when the link is cut. The function calls its last argument once only the cut can end it, and must then return an error.
type Condition = (&'static str, fn(&End, &End, &dyn Fn()) -> Result<()>);

fn failed(what: &str) -> Result<()> {
    Err(Error::new(ErrorCode::DeviceUnavailable, what.to_owned()))
}

const STATES: &[Condition] = &[
    ("writes commands", |near, _, waits| {
        waits();
        while near.command(1) {}
        failed("not written")
    }),
    ("waits until its push may begin", |near, _, waits| {
        let mut pushing = near.push(4);
        waits();
        pushing.drain(b"abcd")
    }),
    ("pushes bytes that are not read", |near, far, waits| {
        // Only the first bytes fit.
        let (hold, held) = mpsc::channel();
        let keep = TargetOfTest(move |bytes, ending| drop(hold.send((bytes, ending))));
        far.exchange.expect(T, far.link.peer(), LARGE as u64, Arc::new(keep)).unwrap();
        far.exchange.due(T, Ok(()));
        let mut pushing = near.push(LARGE);
        waits();
        let piece = vec![7; 1 << 20];
        let outcome = (0..LARGE >> 20).try_for_each(|_| pushing.drain(&piece));
        drop(held);
        outcome
    }),
    ("waits for its push to land", |near, far, waits| {
        let received = far.expect(4);
        let mut pushing = near.push(4);
        waits();
        pushing.drain(b"abcd")?;
        let landing = received.recv_timeout(SOON);
        let outcome = pushing.finish();
        drop(landing);
        outcome
    }),
    ("expects a push that is never made", |near, _, waits| {
        let received = near.expect(4);
        waits();
        match received.recv_timeout(SOON) {
            Err(mpsc::RecvTimeoutError::Disconnected) => failed("it is not coming"),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no notification"),
            Ok(_) => Ok(()),
        }
    }),
    ("receives half a push", |near, far, waits| {
        let received = near.expect(8);
        let mut pushing = far.push(8);
        waits();
        pushing.drain(b"half")?;
        let (all, ending) = match received.recv_timeout(SOON) {
            // The link was cut before the first bytes arrived.
            Err(mpsc::RecvTimeoutError::Disconnected) => return failed("it is not coming"),
            received => received.unwrap(),
        };
        assert_ne!(all, b"halfhalf");
        // Reports the landing to a target that is gone.
        ending.landed(Ok(()));
        drop(pushing);
        failed("half of it came")
    }),
];

/// The side that cuts the link, and the lane that is cut.
const CUTS: [&str; 4] = ["this side ends it", "the other side ends it", "its command lane ends", "a bulk lane ends"];

#[test]
fn a_link_cut_in_any_state_ends_all_waits() {
    for transport in all() {
        for (state, run) in STATES {
            for (number, cut) in CUTS.iter().enumerate() {
                println!("{transport}: {state}, {cut}");
                let (near, far, lanes) = two(transport);
                std::thread::scope(|scope| {
                    let (waits, is_waiting) = mpsc::channel();
                    let (near, far) = (&near, &far);
                    let waiting = scope.spawn(move || run(near, far, &|| waits.send(()).unwrap()));
                    is_waiting.recv().unwrap();
                    std::thread::sleep(SHORT);
                    assert!(!waiting.is_finished(), "it does not wait");
                    let start = Instant::now();
                    match number {
                        0 => lose(&near.link, &near.exchange),
                        1 => lose(&far.link, &far.exchange),
                        2 => lanes[0].shutdown(),
                        _ => lanes[1].shutdown(),
                    }
                    assert!(waiting.join().unwrap().is_err());
                    assert!(start.elapsed() < SOON / 2, "only a limit has ended it");
                });
                assert!(
                    near.link.push(&near.exchange, TransferId(9), 1).and_then(|mut push| push.drain(b"x")).is_err()
                );
                drop(lanes);
                near.wait();
                far.wait();
            }
        }
    }
}
