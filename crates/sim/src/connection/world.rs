//! Everything in one thread: who runs when, and what must be true.

use super::actor::{Actor, Block, Chunk, Happening, LANES};
use super::frames::Frame;
use super::lane::{Lane, Weather};
use super::script::{self, Manners};
use super::streams::Executor;
use super::thread::Thread;
use crate::queue::Queue;
use crate::random::Random;
use accord_client::connection::{Machine, Reply, TRANSFERS_MAX};
use accord_executor::Limits;
use accord_executor::executor::ExecutorCore;
use accord_fabric::frame::{CREDIT_WINDOW, FRAME_MAX, FrameReader, STREAM_WINDOW};
use accord_types::{Error, ErrorCode, Result, SessionId, TransferId};
use std::collections::{BTreeMap, BTreeSet};

/// Microseconds after which everything must have come to an end.
const LIMIT: u64 = 60_000_000;
/// How long after a loss the last thread may hear of it.
const HEARS_WITHIN: u64 = 50_000;
/// The coordinator says that a node is lost so long after its last sign of life, see docs/design/data-path.md.
const NOTICE: u64 = 2_500_000;
/// Steps of a seed.
const STEPS_MAX: u64 = 2_000_000;

/// Somebody at work: what it does, innermost last.
#[derive(Default)]
pub(super) struct Task {
    pub(super) stack: Vec<Frame>,
    /// What the last wait has brought.
    pub(super) outcome: Option<Result<Reply>>,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) queue: Queue<Happening>,
    pub(super) machine: Machine<Actor>,
    pub(super) command: Lane<Vec<u8>>,
    pub(super) events: Lane<Vec<u8>>,
    pub(super) control: Lane<TransferId>,
    pub(super) to: Vec<Lane<Chunk>>,
    pub(super) from: Vec<Lane<Chunk>>,
    pub(super) to_lent: [bool; LANES],
    pub(super) from_lent: [bool; LANES],
    pub(super) reader: FrameReader,
    pub(super) write_locked: bool,
    /// Taken to be sent.
    pub(super) unsent: Vec<u8>,
    pub(super) tasks: BTreeMap<Actor, Task>,
    scheduled: BTreeSet<Actor>,
    parked: BTreeMap<Actor, u64>,
    parks: u64,
    tokens: BTreeSet<Actor>,
    blocked: BTreeMap<Block, BTreeSet<Actor>>,
    pub(super) copy_threads: usize,
    pub(super) threads: Vec<Thread>,
    pub(super) executor: Executor,
    pub(super) transfers: u64,
    /// The lanes have ended.
    pub(super) cut: bool,
    /// When the executor was lost.
    lost_at: Option<u64>,
    pub(super) streams: usize,
    failure: Option<String>,
    /// The program has not kept to the protocol.
    pub(super) broken: bool,
}

/// Runs the program of a seed.
///
/// # Errors
/// What was wrong.
pub fn run(seed: u64) -> std::result::Result<(), String> {
    let mut random = Random::new(seed);
    let weather = |random: &mut Random, capacity: u64| Weather {
        delay: if random.chance(50) { 30 } else { 600 },
        capacity: usize::try_from(random.within(64..capacity)).unwrap_or(64),
        stalls: if random.chance(30) { 10 } else { 0 },
    };
    let command = Lane::new(weather(&mut random, 20_000));
    let events = Lane::new(weather(&mut random, 2_000));
    let control = Lane::new(weather(&mut random, 2_000));
    let to = (0..LANES).map(|_| Lane::new(weather(&mut random, 300))).collect();
    let from = (0..LANES).map(|_| Lane::new(weather(&mut random, 300))).collect();
    let count = if random.chance(70) { 1 } else { 2 };
    let streams = if random.chance(70) { 5 } else { 1 + random.index(3) };
    // Without waiting for what it has put in.
    let early = random.chance(10);
    let manners = Manners { lies: random.chance(10), breaks: random.chance(3), floods: random.chance(1) };
    let threads = (0..count)
        .map(|_| {
            // Long ones use up the windows of streams.
            let len = if random.chance(2) { 2_500 } else { 60 };
            let len = usize::try_from(random.within(5..len)).unwrap_or(5);
            let mut ops = script::write(&mut random, len, manners);
            if early {
                let keep = random.index(ops.len());
                ops.truncate(keep);
                ops.push(script::Op::Shutdown);
            }
            Thread::new(ops)
        })
        .collect();
    // An executor that waits for room in a stream need not be there: windows see to that. One that did could not hear of the end of
    // a device.
    let room = if early || random.chance(50) { usize::MAX } else { 1 + random.index(8) };
    let crash = random.chance(5).then(|| random.within(1..20));
    let mut world = World {
        executor: Executor::new(core(count, streams), room, crash),
        queue: Queue::default(),
        machine: Machine::default(),
        command,
        events,
        control,
        to,
        from,
        to_lent: [false; LANES],
        from_lent: [false; LANES],
        reader: FrameReader::default(),
        write_locked: false,
        unsent: Vec::new(),
        tasks: BTreeMap::new(),
        scheduled: BTreeSet::new(),
        parked: BTreeMap::new(),
        parks: 0,
        tokens: BTreeSet::new(),
        blocked: BTreeMap::new(),
        copy_threads: 0,
        threads,
        transfers: 0,
        cut: false,
        lost_at: None,
        streams,
        failure: None,
        broken: false,
        random,
    };
    world.executor.gets_stuck = manners.floods;
    world.start();
    world.go_on();
    world.judge()
}

