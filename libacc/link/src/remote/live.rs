//! A connected link: its lanes, its threads, and how it ends.

use super::bulk::Bulk;
use super::core::{Core, Noise};
use super::events::unavailable;
use super::landings::Landings;
use super::link::LinkSpec;
use super::receiver::{Receiver, Reply, Want};
use super::sender::Sender;
use accord_fabric::bulk::{Inbox, Outbox};
use accord_fabric::clock;
use accord_fabric::exchange::{Exchange, Voice};
use accord_fabric::ProgramSpec;
use accord_fabric::frame::{FrameReader, PAYLOAD_MAX};
use accord_fabric::handshake::{self, FROM_PROGRAM, Hello, Lane};
use accord_fabric::stats::LinkStats;
use accord_fabric::wire::{self, CREDIT_WINDOW, Command};
use accord_types::{Error, ErrorCode, QueueId, Result, TransferId};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Lanes for the bytes of transfers.
const BULK_LANES: u16 = 2;
/// Samples of the node's clock: the quickest answer tells best.
const CLOCK_SAMPLES: u32 = 8;

/// A connected link.
pub(crate) struct Live {
    pub(crate) spec: Arc<LinkSpec>,
    pub(super) lane: Arc<TcpStream>,
    bulk_lanes: Vec<Arc<TcpStream>>,
    core: Mutex<Core>,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// Taken with the reading side.
    pub(super) reader: Mutex<FrameReader>,
    pub(super) bulk: Bulk,
    pub(super) landings: Arc<Landings>,
    pub(super) inbox: Arc<Inbox>,
    pub(crate) outbox: Arc<Outbox>,
    pub(super) exchange: Arc<Exchange>,
    pub(super) interest: Arc<Interest>,
    pub(crate) stats: Arc<LinkStats>,
    /// What to add to the node's clock to have this node's.
    pub(super) clock_offset: i64,
    next_ticket: AtomicU64,
}

impl Live {
    /// Connects and starts the program at the other end.
    ///
    /// # Errors
    /// `acc_error_device_unavailable` with the reason.
    pub(super) fn connect(spec: Arc<LinkSpec>, exchange: Arc<Exchange>) -> Result<Arc<Self>> {
        let lane = |lane, index| {
            let hello = Hello::new(lane, spec.session, index, FROM_PROGRAM);
            handshake::connect_to(&spec.address, &hello, &spec.key, CONNECT_TIMEOUT).map(Arc::new)
        };
        let command = lane(Lane::Command, 0)?;
        let bulk_lanes = (0..BULK_LANES).map(|index| lane(Lane::Bulk, index)).collect::<Result<Vec<_>>>()?;
        let stats = Arc::<LinkStats>::default();
        let mut live = Self {
            lane: command,
            bulk_lanes,
            core: Mutex::default(),
            sender: Sender::default(),
            receiver: Receiver::default(),
            reader: Mutex::default(),
            bulk: Bulk::default(),
            landings: Arc::default(),
            inbox: Inbox::new(stats.clone(), false),
            outbox: Outbox::new(stats.clone()),
            exchange,
            interest: Arc::default(),
            stats,
            clock_offset: 0,
            next_ticket: AtomicU64::new(1),
            spec,
        };
        live.start()?;
        let live = Arc::new(live);
        for lane in &live.bulk_lanes {
            live.outbox.add(lane.clone());
            let lane = lane.clone();
            live.spawn("accord-bulk", move |live| {
                let why = match live.inbox.serve(&lane) {
                    Ok(()) => "the executor closed the connection".to_owned(),
                    Err(error) => error.cause().to_owned(),
                };
                live.lose(&why);
            });
        }
        live.spawn("accord-link", |live| live.send_and_look());
        let voice = Arc::new(ToExecutor(Arc::downgrade(&live)));
        live.exchange.arrived(live.spec.node.0, voice, live.inbox.clone());
        Ok(live)
    }

