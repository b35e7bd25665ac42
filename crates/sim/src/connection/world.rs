//! The simulated world: one thread that decides which actor runs when, and checks the invariants.

use super::actor::{Actor, Block, LANES, PeerLane, WorldEvent};
use super::frames::Frame;
use super::peer_link::PeerLink;
use super::script::{self, DEVICES_MAX, Misbehaviour};
use super::site::SimulatedConnection;
pub(super) use super::site::Task;
use super::thread::Thread;
use crate::queue::EventQueue;
use crate::random::Random;
use accord_client::connection::TRANSFERS_MAX;
use accord_fabric::frame::{CREDIT_WINDOW, EXCHANGE_WINDOW, FRAME_MAX, STREAM_WINDOW};
use accord_types::{Error, ErrorCode};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

/// Microseconds within which a seed must end.
const LIMIT: u64 = 60_000_000;
/// Longest time after a loss until the last thread notices, in microseconds.
pub(super) const HEARS_WITHIN: u64 = 50_000;
/// Microseconds from a node's last sign of life until the coordinator reports its loss, see docs/design/data-path.md.
const NOTICE: u64 = 2_500_000;
/// Most steps of a seed.
const STEPS_MAX: u64 = 2_000_000;

/// All that is simulated: coordinator, programs, executors.
pub(super) struct World {
    pub(super) random: Random,
    /// Events with the connection where each happens.
    pub(super) queue: EventQueue<(usize, WorldEvent)>,
    /// The connection of the current event; fields of `Self` are reached through it.
    pub(super) at: usize,
    pub(super) connections: Vec<SimulatedConnection>,
    /// Threads of all programs.
    pub(super) threads: Vec<Thread>,
    /// Lanes between executors, by the pushing connection and the lane.
    pub(super) links: BTreeMap<(usize, PeerLane), PeerLink>,
    pub(super) transfers: u64,
    /// Whether threads that move bytes stop from time to time, for longer than a device takes to shut down.
    slow_movers: bool,
    /// Total time that they have been stopped.
    pub(super) stopped: u64,
    failure: Option<String>,
}

impl Deref for World {
    type Target = SimulatedConnection;

