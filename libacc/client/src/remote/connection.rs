//! The lanes and threads of a connection, and how it ends. What it does is decided by [`Machine`].

use super::alive::Alive;
use super::copy_wakeups::CopyWakeups;
use super::event_reader::EventReader;
use super::node_spec::NodeSpec;
use super::unsent::Unsent;
use crate::connection::{
    ASKED_LANES, EAGER_LANES, Effect, Effects, Flush, Machine, MayStall, Need, Reply, Requested, Room, WaitId,
};
use crate::executor_ends::LaneEnd;
use crate::watchdog::Watched;
use accord_fabric::frame::{self, Command, PAYLOAD_MAX};
use accord_fabric::link::{BulkLanes, Connected, Identity, Link, TransferReader};
use accord_fabric::peer::PeerId;
use accord_fabric::stats::LinkStats;
use accord_fabric::transfer::{ControlMessage, Exchange};
use accord_fabric::transport::{self, SharedLane, Transport};
use accord_fabric::{ProgramSpec, clock};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::threads;
use accord_types::turn_lock::TurnLock;
use accord_types::{Error, ErrorCode, ImageId, QueueId, Result};
use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The numbers of lanes, as the machine gives them to transfers.
const BULK_LANES: BulkLanes = BulkLanes { eager: EAGER_LANES, asked: ASKED_LANES };
/// The longest time between an executor's end and the reason for it.
const REASON_MAX: Duration = Duration::from_millis(100);
/// The interval at which that reason is looked for.
const REASON_LOOK: Duration = Duration::from_millis(2);
/// Samples of the node's clock: the quickest answer tells best.
const CLOCK_SAMPLES: u32 = 8;

/// The machine, locked.
pub(super) type Locked<'a> = ShortGuard<'a, Machine<Thread>>;

/// The connection to an executor.
///
/// Locks are taken in this order: reader, write, machine; those of inbox and outboxes come last.
pub(crate) struct Connection {
    pub(crate) spec: Arc<NodeSpec>,
    /// The link to the executor, one of all that this session has and has had there.
    pub(crate) link: Arc<Link>,
    /// The link's commands and events.
    pub(super) records: SharedLane,
    /// Run when first needed.
    transfers: ShortLock<Vec<TransferReader>>,
    bulk_threads: Once,
    pub(super) machine: ShortLock<Machine<Thread>>,
    /// The machine's times count from here.
    begun: Instant,
    /// Held while sending commands.
    pub(super) write: TurnLock<Unsent>,
    /// Taken with the reading side.
    pub(super) reader: TurnLock<EventReader>,
    pub(super) copy_wakeups: CopyWakeups,
    /// Started when first needed.
    flusher: OnceLock<Option<Thread>>,
    watcher: OnceLock<Option<Thread>>,
    /// The images that the executor has.
    pub(super) images_sent: TurnLock<HashSet<ImageId>>,
    pub(super) exchange: Arc<Exchange>,
    pub(super) alive: Alive,
    /// What to add to the node's clock to have this node's.
    clock_offset: AtomicI64,
}

impl Connection {
    /// Connects and starts the program at the other end.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` with the reason.
    pub(super) fn connect(spec: Arc<NodeSpec>, peer: PeerId, exchange: Arc<Exchange>) -> Result<Arc<Self>> {
        let route = transport::route(&spec.endpoint, spec.transport);
        let patience = spec.watchdog.timeout;
        let identity = Identity { session: spec.session, peer: PeerId::PROGRAM, key: spec.key.clone(), patience };
        let Connected { link, records, transfers, control } = Link::connect(&identity, peer, route, BULK_LANES)?;
        let connection = Arc::new(Self {
            link,
            records,
            transfers: ShortLock::new(transfers),
            bulk_threads: Once::new(),
            machine: ShortLock::default(),
            begun: Instant::now(),
            write: TurnLock::default(),
            reader: TurnLock::new(EventReader::new()),
            copy_wakeups: CopyWakeups::default(),
            flusher: OnceLock::new(),
            watcher: OnceLock::new(),
            images_sent: TurnLock::default(),
            exchange,
            alive: Alive::default(),
            clock_offset: AtomicI64::new(0),
            spec,
        });
        let watchdog = connection.spec.watchdog.clone();
        let watched: Arc<dyn Watched> = connection.clone();
        watchdog.add(Arc::downgrade(&watched));
        connection.link.stats().stalls.tell(move || watchdog.rouse());
        // First of all: it hears whether the executor lives.
        connection.spawn("accord-control", move |connection| {
            // Waits for no other lane.
            let outcome = control.run(|message| connection.control(message));
            connection.reader_ended(outcome);
        });
        connection.long_wait(|| connection.start())?;
        connection.spec.discover(peer);
        connection.watcher.get_or_init(|| connection.spawn("accord-events", |connection| connection.watch()));
        connection.link.join(&connection.exchange);
        Ok(connection)
    }

