//! The lanes and threads of a connection, and its end. [`Machine`] makes the decisions.

use super::copy_wakeups::CopyWakeups;
use super::event_reader::EventReader;
use super::node_spec::NodeSpec;
use super::peer_liveness::ConnectionLiveness;
use super::unsent::Unsent;
use crate::connection::{
    ASKED_LANES, AppendDecision, EAGER_LANES, Effect, Effects, Flush, Machine, MayStall, Need, Reply, Requested, WaitId,
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

/// The numbers of bulk lanes, as the machine assumes them.
const BULK_LANES: BulkLanes = BulkLanes { eager: EAGER_LANES, asked: ASKED_LANES };
/// The longest time between an executor's end and the reason for it.
const REASON_MAX: Duration = Duration::from_millis(100);
/// Interval of checks for that reason.
const REASON_POLL: Duration = Duration::from_millis(2);
/// Number of samples of the node's clock: the quickest answer is the most exact.
const CLOCK_SAMPLES: u32 = 8;

/// The machine, locked.
pub(super) type Locked<'a> = ShortGuard<'a, Machine<Thread>>;

/// The connection to an executor.
///
/// Locks are taken in this order: reader, write, machine; those of inbox and outboxes come last.
pub(crate) struct Connection {
    pub(crate) spec: Arc<NodeSpec>,
    /// The link to the executor; the session may have had others there.
    pub(crate) link: Arc<Link>,
    /// The link's commands and events.
    pub(super) records: SharedLane,
    threads: LaneThreads,
    pub(super) machine: ShortLock<Machine<Thread>>,
    pub(super) clock: ConnectionClock,
    /// The lock of threads that send commands.
    pub(super) write: TurnLock<Unsent>,
    /// The lock of the thread that reads.
    pub(super) reader: TurnLock<EventReader>,
    pub(super) copy_wakeups: CopyWakeups,
    /// The images that the executor has.
    pub(super) images_sent: TurnLock<HashSet<ImageId>>,
    pub(super) exchange: Arc<Exchange>,
    pub(super) alive: ConnectionLiveness,
}

/// The threads of a connection, which start at their first use.
struct LaneThreads {
    /// The readers of bulk lanes, until they start.
    transfers: ShortLock<Vec<TransferReader>>,
    bulk: Once,
    flusher: OnceLock<Option<Thread>>,
    watcher: OnceLock<Option<Thread>>,
}

/// The times of a connection.
pub(super) struct ConnectionClock {
    /// The origin of the machine's times.
    pub(super) begun: Instant,
    /// Offset from the node's clock to this node's.
    offset: AtomicI64,
}

impl Connection {
    /// Connects and starts the program at the other end.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` with the reason.
    pub(super) fn connect(spec: Arc<NodeSpec>, peer: PeerId, exchange: Arc<Exchange>) -> Result<Arc<Self>> {
        let route = transport::route(&spec.endpoint, spec.transport);
        let patience = spec.session.watchdog.timeout;
        let identity =
            Identity { session: spec.session.id, peer: PeerId::PROGRAM, key: spec.session.key.clone(), patience };
        let Connected { link, records, transfers, control } = Link::connect(&identity, peer, route, BULK_LANES)?;
        let connection = Arc::new(Self {
            link,
            records,
            threads: LaneThreads {
                transfers: ShortLock::new(transfers),
                bulk: Once::new(),
                flusher: OnceLock::new(),
                watcher: OnceLock::new(),
            },
            machine: ShortLock::default(),
            clock: ConnectionClock { begun: Instant::now(), offset: AtomicI64::new(0) },
            write: TurnLock::default(),
            reader: TurnLock::new(EventReader::new()),
            copy_wakeups: CopyWakeups::default(),
            images_sent: TurnLock::default(),
            exchange,
            alive: ConnectionLiveness::default(),
            spec,
        });
        let watchdog = connection.spec.session.watchdog.clone();
        let watched: Arc<dyn Watched> = connection.clone();
        watchdog.add(Arc::downgrade(&watched));
        connection.link.stats().stalls.notify(move || watchdog.rouse());
        // Started first, because it learns whether the executor lives.
        connection.spawn("accord-control", move |connection| {
            // Does not wait for other lanes.
            let outcome = control.run(|message| connection.control(message));
            connection.reader_ended(outcome);
        });
        connection.long_wait(|| connection.start())?;
        connection.spec.discover(peer);
        connection.threads.watcher.get_or_init(|| connection.spawn("accord-events", |connection| connection.watch()));
        connection.link.join(&connection.exchange);
        Ok(connection)
    }

    /// Describes the program to the executor, and learns its clock.
    fn start(self: &Arc<Self>) -> Result<()> {
        let program = &self.spec.session.program;
        let payload = program_that_fits(program);
        let (trace, emulate_gpu) = (self.spec.session.trace.is_some(), program.emulate_gpu);
        self.ask(|ticket| Command::Start { ticket, trace, emulate_gpu }, &[&payload])?;
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
                self.clock.offset.store(here.wrapping_sub(there).cast_signed(), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Returns the offset from the node's clock to this node's.
    pub(super) fn clock_offset(&self) -> i64 {
        self.clock.offset.load(Ordering::Relaxed)
    }

    /// Handles the executor's messages about transfers to it.
    fn control(self: &Arc<Self>, message: ControlMessage) -> Result<()> {
        self.alive.signs_of_life();
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

    /// Handles the end of a lane: the connection needs all of them.
    fn reader_ended(self: &Arc<Self>, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.lose_aside("the executor closed the connection"),
            Err(error) => self.lose_aside(error.cause()),
        };
    }

    /// Ends the connection as [`Connection::lose`], for a cause outside the command lane. An executor that ends its
    /// lanes writes the reason to the command lane, so this waits for it briefly.
    pub(super) fn lose_aside(self: &Arc<Self>, why: &str) -> Error {
        let begin = Instant::now();
        while self.machine().check().is_ok() && begin.elapsed() < REASON_MAX {
            self.poll(|machine| machine.try_read_the_last());
            std::thread::sleep(REASON_POLL);
        }
        self.lose_lane(why)
    }

    /// Ends the connection as [`Connection::lose`], because a lane has ended. The reason may be known elsewhere: over
    /// MPI another node's agent may have died, otherwise the executor's agent knows how it ended.
    pub(super) fn lose_lane(self: &Arc<Self>, why: &str) -> Error {
        if self.machine().check().is_err() {
            return self.lose(why);
        }
        if !self.uses_mpi() {
            return match self.spec.session.executor_ends.of(self.spec.node) {
                None => self.lose(why),
                Some(LaneEnd::Process(how)) => self.lose(&format!("{why}; its process has ended: {how}")),
                Some(end) => self.lose_to(&end),
            };
        }
        let news = self.spec.session.world_news.wait_for_cause();
        if news.is_none()
            && let Some(end) = self.spec.session.executor_ends.of_session()
        {
            return self.lose_to(&end);
        }
        self.lose(&news.map_or_else(|| why.to_owned(), |news| format!("{why}; {news}")))
    }

    /// Whether the end of any other node of the world ends it.
    pub(super) fn uses_mpi(&self) -> bool {
        self.link.route().is_some_and(|route| route.transport == Transport::Mpi)
    }

    /// Starts a thread of the connection. If that fails, the connection is lost.
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

    /// Starts the bulk lanes' readers, if they do not run yet.
    pub(super) fn serve_bulk_lanes(self: &Arc<Self>) {
        self.threads.bulk.call_once(|| {
            let readers = std::mem::take(&mut *self.threads.transfers.lock());
            for reader in readers {
                self.spawn("accord-bulk", move |connection| connection.reader_ended(reader.run()));
            }
        });
    }

    pub(super) fn machine(&self) -> Locked<'_> {
        self.machine.lock()
    }

    /// Returns the machine's time.
    pub(super) fn now(&self) -> Duration {
        self.clock.begun.elapsed()
    }

    /// Records that a wait has failed. If a queue has failed, the executor reports that, too, but perhaps later.
    pub(super) fn wait_failed(self: &Arc<Self>, device: u32, error: &Error) {
        if let Some(queue) = error.place().queue {
            let mut machine = self.machine();
            machine.fail(device, Some(queue), error);
            self.act(machine);
        }
    }

    /// Carries out the machine's effects.
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
                    if let Some(Some(thread)) = self.threads.watcher.get() {
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
            self.threads.flusher.get_or_init(|| self.spawn("accord-flush", |connection| connection.send_overdue()));
        if let Some(thread) = flusher {
            thread.unpark();
        }
    }

    /// Returns the machine once it has credit for another command; waits until then.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub(super) fn machine_with_room(self: &Arc<Self>, need: Need) -> Result<Locked<'_>> {
        loop {
            let mut machine = self.machine();
            let AppendDecision::After(want) = machine.space(need)? else { return Ok(machine) };
            let id = machine.wait(want, std::thread::current());
            self.act(machine);
            LinkStats::add(&self.link.stats().credit_stalls, 1);
            // If that fails, the connection is lost, and the wait fails.
            let _ = self.flush();
            self.wait(id)?;
        }
    }

    /// Appends an operation to a queue.
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

    /// Sends or leaves the last appended operation of `queue`, as the machine decides.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub(super) fn send(self: &Arc<Self>, mut machine: Locked<'_>, queue: QueueId) -> Result<()> {
        let flush = machine.flush_after(queue);
        drop(machine);
        self.flush_as(flush)
    }

    /// Leaves the last appended frames to the operation that most likely follows.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub(super) fn send_later(self: &Arc<Self>, mut machine: Locked<'_>) -> Result<()> {
        let flush = machine.flush_with_wait();
        drop(machine);
        self.flush_as(flush)
    }

    /// Leaves the last appended frames to the flusher, for a thread that is about to wait for another peer.
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

    /// Waits for the reply to a command, after sending all frames.
    ///
    /// # Errors
    /// Returns the error of the reply or the connection.
    pub(super) fn wait_for_reply(self: &Arc<Self>, id: WaitId) -> Result<Reply> {
        LinkStats::add(&self.link.stats().round_trips, 1);
        // If that fails, the connection is lost, and the wait fails.
        let _ = self.flush();
        self.wait(id)
    }

    /// Waits for several replies. Returns the last one; `None` if there are none.
    ///
    /// # Errors
    /// Returns the first error among the replies, or the connection's. Later replies are not waited for.
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

    /// Ends the connection: all present and later uses fail. Returns the error, or that of the first call.
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

    /// Ends the connection as [`Connection::lose`], for a reason outside the connection.
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
        // The loss of a silent executor is reported to the others, because it ends no lane of theirs.
        if error.code() != ErrorCode::DeviceShutdown {
            self.spec.session.watchdog.report_lost_peer(self.link.peer(), &error);
        }
        if let Some(Some(flusher)) = self.threads.flusher.get() {
            flusher.unpark();
        }
        error
    }

    pub(super) fn place(&self, error: Error) -> Error {
        error.node(&self.spec.node_name)
    }
}

/// Creates an error of the connection itself.
pub(super) fn unavailable(cause: String) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}

/// Encodes the program; the longest variables of an oversized environment are omitted.
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