    fn deref(&self) -> &SimulatedConnection {
        &self.connections[self.at]
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut SimulatedConnection {
        &mut self.connections[self.at]
    }
}

/// Runs the programs of a seed.
///
/// # Errors
/// Returns the first violation.
pub fn run(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let programs = if random.chance(90) { 1 } else { 2 };
    let nodes = if random.chance(60) { 1 } else { 2 + random.index(2) };
    // Whether programs end early, without waiting for their operations.
    let early = random.chance(10);
    // A separate generator, so that other choices of a seed do not depend on the false messages.
    let mut liars = Random::new(!seed);
    let manners =
        Misbehaviour { false_commands: random.chance(10), breaks: random.chance(3), floods: random.chance(1) };
    let mut used = vec![0; programs * nodes];
    let mut threads = Vec::new();
    for program in 0..programs {
        for _ in 0..if random.chance(70) { 1 } else { 2 } {
            let first = random.index(nodes);
            let count = if nodes == 1 { 1 } else { 2 + random.index(DEVICES_MAX - 1) };
            let devices = (0..count).map(|index| {
                let connection = program * nodes + (first + index) % nodes;
                used[connection] += 1;
                (connection, used[connection] - 1)
            });
            let devices = devices.collect();
            threads.push(thread(&mut random, devices, early, manners));
        }
    }
    // Streams with little room stand in for executors that block on a full stream. The window makes such blocking
    // avoidable; a blocked executor would notice neither the end of a device nor what another executor waits for.
    let few = nodes == 1 && !early && random.chance(50);
    let space = if few { 1 + random.index(8) } else { usize::MAX };
    // A window of few copies can't be tested with false commands, which may never complete.
    let keeps_to_window = !manners.false_commands && !manners.breaks;
    let connections = used.iter().enumerate().map(|(index, &devices)| {
        let few = keeps_to_window && random.chance(50);
        let window = if few { u32::try_from(random.within(1..9)).unwrap_or(1) } else { EXCHANGE_WINDOW };
        let mut connection =
            SimulatedConnection::new(&mut random, (index / nodes, index % nodes), devices as usize, space, window);
        connection.executor.gets_stuck = manners.floods;
        connection.executor.false_commands = liars.chance(4);
        connection
    });
    let connections = connections.collect();
    let mut world = World {
        queue: EventQueue::default(),
        at: 0,
        connections,
        threads,
        links: BTreeMap::new(),
        transfers: 0,
        slow_movers: false,
        stopped: 0,
        failure: None,
        random,
    };
    world.slow_movers = world.random.chance(20);
    world.start();
    world.go_on();
    world.judge()
}

/// Creates a thread of a correct program that uses these devices.
fn thread(random: &mut Random, devices: Vec<(usize, u32)>, early: bool, manners: Misbehaviour) -> Thread {
    // Long programs exhaust the windows of streams.
    let len = if random.chance(2) { 2_500 } else { 60 };
    let len = usize::try_from(random.within(5..len)).unwrap_or(5);
    let mut ops = script::write(random, len, devices.len(), manners);
    if early {
        let keep = random.index(ops.len());
        ops.truncate(keep);
        ops.extend(script::end(devices.len()));
    }
    Thread::new(ops, devices)
}

impl World {
    fn start(&mut self) {
        for connection in 0..self.connections.len() {
            self.on(connection, Self::start_connection);
        }
        for thread in 0..self.threads.len() {
            let (connection, _) = self.threads[thread].devices[0];
            self.on(connection, |world| world.begin(Actor::Program(thread), Frame::Script));
        }
        let (at, connection) = (self.random.within(0..30_000), self.random.index(self.connections.len()));
        let happens = match self.random.within(0..100) {
            0..8 => Some(WorldEvent::Cut),
            8..12 => Some(WorldEvent::HalfOpen),
            12..15 => Some(WorldEvent::NodeDown),
            15..18 if self.connections.len() > 1 => Some(WorldEvent::Die),
            _ => None,
        };
        if let Some(happens) = happens {
            self.queue.add(at, (connection, happens));
        }
        // Lanes between executors are lost independently.
        if self.connections.len() > 1 && self.random.chance(30) {
            let (at, connection) = (self.random.within(0..10_000), self.random.index(self.connections.len()));
            let other = self.random.index(self.connections.len());
            self.queue.add(at, (connection, WorldEvent::PeerCut(other)));
        }
    }

    fn start_connection(&mut self) {
        let (devices, streams) = (self.devices, u32::try_from(self.streams).unwrap_or(1));
        (0..devices).for_each(|device| self.machine.open(device, streams));
        self.begin(Actor::Watcher, Frame::Watcher);
        self.begin(Actor::Control, Frame::Control);
        self.begin(Actor::Commands, Frame::Commands);
        for lane in 0..LANES {
            self.begin(Actor::Bulk(lane), Frame::Bulk(lane));
        }
        self.begin(Actor::Discards, Frame::Discards);
        self.open_devices(devices);
    }

    /// Runs `act` at another connection.
    pub(super) fn on<T>(&mut self, connection: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        let here = std::mem::replace(&mut self.at, connection);
        let done = act(self);
        self.at = here;
        done
    }

    /// Schedules an event here, `after` microseconds from now.
    pub(super) fn add(&mut self, after: u64, event: WorldEvent) {
        self.queue.add(self.queue.now() + after, (self.at, event));
    }

    /// Schedules an arrival here.
    pub(super) fn arrive(&mut self, at: u64, block: Block) {
        self.queue.add(at, (self.at, WorldEvent::Arrive(block)));
    }