    /// Tells the executor what program it works for, and learns its clock.
    fn start(self: &Arc<Self>) -> Result<()> {
        let program = &self.spec.program;
        let payload = program_that_fits(program);
        let (trace, emulate_nvidia) = (self.spec.trace.is_some(), program.emulate_nvidia);
        self.ask(|ticket| Command::Start { ticket, trace, emulate_nvidia }, &[&payload])?;
        if !trace {
            return Ok(());
        }
        let mut quickest = u64::MAX;
        for _ in 0..CLOCK_SAMPLES {
            let before = clock::monotonic_ns();
            let there = self.ask(|ticket| Command::Clock { ticket }, &[])?.value;
            let after = clock::monotonic_ns();
            if after - before < quickest {
                quickest = after - before;
                let here = before + quickest / 2;
                self.clock_offset.store(here.wrapping_sub(there).cast_signed(), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Returns the offset from the node's clock to this node's.
    pub(super) fn clock_offset(&self) -> i64 {
        self.clock_offset.load(Ordering::Relaxed)
    }

    /// Takes what the executor says of transfers that are to go there.
    fn control(self: &Arc<Self>, message: ControlMessage) -> Result<()> {
        self.alive.heard();
        if let ControlMessage::Alive(beats) = message {
            self.beats(&beats);
            return Ok(());
        }
        if let ControlMessage::Ready(transfer, _) = message {
            let mut machine = self.machine();
            let requested = machine.requested(transfer);
            self.act(machine);
            if requested != Requested::Unknown {
                return Ok(());
            }
        }
        self.exchange.on_control(self.link.peer(), message, self.link.outbox())
    }

    /// The executor has ended a lane: without all of them the connection is lost.
    fn reader_ended(self: &Arc<Self>, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.lose_aside("the executor closed the connection"),
            Err(error) => self.lose_aside(error.cause()),
        };
    }

    /// Ends the connection as [`Connection::lose`], by another cause than an event on the command lane. The reason for
    /// which an executor ends its lanes stands there, so that this looks there for a moment.
    pub(super) fn lose_aside(self: &Arc<Self>, why: &str) -> Error {
        let begin = Instant::now();
        while self.machine().check().is_ok() && begin.elapsed() < REASON_MAX {
            self.look(|machine| machine.try_read_the_last());
            std::thread::sleep(REASON_LOOK);
        }
        self.lose_lane(why)
    }

    /// Ends the connection as [`Connection::lose`], because a lane has ended. Others may know why: one over MPI may
    /// have ended since another node's agent has died, else the executor's agent knows how it has ended.
    pub(super) fn lose_lane(self: &Arc<Self>, why: &str) -> Error {
        if self.machine().check().is_err() {
            return self.lose(why);
        }
        if !self.goes_by_mpi() {
            return match self.spec.executor_ends.of(self.spec.node) {
                None => self.lose(why),
                Some(LaneEnd::Process(how)) => self.lose(&format!("{why}; its process has ended: {how}")),
                Some(end) => self.lose_to(&end),
            };
        }
        let news = self.spec.world_news.of_a_lane_that_ended();
        if news.is_none()
            && let Some(end) = self.spec.executor_ends.of_session()
        {
            return self.lose_to(&end);
        }
        self.lose(&news.map_or_else(|| why.to_owned(), |news| format!("{why}; {news}")))
    }

    /// Whether other nodes' ends are its end.
    pub(super) fn goes_by_mpi(&self) -> bool {
        self.link.route().is_some_and(|route| route.transport == Transport::Mpi)
    }

    /// Starts a thread of the connection; without it the connection is lost.
    pub(super) fn spawn(self: &Arc<Self>, name: &str, work: impl FnOnce(Arc<Self>) + Send + 'static) -> Option<Thread> {
        let connection = self.clone();
        match threads::spawn(name, move || work(connection)) {
            Ok(thread) => Some(thread.thread().clone()),
            Err(error) => {
                self.unthreaded(&error);
                None
            }
        }
    }

    /// Bytes may come on bulk lanes from now on.
    pub(super) fn serve_bulk_lanes(self: &Arc<Self>) {
        self.bulk_threads.call_once(|| {
            let readers = std::mem::take(&mut *self.transfers.lock());
            for reader in readers {
                self.spawn("accord-bulk", move |connection| connection.reader_ended(reader.run()));
            }
        });
    }

    pub(super) fn machine(&self) -> Locked<'_> {
        self.machine.lock()
    }

    /// The machine's time.
    pub(super) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// A wait has ended with `error`. Should that be a queue's failure, the executor says so too, but perhaps after this.
    pub(super) fn wait_failed(self: &Arc<Self>, device: u32, error: &Error) {
        if let Some(queue) = error.place().queue {
            let mut machine = self.machine();
            machine.fail(device, Some(queue), error);
            self.act(machine);
        }
    }

    /// Does what the machine wants done.
    pub(super) fn act(self: &Arc<Self>, mut machine: Locked<'_>) {
        if !machine.has_effects() {
            return;
        }
        let effects = machine.take_effects();
        drop(machine);
        self.do_all(effects);
    }

    fn do_all(self: &Arc<Self>, effects: Effects<Thread>) {
        for effect in effects {
            match effect {
                Effect::Wake(thread) => thread.unpark(),
                Effect::WakeCopyThread(way) => self.copy_wakeups.wake(way),
                Effect::StartCopyThread(way) => {
                    self.spawn("accord-copy", move |connection| connection.send_copies(way));
                }
                Effect::WakeWatcher => {
                    if let Some(Some(thread)) = self.watcher.get() {
                        thread.unpark();
                    }
                }
                Effect::WakeFlusher => self.wake_flusher(),
                Effect::Discard(transfer) => self.link.inbox().discard(transfer),
            }
        }
    }

    fn wake_flusher(self: &Arc<Self>) {
        let flusher =
            self.flusher.get_or_init(|| self.spawn("accord-flush", |connection| connection.send_what_is_old()));
        if let Some(thread) = flusher {
            thread.unpark();
        }
    }

    /// The machine, when what is needed for one more command is there; waits until then.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub(super) fn machine_with_room(self: &Arc<Self>, need: Need) -> Result<Locked<'_>> {
        loop {
            let mut machine = self.machine();
            let Room::After(want) = machine.room(need)? else { return Ok(machine) };
            let id = machine.wait(want, std::thread::current());
            self.act(machine);
            LinkStats::add(&self.link.stats().credit_stalls, 1);
            // If that fails the connection is lost, and so is the wait.
            let _ = self.flush();
            self.wait(id)?;
        }
    }

    /// Puts an operation into a queue.
    ///
    /// # Errors
    /// Returns an error if the queue, device or connection has failed.
    pub(super) fn operate(
        self: &Arc<Self>,
        device: u32,
        queue: QueueId,
        stall: MayStall,
        command: &Command,
        payload: &[&[u8]],
    ) -> Result<()> {
        let mut machine = self.machine_with_room(Need::of(command))?;
        machine.operate((device, queue), stall, command, payload, self.now())?;
        self.send(machine, queue)
    }

    /// An operation of `queue` was appended last: has it sent.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub(super) fn send(self: &Arc<Self>, mut machine: Locked<'_>, queue: QueueId) -> Result<()> {
        let flush = machine.flush_after(queue);
        drop(machine);
        self.flush_as(flush)
    }

