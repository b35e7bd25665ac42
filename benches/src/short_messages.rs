//! The cost of a short message between a world of ranks and the threads that use its lanes, without MPI: from the world
//! to a lane's reader, with the reply. Compared with two threads that pass a word and the same bytes to and fro.

use crate::report::Report;
use accord_fabric::transport::SharedLane;
use accord_fabric::transport::mpi::{
    FindReceiveBuffer, HEADER_LEN, Header, MessageKind, MpiFabric, ReceivedItem, SendBuffer, World,
};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
const MESSAGES: usize = 10_000;
/// The sizes of a launch with its wait on the wire, and of the reply.
const ASKED: usize = 288;
const ANSWER: usize = 80;
/// Credit for the reader's replies: more than it needs.
const CREDIT: u64 = 1 << 32;
/// The time limit of a run.
const RUN_MAX: Duration = Duration::from_secs(60);
/// Pause between an answer and the next message, as if that came from another host.
const PAUSE: Duration = Duration::from_micros(5);

pub(crate) fn run() -> Result<Report, String> {
    let mut report = Report::of("accord-bench short-messages".to_owned());
    let (mut raw, mut lanes) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        raw.push(by_words());
        lanes.push(by_a_lane()?);
    }
    report.put("words", "us", raw);
    report.put("lane", "us", lanes);
    let ratio = report.median("lane")? / report.median("words")?;
    report.at_most("a message to a lane's reader and its answer to MPI / words and bytes", ratio, "x", 4.0);
    Ok(report)
}

fn median(mut samples: Vec<Duration>) -> f64 {
    samples.sort();
    samples.get(samples.len() / 2).copied().unwrap_or_default().as_secs_f64() * 1e6
}

fn pause() {
    let begun = Instant::now();
    while begun.elapsed() < PAUSE {
        std::hint::spin_loop();
    }
}

/// Bytes that one thread passes to another, and the word that announces them.
#[repr(align(128))]
struct Words([AtomicU64; 1 + ASKED / 8]);

impl Words {
    fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    fn put(&self, number: u64, len: usize) {
        let [first, bytes @ ..] = &self.0;
        bytes.iter().take(len / 8).for_each(|word| word.store(number, Ordering::Relaxed));
        first.store(number, Ordering::Release);
    }

    fn take(&self, number: u64, len: usize) -> u64 {
        let [first, bytes @ ..] = &self.0;
        while first.load(Ordering::Acquire) != number {
            std::hint::spin_loop();
        }
        bytes.iter().take(len / 8).map(|word| word.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// Returns the time of a round trip in microseconds.
fn by_words() -> f64 {
    let (there, back) = (Words::new(), Words::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=MESSAGES as u64 {
                std::hint::black_box(there.take(number, ASKED));
                back.put(number, ANSWER);
            }
        });
        let round = |number| {
            pause();
            let begun = Instant::now();
            there.put(number, ASKED);
            std::hint::black_box(back.take(number, ANSWER));
            begun.elapsed()
        };
        median((1..=MESSAGES as u64).map(round).collect())
    })
}

/// A world that opens a lane to this rank, and sends a message on it after each answer.
struct Asks {
    /// The bytes to deliver next; empty while an answer is pending.
    next: VecDeque<Vec<u8>>,
    /// The time of the last message.
    begun: Instant,
    times: Vec<Duration>,
    done: mpsc::Sender<Vec<Duration>>,
}

fn header(kind: MessageKind, value: u64) -> Vec<u8> {
    Header { kind, by_opener: true, number: 0, value, tag: 0 }.encode().to_vec()
}

fn question() -> Vec<u8> {
    let mut message = header(MessageKind::Data, ASKED as u64);
    message.resize(HEADER_LEN + ASKED, 7);
    message
}

impl World for Asks {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        2
    }

    fn send(&mut self, _to: u32, sent: Vec<u8>) -> io::Result<()> {
        if Header::decode(&sent)?.kind != MessageKind::Data {
            return Ok(());
        }
        self.times.push(self.begun.elapsed());
        if self.times.len() == MESSAGES {
            // The waiter may have given up.
            let _ = self.done.send(std::mem::take(&mut self.times));
        } else {
            self.next.push_back(question());
        }
        Ok(())
    }

    fn send_exposed(&mut self, _to: u32, _tag: u16, _bytes: SendBuffer, _id: u64) -> io::Result<()> {
        Err(io::Error::other("nothing was to be lent"))
    }

    fn sending(&self) -> (usize, usize) {
        (0, 0)
    }

    fn moves_exposed(&self) -> bool {
        false
    }

    fn receive(&mut self, _room: FindReceiveBuffer<'_>) -> io::Result<Option<ReceivedItem>> {
        let Some(next) = self.next.pop_front() else { return Ok(None) };
        if next.len() > HEADER_LEN {
            pause();
        }
        self.begun = Instant::now();
        Ok(Some(ReceivedItem::Message(1, next)))
    }
}

/// Returns the time from the world to the reader and back in microseconds.
fn by_a_lane() -> Result<f64, String> {
    let failed = |error: io::Error| error.to_string();
    let (done, times) = mpsc::channel();
    let open = move || {
        let next = [header(MessageKind::Open, 0), header(MessageKind::Credit, CREDIT), question()].into();
        let times = Vec::with_capacity(MESSAGES);
        Ok(Box::new(Asks { next, begun: Instant::now(), times, done }) as Box<dyn World>)
    };
    let fabric = Arc::new(MpiFabric::start(open).map_err(failed)?);
    let (lane, _) = fabric.accept().map_err(failed)?;
    let reader = std::thread::spawn(move || answer(&lane));
    let times = times.recv_timeout(RUN_MAX);
    fabric.stop();
    match reader.join() {
        Ok(_) => times.map(median).map_err(|_| "no answers come".to_owned()),
        Err(_) => Err("the lane's reader has panicked".to_owned()),
    }
}

/// Answers messages like an executor that polls for commands. Ends with the world.
fn answer(lane: &SharedLane) -> io::Result<()> {
    let mut bytes = [0; ASKED];
    loop {
        let mut at = 0;
        while at < bytes.len() {
            while !lane.is_readable() {
                std::hint::spin_loop();
            }
            match lane.read(&mut bytes[at..])? {
                0 => return Ok(()),
                n => at += n,
            }
        }
        lane.send(&bytes[..ANSWER])?;
    }
}