    /// Returns the number of a thread's current device at this connection.
    pub(super) fn device(&self, thread: usize) -> u32 {
        let thread = &self.threads[thread];
        thread.devices[thread.on].1
    }

    fn go_on(&mut self) {
        let mut steps = 0;
        while self.failure.is_none() {
            let Some((at, event)) = self.queue.next(LIMIT) else { return };
            self.at = at;
            steps += 1;
            if steps > STEPS_MAX {
                return self.violation("an actor is busy for ever".to_owned());
            }
            self.happen(event);
            self.at = at;
            self.check();
        }
    }

    fn happen(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Step(actor) => {
                self.scheduled.remove(&actor);
                self.step(actor);
            }
            WorldEvent::Timer(actor, park) => {
                if self.parked.get(&actor) == Some(&park) {
                    self.parked.remove(&actor);
                    self.schedule(actor);
                }
            }
            WorldEvent::Arrive(block) => self.unblock(block),
            WorldEvent::Cut => self.cut_now(),
            WorldEvent::HalfOpen => self.silence(),
            WorldEvent::Notice => self.lose("the coordinator has lost its node"),
            WorldEvent::PeerConnected(lane) => self.peer_connected(lane),
            WorldEvent::PeerCut(other) => self.cut_last_peer(other),
            WorldEvent::LaneCut(lane) => self.cut_peer(lane),
            WorldEvent::PushLost(lane) => self.push_lost(lane),
            WorldEvent::PeerLost(from) => self.peer_lost(from),
            WorldEvent::ExecutorLost(gone) => self.executor_lost(gone),
            WorldEvent::NodeDown => {
                let node = self.node;
                let there = (0..self.connections.len()).filter(|&index| self.connections[index].node == node);
                there.collect::<Vec<_>>().into_iter().for_each(|index| self.on(index, Self::cut_now));
            }
            WorldEvent::Die => self.die(),
        }
    }

    fn silence(&mut self) {
        self.lost_at = Some(self.queue.now() + NOTICE);
        self.command.dead = true;
        self.events.dead = true;
        self.control.dead = true;
        let here = &mut **self;
        here.to.iter_mut().chain(&mut here.from).for_each(|lane| lane.dead = true);
        self.add(NOTICE, WorldEvent::Notice);
        self.silence_peers();
    }

    /// Ends the program and its executors.
    fn die(&mut self) {
        let program = self.program;
        for index in 0..self.connections.len() {
            if self.connections[index].program == program {
                self.on(index, |world| {
                    world.cut_now();
                    world.tasks.clear();
                });
            }
        }
        for thread in 0..self.threads.len() {
            if self.program_of(thread) == program {
                self.threads[thread].dead = true;
            }
        }
    }

    fn program_of(&self, thread: usize) -> usize {
        self.connections[self.threads[thread].devices[0].0].program
    }

    /// Checks the invariants that hold at any time.
    fn check(&mut self) {
        let (in_flight, waiting) = self.machine.command_bytes();
        // Commands with a reply need no credit.
        let most = CREDIT_WINDOW + (2 * self.threads.len() * FRAME_MAX) as u64;
        if in_flight > most || waiting as u64 > most {
            self.violation(format!("{in_flight} bytes of commands are under way, and {waiting} wait"));
        }
        let devices = self.devices;
        let open = (0..devices).map(|device| self.machine.open_bytes(device)).max();
        if open > Some(STREAM_WINDOW + FRAME_MAX as u64) {
            self.violation(format!("{open:?} bytes of operations are open in a stream"));
        }
        if self.machine.transfers() > TRANSFERS_MAX {
            self.violation("more copies than there may be".to_owned());
        }
        // A target may be ready before its pusher knows of the push: each thread has at most one copy that only one end
        // knows.
        let (window, threads) = (self.exchange_window as usize, self.threads.len());
        let (pushes, expects) = (self.executor.transfers.pushes(), self.executor.transfers.expects());
        if pushes > window + threads || expects > window {
            self.violation(format!("{pushes} pushes and {expects} expected copies are remembered"));
        }
    }