    /// Has the frames appended last sent by the time of the operation that most likely follows.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub(super) fn send_later(self: &Arc<Self>, mut machine: Locked<'_>) -> Result<()> {
        let flush = machine.flush_with_wait();
        drop(machine);
        self.flush_as(flush)
    }

    /// Has the flusher send the frames appended last by a thread that is to wait for another peer.
    pub(super) fn send_elsewhere(self: &Arc<Self>, mut machine: Locked<'_>) {
        let flush = machine.flush_elsewhere();
        drop(machine);
        if flush == Flush::WakeFlusher {
            self.wake_flusher();
        }
    }

    pub(super) fn flush_as(self: &Arc<Self>, flush: Flush) -> Result<()> {
        match flush {
            Flush::Now => self.flush(),
            Flush::Later => Ok(()),
            Flush::WakeFlusher => {
                self.wake_flusher();
                Ok(())
            }
        }
    }

    /// Sends a command with a ticket, and waits for its reply.
    ///
    /// # Errors
    /// Returns the error of the reply or the connection.
    pub(super) fn ask(self: &Arc<Self>, command: impl FnOnce(u64) -> Command, payload: &[&[u8]]) -> Result<Reply> {
        let id = self.machine().ask(command, payload, std::thread::current(), self.now())?;
        self.wait_for_reply(id).map_err(|error| self.place(error))
    }

    /// Waits for the reply to a command; sends first.
    ///
    /// # Errors
    /// Returns the error of the reply or the connection.
    pub(super) fn wait_for_reply(self: &Arc<Self>, id: WaitId) -> Result<Reply> {
        LinkStats::add(&self.link.stats().round_trips, 1);
        // If that fails the connection is lost, and so is the wait.
        let _ = self.flush();
        self.wait(id)
    }

    /// Waits for several replies. The last one; none if there are none.
    ///
    /// # Errors
    /// Returns the first error among the replies, or the connection's. The replies after it are not waited for.
    pub(super) fn wait_for_replies(self: &Arc<Self>, ids: &[WaitId]) -> Result<Option<Reply>> {
        let mut last = None;
        for (at, &id) in ids.iter().enumerate() {
            match self.wait_for_reply(id) {
                Ok(reply) => last = Some(reply),
                Err(error) => {
                    let mut machine = self.machine();
                    ids[at + 1..].iter().for_each(|&id| machine.give_up(id));
                    self.act(machine);
                    return Err(error);
                }
            }
        }
        Ok(last)
    }

    /// The connection is gone. Everything that uses it fails, now and later. Returns the error, or that of
    /// the first time.
    pub(super) fn lose(self: &Arc<Self>, why: &str) -> Error {
        let spec = &self.spec;
        let error = unavailable(format!(
            "the link to the executor of node {} ({}) is lost: {why}",
            spec.node_name, spec.endpoint
        ))
        .remedy("see the messages of the node's agent; acc_shutdown of the node's devices lets them start again")
        .node(&spec.node_name);
        self.end(error)
    }

    /// Ends the connection as [`Connection::lose`], for a reason that is no fault of the connection.
    pub(super) fn lose_to(self: &Arc<Self>, end: &LaneEnd) -> Error {
        match end.error() {
            Some(error) => self.end(error.node(&self.spec.node_name)),
            None => self.lose("the executor closed the connection"),
        }
    }

    /// Closes the connection in an orderly way.
    pub(super) fn close(self: &Arc<Self>) {
        let _ = self.flush();
        self.end(Error::new(ErrorCode::DeviceShutdown, "the session is over").node(&self.spec.node_name));
    }

    pub(super) fn end(self: &Arc<Self>, error: Error) -> Error {
        let mut machine = self.machine();
        if let Err(first) = machine.check() {
            return first;
        }
        machine.lose(&error);
        let effects = machine.take_effects();
        drop(machine);
        self.link.close(&error);
        self.do_all(effects);
        self.copy_wakeups.end();
        self.exchange.push_lost(self.link.peer(), &error);
        self.exchange.peer_lost(self.link.peer());
        // One that gives no sign of life ends no lane to the others.
        if error.code() != ErrorCode::DeviceShutdown {
            self.spec.watchdog.tell_lost(self.link.peer(), &error);
        }
        if let Some(Some(flusher)) = self.flusher.get() {
            flusher.unpark();
        }
        error
    }

    pub(super) fn place(&self, error: Error) -> Error {
        error.node(&self.spec.node_name)
    }
}

/// A word for errors of the connection itself.
pub(super) fn unavailable(cause: String) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}

/// The program as a payload; the longest variables of an immense environment are left out.
fn program_that_fits(program: &ProgramSpec) -> Vec<u8> {
    let mut program = program.clone();
    let mut payload = Vec::new();
    loop {
        payload.clear();
        frame::encode_program(&mut payload, &program);
        let longest = (0..program.env.len()).max_by_key(|&i| program.env[i].len());
        match longest {
            Some(longest) if payload.len() > PAYLOAD_MAX => drop(program.env.swap_remove(longest)),
            _ => return payload,
        }
    }
}
