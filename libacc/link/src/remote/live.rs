//! A connected link: its lanes, its threads, and how it ends.

use super::bulk::Bulk;
use super::core::{Core, Noise};
use super::events::Reading;
use super::events::unavailable;
use super::images::Sent;
use super::landings::Landings;
use super::link::LinkSpec;
use super::receiver::{Receiver, Reply, Want};
use super::sender::Sender;
use accord_fabric::ProgramSpec;
use accord_fabric::bulk::{Inbox, Outbox};
use accord_fabric::clock;
use accord_fabric::exchange::Exchange;
use accord_fabric::frame::PAYLOAD_MAX;
use accord_fabric::handshake::{self, FROM_PROGRAM, Hello, Lane};
use accord_fabric::stats::LinkStats;
use accord_fabric::wire::{self, CREDIT_WINDOW, Command, Party};
use accord_fabric::words::{self, Speaker, Word};
use accord_types::{Error, ErrorCode, QueueId, Result};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The same for an executor that takes another one's place, whose end the agent waits for.
const REPLACE_TIMEOUT: Duration = Duration::from_secs(10);
/// Lanes for the bytes of transfers: for eager copies in, and for what is asked for. Copies out take any.
const EAGER_LANES: usize = 2;
const ASKED_LANES: usize = 2;
/// Samples of the node's clock: the quickest answer tells best.
const CLOCK_SAMPLES: u32 = 8;

/// A connected link.
pub(crate) struct Live {
    pub(crate) spec: Arc<LinkSpec>,
    /// The executor, among all that this session has and has had.
    pub(crate) party: Party,
    pub(super) lane: Arc<TcpStream>,
    bulk_lanes: Vec<Arc<TcpStream>>,
    words: Arc<TcpStream>,
    core: Mutex<Core>,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// Taken with the reading side.
    pub(super) reader: Mutex<Reading>,
    pub(super) bulk: Bulk,
    pub(super) sent: Sent,
    pub(super) landings: Arc<Landings>,
    pub(super) inbox: Arc<Inbox>,
    /// Lanes for eager copies in: their bytes may stand there before anybody takes them.
    pub(super) eager_outbox: Arc<Outbox>,
    /// Lanes for what the other side has asked for.
    pub(crate) outbox: Arc<Outbox>,
    pub(super) exchange: Arc<Exchange>,
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
    pub(super) fn connect(spec: Arc<LinkSpec>, party: Party, exchange: Arc<Exchange>) -> Result<Arc<Self>> {
        let lane = |lane, index| {
            let hello = Hello::new(lane, spec.session, index, FROM_PROGRAM);
            let replaces = lane == Lane::Command && index > 0;
            let timeout = if replaces { REPLACE_TIMEOUT } else { CONNECT_TIMEOUT };
            handshake::connect_to(&spec.address, &hello, &spec.key, timeout).map(Arc::new)
        };
        // First of all: the agent starts an executor for it, and tells it which one it is.
        let command = lane(Lane::Command, wire::incarnation(party))?;
        let bulk_lanes = (0..).take(EAGER_LANES + ASKED_LANES);
        let bulk_lanes = bulk_lanes.map(|index| lane(Lane::Bulk, index)).collect::<Result<Vec<_>>>()?;
        let words = lane(Lane::Words, 0)?;
        let stats = Arc::<LinkStats>::default();
        let mut live = Self {
            lane: command,
            bulk_lanes,
            words,
            core: Mutex::default(),
            sender: Sender::default(),
            receiver: Receiver::default(),
            reader: Mutex::new(Reading::new()),
            bulk: Bulk::new(EAGER_LANES, ASKED_LANES),
            sent: Sent::default(),
            landings: Arc::default(),
            inbox: Inbox::new(stats.clone(), false),
            eager_outbox: Outbox::new(stats.clone()),
            outbox: Outbox::new(stats.clone()),
            exchange,
            stats,
            clock_offset: 0,
            next_ticket: AtomicU64::new(1),
            party,
            spec,
        };
        live.start()?;
        live.spec.meet(live.party);
        let live = Arc::new(live);
        for (index, lane) in live.bulk_lanes.iter().enumerate() {
            let outbox = if index < EAGER_LANES { &live.eager_outbox } else { &live.outbox };
            outbox.add(lane.clone());
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
        let words = live.words.clone();
        live.spawn("accord-words", move |live| {
            let why = match live.hear(&words) {
                Ok(()) => "the executor closed the connection".to_owned(),
                Err(error) => error.cause().to_owned(),
            };
            live.lose(&why);
        });
        let speaker = Speaker::new("", live.stats.clone());
        speaker.connect(live.words.clone());
        live.exchange.arrived(live.party, speaker, live.inbox.clone());
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

    /// Hears what the executor says of transfers that are to go there.
    fn hear(self: &Arc<Self>, lane: &TcpStream) -> Result<()> {
        words::hear(lane, &self.stats, |word| match word {
            Word::Ready(transfer, place) => self.ready(transfer, place),
            Word::Landed(transfer) => self.exchange.on_landed(transfer),
            Word::Refused(transfer, error) => self.exchange.on_refused(transfer, error),
        })
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
            .remedy("see the messages of the node's agent; acc_shutdown of the node's devices lets them start again")
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
        for lane in self.bulk_lanes.iter().chain([&self.words, &self.lane]) {
            let _ = lane.shutdown(Shutdown::Both);
        }
        self.receiver.lose(&error);
        self.eager_outbox.close(&error);
        self.outbox.close(&error);
        self.inbox.close();
        self.landings.lose(&error);
        self.bulk.lose(&error);
        self.exchange.push_lost(self.party, &error);
        self.exchange.party_lost(self.party);
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