    fn judge(mut self) -> Result<(), String> {
        if let Some(failure) = self.failure {
            let calls: Vec<_> = self.threads.iter().map(Thread::calls).collect();
            return Err(format!("{failure}\nafter these calls of each thread: {calls:?}"));
        }
        for index in 0..self.threads.len() {
            self.judge_thread(index)?;
        }
        if self.queue.now() >= LIMIT {
            return Err("an actor wakes up though nothing happens".to_owned());
        }
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            if connection.lost_at.is_none() && connection.to.iter().any(|lane| !lane.is_empty()) {
                return Err("bytes stand on a lane and are not taken".to_owned());
            }
            let unanswered = connection.unanswered();
            if connection.lost_at.is_none() && unanswered != (0, 0) {
                return Err(format!(
                    "copies in that were asked for and have no end, and bytes of them: {unanswered:?}"
                ));
            }
            let left = connection.left();
            if left != [0; 5] && self.is_well(connection.program) {
                return Err(format!("copies, waiters, operations, pushes, expected ones that are left: {left:?}"));
            }
            if connection.exchange_window < EXCHANGE_WINDOW
                && !connection.credit_is_back()
                && self.is_well(connection.program)
            {
                return Err(format!("copies are over, and not known to be: {:?}", connection.machine.exchanged()));
            }
        }
        for (from, to) in self.links.keys().copied().collect::<Vec<_>>() {
            let well = self.is_well(self.connections[from].program);
            if well && !self.links.get_mut(&(from, to)).is_none_or(|link| link.cut || link.is_idle()) {
                return Err(format!("the lane from {from} to {to:?} is in use"));
            }
        }
        Ok(())
    }

    fn judge_thread(&self, index: usize) -> Result<(), String> {
        let thread = &self.threads[index];
        if thread.dead {
            return Ok(());
        }
        let here = &self.connections[thread.devices[thread.on].0];
        if !thread.ended {
            let doing = here.tasks.get(&Actor::Program(index)).map(|task| format!("{:?}", task.stack));
            let streams: Vec<_> = self.connections.iter().map(|connection| connection.executor.fronts()).collect();
            return Err(format!(
                "thread {index} never ends: it is at call {} ({}), {:?}, blocked: {:?}, parked: {:?}, streams: {streams:?}",
                thread.next,
                doing.unwrap_or_default(),
                thread.calls().last(),
                here.blocked,
                here.parked,
            ));
        }
        if let Some(error) = &thread.error
            && !thread.differs
            && !self.has_injected(index)
        {
            return Err(format!("thread {index} got an error for nothing: {error:?}"));
        }
        Ok(())
    }

    /// Whether a device of a thread has failed, or its connection is lost.
    fn has_injected(&self, thread: usize) -> bool {
        let lost = |&(connection, _): &(usize, u32)| self.connections[connection].lost_at.is_some();
        self.has_crashed(thread) || self.threads[thread].devices.iter().any(lost)
    }

    /// Whether a device of a thread has failed.
    pub(super) fn has_crashed(&self, thread: usize) -> bool {
        let crashed = |&(at, device): &(usize, u32)| self.connections[at].executor.has_crashed(device);
        self.threads[thread].devices.iter().any(crashed)
    }

    /// Whether no trouble has happened to a program.
    fn is_well(&self, program: usize) -> bool {
        let connections = self.connections.iter().filter(|connection| connection.program == program);
        let lost = connections.clone().any(|connection| connection.lost_at.is_some());
        let of = |&thread: &usize| self.program_of(thread) == program;
        !lost && (0..self.threads.len()).filter(of).all(|thread| self.threads[thread].error.is_none())
    }

    pub(super) fn violation(&mut self, why: String) {
        let (now, at) = (self.queue.now(), self.at);
        self.failure.get_or_insert_with(|| format!("at {now} us, connection {at}: {why}"));
    }

    /// Ends the connection with an error.
    pub(super) fn lose(&mut self, why: &str) {
        let error = Error::new(ErrorCode::DeviceUnavailable, why);
        self.machine.lose(&error);
        if self.executor.false_commands {
            // A false event may end the connection like a loss.
            let now = self.queue.now();
            self.lost_at.get_or_insert(now);
        }
        self.end_lanes();
        self.notify_of_loss();
        self.act();
        self.unblock(Block::EagerJob);
        self.unblock(Block::AskedJob);
        self.wake(Actor::Flusher);
    }

    /// Ends the lanes.
    pub(super) fn cut_now(&mut self) {
        let now = self.queue.now();
        self.lost_at.get_or_insert(now);
        self.end_lanes();
    }

    fn end_lanes(&mut self) {
        self.cut = true;
        let blocked = std::mem::take(&mut self.blocked);
        for (_, actors) in blocked {
            actors.into_iter().for_each(|actor| self.schedule(actor));
        }
        self.cut_peers();
    }

    // Actors.

    pub(super) fn begin(&mut self, actor: Actor, frame: Frame) {
        self.tasks.insert(actor, Task { stack: vec![frame], outcome: None });
        self.schedule(actor);
    }

    pub(super) fn schedule(&mut self, actor: Actor) {
        let long = self.slow_movers && matches!(actor, Actor::Copy(_) | Actor::Bulk(_)) && self.random.chance(5);
        let pause = match self.random.chance(2) {
            _ if long => 20_000,
            true => 2_000,
            false => 15,
        };
        self.stopped += if long { pause } else { 0 };
        let at = self.queue.now() + self.random.within(0..pause);
        self.schedule_at(actor, at);
    }

    pub(super) fn schedule_at(&mut self, actor: Actor, at: u64) {
        if self.scheduled.insert(actor) {
            self.queue.add(at, (self.at, WorldEvent::Step(actor)));
        }
    }

    /// Parks an actor like `std::thread::park`, with a deadline.
    pub(super) fn park(&mut self, actor: Actor, until: Option<u64>) {
        if self.tokens.remove(&actor) {
            return self.schedule(actor);
        }
        self.parks += 1;
        let park = self.parks;
        self.parked.insert(actor, park);
        if let Some(until) = until {
            self.queue.add(until, (self.at, WorldEvent::Timer(actor, park)));
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

    /// Unblocks one random waiter, as a condition variable does.
    pub(super) fn unblock_one(&mut self, block: Block) {
        let Some(count) = self.blocked.get(&block).map(BTreeSet::len) else { return };
        let at = self.random.index(count.max(1));
        let actor = self.blocked.get(&block).and_then(|actors| actors.iter().nth(at)).copied();
        if let Some(actor) = actor {
            self.blocked.entry(block).or_default().remove(&actor);
            self.schedule(actor);
        }
    }

    fn step(&mut self, actor: Actor) {
        let Some(mut task) = self.tasks.remove(&actor) else { return };
        let Some(frame) = task.stack.pop() else { return };
        match actor {
            Actor::Stream(device, stream) => self.run_stream(device, stream),
            Actor::Commands => self.run_commands(),
            Actor::Discards => self.run_discards(),
            Actor::PeerBytes(from) => self.run_peer_bytes(from),
            Actor::PeerControl(lane) => self.run_peer_control(lane),
            Actor::PeerAborts(lane) => self.run_peer_aborts(lane),
            _ => return self.run_task(actor, task, frame),
        }
        task.stack.push(frame);
        self.tasks.insert(actor, task);
    }

    fn run_task(&mut self, actor: Actor, mut task: Task, frame: Frame) {
        self.run(actor, &mut task, frame);
        if !task.stack.is_empty() {
            self.tasks.insert(actor, task);
        }
    }
}