/// For a lease of so many devices.
fn core(devices: usize, streams: usize) -> ExecutorCore {
    let limits =
        Limits { ordinals: (0..).take(devices).collect(), memory: 0, streams: u32::try_from(streams).unwrap_or(1) };
    ExecutorCore::new(SessionId(1), limits, script::SMALL as u64)
}

impl World {
    fn start(&mut self) {
        for thread in 0..self.threads.len() {
            self.machine.open(Self::device(thread), u32::try_from(self.streams).unwrap_or(1));
            self.begin(Actor::Program(thread), Frame::Script);
        }
        self.begin(Actor::Watcher, Frame::Watcher);
        self.begin(Actor::Control, Frame::Control);
        self.begin(Actor::Commands, Frame::Commands);
        for lane in 0..LANES {
            self.begin(Actor::Bulk(lane), Frame::Bulk(lane));
        }
        self.begin(Actor::Discards, Frame::Discards);
        self.open_devices(u32::try_from(self.threads.len()).unwrap_or(1));
        let at = self.random.within(0..30_000);
        match self.random.within(0..100) {
            0..8 => self.queue.add(at, Happening::Cut),
            8..12 => self.queue.add(at, Happening::HalfOpen),
            _ => {}
        }
    }

    /// The device of a thread of the program.
    pub(super) fn device(thread: usize) -> u32 {
        u32::try_from(thread).unwrap_or(0)
    }

    fn go_on(&mut self) {
        let mut steps = 0;
        while self.failure.is_none() {
            let Some(happening) = self.queue.next(LIMIT) else { return };
            steps += 1;
            if steps > STEPS_MAX {
                return self.violation("somebody is busy for ever".to_owned());
            }
            match happening {
                Happening::Step(actor) => {
                    self.scheduled.remove(&actor);
                    self.step(actor);
                }
                Happening::Timer(actor, park) => {
                    if self.parked.get(&actor) == Some(&park) {
                        self.parked.remove(&actor);
                        self.schedule(actor);
                    }
                }
                Happening::Arrive(block) => self.unblock(block),
                Happening::Cut => self.cut_now(),
                Happening::HalfOpen => {
                    self.lost_at = Some(self.queue.now() + NOTICE);
                    self.command.dead = true;
                    self.events.dead = true;
                    self.control.dead = true;
                    self.to.iter_mut().chain(&mut self.from).for_each(|lane| lane.dead = true);
                    self.queue.add(self.queue.now() + NOTICE, Happening::Notice);
                }
                Happening::Notice => self.lose("the coordinator has lost its node"),
            }
            self.check();
        }
    }

    /// What holds at any time.
    fn check(&mut self) {
        let (in_flight, waiting) = self.machine.command_bytes();
        // Commands that are answered need no room.
        let most = CREDIT_WINDOW + (2 * self.threads.len() * FRAME_MAX) as u64;
        if in_flight > most || waiting as u64 > most {
            self.violation(format!("{in_flight} bytes of commands are under way, and {waiting} wait"));
        }
        let open = (0..self.threads.len()).map(|thread| self.machine.open_bytes(Self::device(thread))).max();
        if open > Some(STREAM_WINDOW + FRAME_MAX as u64) {
            self.violation(format!("{open:?} bytes of operations are open in a stream"));
        }
        if self.machine.transfers() > TRANSFERS_MAX {
            self.violation("more copies than there may be".to_owned());
        }
    }