    /// Tells the executor what program it works for, and learns its clock.
    fn start(&mut self) -> Result<()> {
        let program = &self.spec.program;
        let payload = program_that_fits(program);
        let (trace, emulate_nvidia, uid) = (self.spec.trace.is_some(), program.emulate_nvidia, program.uid);
        self.ask(|ticket| Command::Start { ticket, trace, emulate_nvidia, uid }, &[&payload])?;
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
                self.clock_offset = here.wrapping_sub(there).cast_signed();
            }
        }
        Ok(())
    }

    /// Starts a thread of the link; without it the link is lost.
    pub(super) fn spawn(self: &Arc<Self>, name: &str, work: impl FnOnce(Arc<Self>) + Send + 'static) {
        let live = self.clone();
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(live));
        if let Err(error) = started {
            self.lose(&format!("no thread could be started: {error}"));
        }
    }

    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The core, when more commands may be sent; waits until then.
    ///
    /// # Errors
    /// When the link is lost.
    pub(super) fn core_with_credit(&self) -> Result<MutexGuard<'_, Core>> {
        loop {
            let core = self.core();
            core.check()?;
            if core.has_credit() {
                return Ok(core);
            }
            drop(core);
            self.wait_for_credit()?;
        }
    }

    /// Puts an operation into a queue.
    ///
    /// # Errors
    /// When the queue, device or link has failed.
    pub(super) fn operate(
        &self,
        device: u32,
        queue: QueueId,
        noise: Noise,
        command: &Command,
        payload: &[&[u8]],
    ) -> Result<()> {
        let mut core = self.core_with_credit()?;
        core.device(device)?.queue(queue)?.count(noise);
        core.put(command, payload)?;
        self.send(core, queue)
    }

    /// An operation of `queue` was appended last: has it sent.
    ///
    /// # Errors
    /// When the link is lost.
    pub(super) fn send(&self, core: MutexGuard<'_, Core>, queue: QueueId) -> Result<()> {
        if queue == QueueId::SYNC { self.send_with_wait(core) } else { self.send_soon(core) }
    }

    /// Sends a command with a ticket, and waits for its reply.
    ///
    /// # Errors
    /// The reply's, or the link's.
    pub(super) fn ask(&self, command: impl FnOnce(u64) -> Command, payload: &[&[u8]]) -> Result<Reply> {
        let ticket = self.ticket();
        let id = self.receiver.register(Want::Reply(ticket));
        let put = self.core().put(&command(ticket), payload);
        if let Err(error) = put {
            self.receiver.unregister(id);
            return Err(error);
        }
        self.wait_for_reply(id).map_err(|error| self.place(error))
    }

    /// Sends a command that nobody waits for, at once.
    pub(super) fn tell(&self, command: &Command, payload: &[&[u8]]) {
        // If the link is lost, whoever needs it learns so.
        if self.core().put(command, payload).is_ok() {
            let _ = self.flush();
        }
    }

    pub(super) fn ticket(&self) -> u64 {
        self.next_ticket.fetch_add(1, Ordering::Relaxed)
    }

    /// A queue, or with none all of a device, has failed.
    pub(super) fn failed(&self, device: u32, queue: Option<QueueId>, error: &Error) {
        let error = self.place(error.clone());
        let landings = self.core().fail(Some(device), queue, &error);
        self.landings.cancel(&landings, &self.inbox);
        self.cancel_transfers(device, queue, &error);
    }

    /// The link is gone. Everything that uses it fails, now and later. Returns the error, or that of
    /// the first time.
    pub(super) fn lose(&self, why: &str) -> Error {
        let spec = &self.spec;
        let error = unavailable(format!("the link to the executor at {} is lost: {why}", spec.address))
            .remedy("see the messages of the node's agent")
            .node(&spec.node_name);
        self.end(error)
    }

    /// Closes the link in an orderly way.
    pub(super) fn close(&self) {
        let _ = self.flush();
        self.end(Error::new(ErrorCode::DeviceShutdown, "the session is over").node(&self.spec.node_name));
    }

    fn end(&self, error: Error) -> Error {
        let mut core = self.core();
        if let Some(first) = &core.lost {
            return first.clone();
        }
        core.lost = Some(error.clone());
        drop(core);
        for lane in self.bulk_lanes.iter().chain([&self.lane]) {
            let _ = lane.shutdown(Shutdown::Both);
        }
        self.receiver.lose(&error);
        self.outbox.close(&error);
        self.inbox.close();
        self.landings.lose(&error);
        self.bulk.lose(&error);
        self.exchange.push_lost(self.spec.node.0, &error);
        self.exchange.party_lost(self.spec.node.0);
        self.interest.close();
        self.wake_sender();
        error
    }

    pub(super) fn place(&self, error: Error) -> Error {
        error.node(&self.spec.node_name)
    }
}

