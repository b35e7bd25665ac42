//! A program's connection to a node: the machine, its lanes, the executor, and the actors.

use super::actor::{Actor, Block, Chunk, LANES};
use super::frames::Frame;
use super::lane::{Lane, LaneBehaviour};
use super::script;
use super::streams::Executor;
use crate::random::Random;
use accord_client::connection::{Machine, Reply};
use accord_executor::Limits;
use accord_executor::executor::ExecutorCore;
use accord_fabric::frame::{EXCHANGE_STEP, EXCHANGE_WINDOW, FrameReader};
use accord_types::{Result, SessionId, TransferId};
use std::collections::{BTreeMap, BTreeSet};

/// The stack of an actor's frames; the innermost is last.
#[derive(Default)]
pub(super) struct Task {
    pub(super) stack: Vec<Frame>,
    /// The result of the last wait.
    pub(super) outcome: Option<Result<Reply>>,
}

pub(super) struct SimulatedConnection {
    pub(super) program: usize,
    pub(super) node: usize,
    pub(super) machine: Machine<Actor>,
    pub(super) command: Lane<Vec<u8>>,
    pub(super) events: Lane<Vec<u8>>,
    pub(super) control: Lane<TransferId>,
    pub(super) to: Vec<Lane<Chunk>>,
    pub(super) from: Vec<Lane<Chunk>>,
    pub(super) to_acquired: [bool; LANES],
    pub(super) from_acquired: [bool; LANES],
    pub(super) reader: FrameReader,
    pub(super) write_locked: bool,
    /// Encoded frames that are not sent yet.
    pub(super) unsent: Vec<u8>,
    pub(super) tasks: BTreeMap<Actor, Task>,
    pub(super) scheduled: BTreeSet<Actor>,
    pub(super) parked: BTreeMap<Actor, u64>,
    pub(super) parks: u64,
    pub(super) tokens: BTreeSet<Actor>,
    pub(super) blocked: BTreeMap<Block, BTreeSet<Actor>>,
    pub(super) copy_threads: usize,
    pub(super) executor: Executor,
    /// Whether the lanes have ended.
    pub(super) cut: bool,
    /// Whether the program has informed its other executors that this one is lost.
    pub(super) reported: bool,
    /// The time at which the executor was lost.
    pub(super) lost_at: Option<u64>,
    /// Number of devices, and of streams of each.
    pub(super) devices: u32,
    pub(super) streams: usize,
    pub(super) exchange_window: u32,
    /// Whether the program has broken the protocol.
    pub(super) broken: bool,
}

impl SimulatedConnection {
    /// Creates a connection to an executor with this many devices. `space` is the number of operations that a stream
    /// holds, `exchange_window` that of copies in flight to and from other executors.
    pub(super) fn new(
        random: &mut Random,
        (program, node): (usize, usize),
        devices: usize,
        space: usize,
        exchange_window: u32,
    ) -> Self {
        let lane_behaviour = |random: &mut Random, capacity: u64| LaneBehaviour {
            delay: if random.chance(50) { 30 } else { 600 },
            capacity: usize::try_from(random.within(64..capacity)).unwrap_or(64),
            stalls: if random.chance(30) { 10 } else { 0 },
        };
        let command = Lane::new(lane_behaviour(random, 20_000));
        let events = Lane::new(lane_behaviour(random, 2_000));
        let control = Lane::new(lane_behaviour(random, 2_000));
        let to = (0..LANES).map(|_| Lane::new(lane_behaviour(random, 300))).collect();
        let from = (0..LANES).map(|_| Lane::new(lane_behaviour(random, 300))).collect();
        let streams = if random.chance(70) { 5 } else { 1 + random.index(3) };
        let crash = random.chance(5).then(|| random.within(1..20));
        // A copy has at most 160 bytes.
        let ahead = if random.chance(20) { 0 } else { random.within(40..600) };
        Self {
            program,
            node,
            machine: Machine::new(exchange_window),
            exchange_window,
            command,
            events,
            control,
            to,
            from,
            to_acquired: [false; LANES],
            from_acquired: [false; LANES],
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
            executor: Executor::new(core(devices, streams), space, exchange_step(exchange_window), ahead, crash),
            cut: false,
            reported: false,
            lost_at: None,
            devices: u32::try_from(devices).unwrap_or(0),
            streams,
            broken: false,
        }
    }

    /// Returns the number of unfinished copies, waiters, operations, and transfers between executors.
    pub(super) fn left(&self) -> [usize; 5] {
        let Executor { transfers, .. } = &self.executor;
        [
            self.machine.transfers(),
            self.machine.waiters(),
            self.executor.left(),
            transfers.pushes(),
            transfers.expects() + self.executor.posted.len(),
        ]
    }

    /// Returns the number of copies in that an executor requested and has not seen end, and the bytes reserved for
    /// them.
    pub(super) fn unanswered(&self) -> (usize, u64) {
        (self.executor.owed.len() + self.executor.kept.len(), self.executor.ahead.bytes())
    }

    /// Whether the executor has returned all credit for copies between executors that it can.
    pub(super) fn credit_is_back(&self) -> bool {
        let (step, (pushes, expects)) = (exchange_step(self.exchange_window), self.machine.exchanged());
        pushes < step && expects < step
    }
}

/// Returns the number of completed copies after which an executor returns credit, in proportion to a real window.
fn exchange_step(window: u32) -> u32 {
    (window / (EXCHANGE_WINDOW / EXCHANGE_STEP)).max(1)
}

/// Creates the core of an executor for a lease of this many devices.
fn core(devices: usize, streams: usize) -> ExecutorCore {
    let limits =
        Limits { ordinals: (0..).take(devices).collect(), memory: 0, streams: u32::try_from(streams).unwrap_or(1) };
    ExecutorCore::new(SessionId(1), limits, script::SMALL as u64)
}