    fn judge(self) -> std::result::Result<(), String> {
        if let Some(failure) = self.failure {
            let calls: Vec<_> = self.threads.iter().map(Thread::calls).collect();
            return Err(format!("{failure}\nafter these calls of each thread: {calls:?}"));
        }
        for (index, thread) in self.threads.iter().enumerate() {
            let Some(ended) = thread.ended else {
                let doing = self.tasks.get(&Actor::Program(index)).map(|task| format!("{:?}", task.stack));
                return Err(format!(
                    "thread {index} never ends: it is at call {} ({}), {:?}, blocked: {:?}, parked: {:?}, streams: {}",
                    thread.next,
                    doing.unwrap_or_default(),
                    thread.calls().last(),
                    self.blocked,
                    self.parked,
                    self.executor.fronts(),
                ));
            };
            if let Some(lost) = self.lost_at
                && ended > lost.max(thread.started_last) + HEARS_WITHIN
            {
                return Err(format!("thread {index} heard of a loss at {lost} us after {ended} us only"));
            }
            if let Some(error) = &thread.error
                && self.lost_at.is_none()
                && !self.executor.has_crashed(Self::device(index))
            {
                return Err(format!("thread {index} got an error for nothing: {error:?}"));
            }
        }
        if self.queue.now() >= LIMIT {
            return Err("somebody wakes up though nothing happens".to_owned());
        }
        if self.lost_at.is_none() && self.to.iter().any(|lane| !lane.is_empty()) {
            return Err("bytes stand on a lane and nobody takes them".to_owned());
        }
        if self.lost_at.is_none() && self.threads.iter().all(|thread| thread.error.is_none()) {
            let left = (self.machine.transfers(), self.machine.waiters(), self.executor.left());
            if left != (0, 0, 0) {
                return Err(format!("copies, waiters, operations that are left: {left:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn violation(&mut self, why: String) {
        let now = self.queue.now();
        self.failure.get_or_insert_with(|| format!("at {now} us: {why}"));
    }

    /// The connection is lost.
    pub(super) fn lose(&mut self, why: &str) {
        let error = Error::new(ErrorCode::DeviceUnavailable, why);
        self.machine.lose(&error);
        self.end_lanes();
        self.act();
        self.unblock(Block::EagerJob);
        self.unblock(Block::AskedJob);
        self.wake(Actor::Flusher);
    }

    /// The lanes end.
    pub(super) fn cut_now(&mut self) {
        self.lost_at = Some(self.queue.now());
        self.end_lanes();
    }

    fn end_lanes(&mut self) {
        self.cut = true;
        for (_, actors) in std::mem::take(&mut self.blocked) {
            actors.into_iter().for_each(|actor| self.schedule(actor));
        }
    }

    // Who runs.

    pub(super) fn begin(&mut self, actor: Actor, frame: Frame) {
        self.tasks.insert(actor, Task { stack: vec![frame], outcome: None });
        self.schedule(actor);
    }

    pub(super) fn schedule(&mut self, actor: Actor) {
        let pause = if self.random.chance(2) { 2_000 } else { 15 };
        let at = self.queue.now() + self.random.within(0..pause);
        self.schedule_at(actor, at);
    }

    pub(super) fn schedule_at(&mut self, actor: Actor, at: u64) {
        if self.scheduled.insert(actor) {
            self.queue.add(at, Happening::Step(actor));
        }
    }

    /// As `std::thread::park`, with a time at which it ends.
    pub(super) fn park(&mut self, actor: Actor, until: Option<u64>) {
        if self.tokens.remove(&actor) {
            return self.schedule(actor);
        }
        self.parks += 1;
        self.parked.insert(actor, self.parks);
        if let Some(until) = until {
            self.queue.add(until, Happening::Timer(actor, self.parks));
        }
    }

    pub(super) fn wake(&mut self, actor: Actor) {
        if self.parked.remove(&actor).is_some() {
            self.schedule(actor);
        } else {
            self.tokens.insert(actor);
        }
    }

    pub(super) fn block(&mut self, actor: Actor, block: Block) {
        self.blocked.entry(block).or_default().insert(actor);
    }

    pub(super) fn unblock(&mut self, block: Block) {
        for actor in self.blocked.remove(&block).unwrap_or_default() {
            self.schedule(actor);
        }
    }

    /// As a condition variable that wakes one; whoever it is.
    pub(super) fn unblock_one(&mut self, block: Block) {
        let Some(actors) = self.blocked.get_mut(&block) else { return };
        let at = self.random.index(actors.len().max(1));
        let actor = actors.iter().nth(at).copied();
        if let Some(actor) = actor {
            actors.remove(&actor);
            self.schedule(actor);
        }
    }

    fn step(&mut self, actor: Actor) {
        let Some(mut task) = self.tasks.remove(&actor) else { return };
        let Some(frame) = task.stack.pop() else { return };
        if let Actor::Stream(device, stream) = actor {
            self.run_stream(device, stream);
            task.stack.push(frame);
        } else if actor == Actor::Commands {
            self.run_commands();
            task.stack.push(frame);
        } else if actor == Actor::Discards {
            self.run_discards();
            task.stack.push(frame);
        } else {
            self.run(actor, &mut task, frame);
        }
        if !task.stack.is_empty() {
            self.tasks.insert(actor, task);
        }
    }
}