impl Core {
    pub(super) fn has_credit(&self) -> bool {
        self.in_flight < CREDIT_WINDOW
    }

    pub(super) fn give_credit(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }
}

/// The program as a payload; the longest variables of an immense environment are left out.
fn program_that_fits(program: &ProgramSpec) -> Vec<u8> {
    let mut program = program.clone();
    let mut payload = Vec::new();
    loop {
        payload.clear();
        wire::encode_program(&mut payload, &program);
        let longest = (0..program.env.len()).max_by_key(|&i| program.env[i].len());
        match longest {
            Some(longest) if payload.len() > PAYLOAD_MAX => drop(program.env.swap_remove(longest)),
            _ => return payload,
        }
    }
}

/// Talks to an executor where it is the pusher of a copy.
struct ToExecutor(std::sync::Weak<Live>);

impl ToExecutor {
    fn tell(&self, command: &Command, text: &[u8]) {
        if let Some(live) = self.0.upgrade() {
            live.tell(command, &[text]);
        }
    }
}

impl Voice for ToExecutor {
    fn ready(&self, transfer: TransferId) {
        self.tell(&Command::Ready { transfer: transfer.0 }, &[]);
    }

    fn landed(&self, transfer: TransferId) {
        self.tell(&Command::Landed { transfer: transfer.0 }, &[]);
    }

    fn refused(&self, transfer: TransferId, error: &Error) {
        let mut text = Vec::new();
        let failure = wire::encode_error(error, &mut text);
        self.tell(&Command::Refused { transfer: transfer.0, failure }, &text);
    }
}

/// Counts what is under way that no thread of the program waits for, but whose events must be
/// handled as they come.
#[derive(Default)]
pub(super) struct Interest {
    /// May be below 0 for a moment: what is under way can end before its beginning is counted.
    count: Mutex<isize>,
    changed: Condvar,
    closed: AtomicBool,
    started: AtomicBool,
}

impl Interest {
    pub(super) fn add(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_one();
    }

    pub(super) fn remove(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }

    pub(super) fn any(&self) -> bool {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) > 0
    }

    /// Sleeps until there is some. False once the link is gone.
    pub(super) fn wait(&self) -> bool {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count <= 0 && !self.closed.load(Ordering::Acquire) {
            count = self.changed.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
        !self.closed.load(Ordering::Acquire)
    }

    fn close(&self) {
        let _count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// True the first time.
    pub(super) fn start(&self) -> bool {
        !self.started.swap(true, Ordering::AcqRel)
    }
}

/// Keeps a link's events being handled, for as long as it lives.
pub(crate) struct Interested(Arc<Interest>);

impl Interested {
    pub(crate) fn new(live: &Arc<Live>) -> Self {
        live.be_interested();
        Self(live.interest.clone())
    }
}

impl Drop for Interested {
    fn drop(&mut self) {
        self.0.remove();
    }
}

impl Live {
    /// Something is under way that nobody waits for.
    pub(super) fn be_interested(self: &Arc<Self>) {
        self.interest.add();
        if self.interest.start() {
            self.spawn("accord-watch", |live| live.watch());
        }
    }
}
