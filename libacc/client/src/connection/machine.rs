//! The connection as a whole: decisions that involve several parts.

mod in_hand;
mod positions;

pub use positions::PositionQueries;

use super::completion_actions::{Completion, CompletionActions, StoreDecision};
use super::credit::{GrantedCredit, Need};
use super::effects::{CopyLine, Effect, Effects};
use super::flush_policy::{Flush, FlusherStep, UnsentFrames};
use super::peer_lanes::PeerLanes;
use super::queries_ahead::QueriesAhead;
use super::queues::{DeviceState, Devices, MayStall};
use super::transfers::{Bytes, Job, TRANSFERS_MAX, Transfers};
use super::waits::{AwaitedEvent, Reader, Reply, WaitId, WaitStep, Waits};
use super::watch::{Watch, WatchState, WatchStep};
use accord_fabric::frame::{self, Command, EXCHANGE_WINDOW, Event, Position, operation_cost};
use accord_fabric::peer::PeerId;
use accord_types::{DevicePtr, Error, HostRange, QueueId, Result, Seq, TransferId};
use smallvec::SmallVec;
use std::time::Duration;

/// Size of the buffer from which on the appending thread sends the frames itself.
const FULL: usize = 256 << 10;
/// Means "all devices" or "all queues" in [`Event::Failed`].
const ALL: u32 = u32::MAX;

/// Number of positions that need no heap allocation.
const POSITIONS_FEW: usize = 4;
/// Positions of queues.
pub type Positions = SmallVec<[Position; POSITIONS_FEW]>;

/// Whether a command may be appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendDecision {
    /// The command may be appended.
    Left,
    /// Ask again after this event.
    After(AwaitedEvent),
}

/// A copy in that does not fit in a command.
#[derive(Clone, Copy, Debug)]
pub struct CopyIn {
    /// The device.
    pub device: u32,
    /// The queue that orders it.
    pub queue: QueueId,
    /// The target on the device.
    pub dst: DevicePtr,
    /// The source in the program's memory.
    pub src: HostRange,
    /// Whether the program's memory is read before the call returns, rather than in the queue's order.
    pub now: bool,
    /// Its number.
    pub transfer: TransferId,
    /// Number of the device's streams for queues.
    pub streams: usize,
}

/// The way of a copy in's bytes, whose command is appended. [`Machine::queue_copy`] follows under the same lock, unless
/// the calling thread sends the bytes.
#[derive(Debug)]
pub struct CopyInPlan {
    /// Whether the bytes are sent unrequested.
    pub eager: bool,
    /// Whether the calling thread may send them, if a lane for eager copies is free.
    pub direct: bool,
    after: Vec<TransferId>,
    device: u32,
    queue: QueueId,
    transfer: TransferId,
}

/// A copy to the program's memory.
pub struct CopyOut {
    /// The device.
    pub device: u32,
    /// The queue that orders it.
    pub queue: QueueId,
    /// The source on the device.
    pub src: DevicePtr,
    /// Number of bytes.
    pub len: u64,
    /// All program memory that it may write.
    pub dst: HostRange,
    /// Its number.
    pub transfer: TransferId,
    /// The use of the bytes.
    pub completion: Completion,
}

/// The copy that a [`accord_fabric::ControlMessage::Ready`] requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requested {
    /// A copy in of this connection, which is being sent.
    CopyIn,
    /// An unknown transfer.
    Unknown,
}

/// The program's side of a connection. `W` identifies a thread to wake. The origin of times is arbitrary.
pub struct Machine<W> {
    unsent: UnsentFrames,
    credit: GrantedCredit,
    devices: Devices,
    /// The lanes to the executors that this one pushes to.
    peer_lanes: PeerLanes,
    copies_out: CompletionActions,
    copies_in: Transfers,
    waits: Waits<W>,
    ahead: QueriesAhead,
    watch: Watch,
    lost: Option<Error>,
    effects: Effects<W>,
    next_ticket: u64,
}

impl<W> Default for Machine<W> {
    fn default() -> Self {
        Self::new(EXCHANGE_WINDOW)
    }
}

impl<W> Machine<W> {
    /// Creates a machine whose executor accepts this many pushes, and as many expected copies, at a time:
    /// [`EXCHANGE_WINDOW`], except in simulations.
    pub fn new(exchange_window: u32) -> Self {
        Self {
            unsent: UnsentFrames::default(),
            credit: GrantedCredit::new(exchange_window),
            devices: Devices::default(),
            peer_lanes: PeerLanes::default(),
            copies_out: CompletionActions::default(),
            copies_in: Transfers::default(),
            waits: Waits::default(),
            ahead: QueriesAhead::default(),
            watch: Watch::default(),
            lost: None,
            effects: Effects::new(),
            next_ticket: 0,
        }
    }
}

impl<W: Clone> Machine<W> {
    /// Whether there are effects; usually there are none.
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Takes the effects since the last call. Called after every other call; the caller acts on them without the
    /// machine's lock.
    pub fn take_effects(&mut self) -> Effects<W> {
        std::mem::take(&mut self.effects)
    }

    /// Checks that the connection is not lost.
    ///
    /// # Errors
    /// Returns the reason for the loss.
    pub fn check(&self) -> Result<()> {
        self.lost.clone().map_or(Ok(()), Err)
    }

    /// Returns whether a command, with its copy, may be appended.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub fn space(&mut self, need: Need) -> Result<AppendDecision> {
        self.check()?;
        let fits = match need {
            // An unusable device is an error of the operation itself.
            Need::Operation(device, queue) | Need::Push(device, queue) => {
                self.devices.get(device).map_or(true, |device| device.has_space(queue))
                    && self.credit.exchanged.is_left(need)
            }
            Need::Expect => self.credit.exchanged.is_left(need),
            Need::Command => true,
        };
        Ok(match () {
            () if !self.credit.commands.is_left() || !fits => AppendDecision::After(AwaitedEvent::Credit),
            () if self.transfers() >= TRANSFERS_MAX || self.copies_out.must_wait() => {
                AppendDecision::After(AwaitedEvent::Room)
            }
            () => AppendDecision::Left,
        })
    }

    /// Whether the executor may have work that is not known to be complete.
    pub fn has_work(&self) -> bool {
        self.transfers() > 0 || self.devices.have_work()
    }

    /// Number of copies in flight between the program's memory and devices.
    pub fn transfers(&self) -> usize {
        self.copies_out.len() + self.copies_in.len()
    }

    /// Number of command bytes without returned credit, and of unsent ones.
    pub fn command_bytes(&self) -> (u64, usize) {
        (self.credit.commands.in_flight(), self.unsent.frames.len())
    }

    /// Number of bytes of incomplete operations in the device's fullest stream.
    pub fn open_bytes(&mut self, device: u32) -> u64 {
        self.devices.get(device).map_or(0, |device| device.most_open())
    }

    /// Number of pushes and of expected copies that the executor has not reported as complete.
    pub fn exchanged(&self) -> (u32, u32) {
        self.credit.exchanged.open()
    }

    /// Records that a device was started, with this many streams for queues.
    pub fn open(&mut self, device: u32, streams: u32) {
        self.devices.open(device, streams);
    }

    /// Records that a device is shut down, and cancels its queues and their copies. [`Machine::wait_for_memory`]
    /// follows.
    pub fn close(&mut self, device: u32, over: &Error) {
        let copies = self.devices.close(device);
        self.ahead.close(device);
        self.waits.complete_all(AwaitedEvent::Credit, &mut self.effects);
        self.cancel(&copies, device, None, over);
    }

    /// Returns a started device.
    ///
    /// # Errors
    /// Returns an error if the connection or the device has failed, or the device is not started.
    pub fn device(&mut self, device: u32) -> Result<&mut DeviceState> {
        self.check()?;
        self.devices.get(device)
    }

    /// Returns the position of the last operation of a queue.
    ///
    /// # Errors
    /// Returns an error if the connection, the device or the queue has failed.
    pub fn last(&mut self, device: u32, queue: QueueId) -> Result<Seq> {
        Ok(Seq(self.device(device)?.known(queue)?.map_or(0, |known| known.last)))
    }

    /// Returns the identity of another executor together with the lane for pushes to it, see [`PeerId::on_lane`].
    pub fn on_lane_to(&mut self, peer: PeerId) -> PeerId {
        self.peer_lanes.to(peer)
    }

    /// Whether an operation of a queue may be incomplete.
    pub fn is_under_way(&self, device: u32, queue: QueueId, seq: Seq) -> bool {
        self.lost.is_none() && self.devices.is_under_way(device, queue, seq.0)
    }

    /// Appends a command.
    ///
    /// # Errors
    /// Returns an error if its payload is too long.
    pub fn put(&mut self, command: &Command, payload: &[&[u8]], now: Duration) -> Result<()> {
        self.unsent.flush.append(now);
        let length = frame::put(&mut self.unsent.frames, command, payload)?;
        self.credit.commands.use_up(length as u64);
        self.credit.exchanged.use_up(command);
        if let Some((device, queue)) = command.operation()
            && let Ok(device) = self.devices.get(device)
        {
            device.charge(QueueId(queue), operation_cost(length));
        }
        Ok(())
    }

    /// Appends an operation to a queue. [`Machine::flush_after`] follows.
    ///
    /// # Errors
    /// Returns an error if the connection, the device or the queue has failed.
    pub fn operate(
        &mut self,
        (device, queue): (u32, QueueId),
        stall: MayStall,
        command: &Command,
        payload: &[&[u8]],
        now: Duration,
    ) -> Result<()> {
        self.device(device)?.queue(queue)?.count(stall);
        self.put(command, payload, now)
    }

    /// Appends a push whose target already expects it. The executor gets it in any case: if the queue has failed
    /// meanwhile, it informs the target. [`Machine::flush_after`] follows, also after an error.
    ///
    /// # Errors
    /// Returns the errors of [`Machine::operate`].
    pub fn push(
        &mut self,
        (device, queue): (u32, QueueId),
        command: &Command,
        payload: &[&[u8]],
        now: Duration,
    ) -> Result<()> {
        self.check()?;
        let counted =
            self.devices.get(device).and_then(|device| device.queue(queue)).map(|queue| queue.count(MayStall::Yes));
        self.put(command, payload, now)?;
        counted.map(drop)
    }

    /// Decides which thread sends the frames appended last, an operation of `queue`.
    pub fn flush_after(&mut self, queue: QueueId) -> Flush {
        if queue == QueueId::SYNC { self.flush_with_wait() } else { self.flush_soon() }
    }

    /// Decides which thread sends the frames appended last, without a wait for them.
    pub fn flush_soon(&mut self) -> Flush {
        if self.unsent.frames.len() >= FULL { Flush::Now } else { self.unsent.flush.soon() }
    }

    /// Decides how the last appended frame is sent. Most likely a wait follows soon and sends it; the watcher or the
    /// flusher sends it otherwise.
    pub fn flush_with_wait(&mut self) -> Flush {
        if self.unsent.frames.len() >= FULL {
            Flush::Now
        } else if self.watch.is_looking() || self.unsent.flush.is_awake() {
            Flush::Later
        } else {
            self.unsent.flush.wake()
        }
    }

    /// Decides which thread sends the frames appended last, for a thread that waits for another peer: it must not wait
    /// for this one.
    pub fn flush_elsewhere(&mut self) -> Flush {
        self.unsent.flush.wake()
    }

    /// Moves all appended frames to `buffer`, whose space is reused. Returns `false` if there are none.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub fn take_frames(&mut self, buffer: &mut Vec<u8>) -> Result<bool> {
        self.check()?;
        self.unsent.flush.sent();
        if self.unsent.frames.is_empty() {
            return Ok(false);
        }
        std::mem::swap(buffer, &mut self.unsent.frames);
        Ok(true)
    }

    /// Records that a thread which must not block could not send all frames: the flusher sends the rest.
    pub fn leave_to_flusher(&mut self, now: Duration) {
        if self.unsent.flush.leave(now) == Flush::WakeFlusher {
            self.effects.push(Effect::WakeFlusher);
        }
    }

    /// Returns the flusher's next step, for the thread that was woken or started for [`Flush::WakeFlusher`].
    pub fn flusher(&mut self, now: Duration) -> FlusherStep {
        if self.lost.is_some() { FlusherStep::End } else { self.unsent.flush.flusher(now) }
    }

    /// Returns the watcher's next step.
    pub fn watcher(&mut self) -> WatchStep {
        if self.lost.is_some() {
            return WatchStep::End;
        }
        let urgent = self.is_urgent();
        let situation = WatchState {
            activity: self.unsent.flush.appended() + self.waits.registered(),
            wanted: self.waits.reader().is_some() || (self.waits.is_wanted() && !urgent),
            urgent,
        };
        let step = self.watch.step(situation);
        match step {
            WatchStep::Read => {
                self.waits.try_read(urgent);
            }
            // The watcher sends nothing itself. If it waited for an executor that does not read, no thread would read
            // the events that the executor waits to send.
            _ if !self.unsent.frames.is_empty() && self.unsent.flush.wake() == Flush::WakeFlusher => {
                self.effects.push(Effect::WakeFlusher);
            }
            _ => {}
        }
        step
    }

    /// Makes the watcher the reader if no waiter is the reader or wants to be. [`Machine::hand_over`] follows.
    pub fn try_read(&mut self) -> bool {
        self.waits.try_read(false)
    }

    /// Makes the watcher the reader as [`Machine::try_read`], also if a waiter wants to read: the thread that finds a
    /// lane lost may be that waiter.
    pub fn try_read_the_last(&mut self) -> bool {
        self.waits.try_read(true)
    }

    /// Whether progress depends on events that no thread may be reading.
    fn is_urgent(&self) -> bool {
        self.copies_out.is_holding() || self.waits.is_space_wanted()
    }

    fn rouse_watcher(&mut self) {
        if self.watch.rouse(self.is_urgent() && self.waits.reader().is_none()) {
            self.effects.push(Effect::WakeWatcher);
        }
    }

    // Waits.

    /// Returns a new ticket for a command with a reply.
    pub fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Registers a wait. Call this before the awaited event can arrive; [`Machine::turn`] follows.
    pub fn wait(&mut self, want: AwaitedEvent, waker: W) -> WaitId {
        let id = self.waits.register(want, waker);
        if want == AwaitedEvent::Room {
            self.rouse_watcher();
        }
        id
    }

    /// Returns a waiter's next step.
    pub fn turn(&mut self, id: WaitId) -> WaitStep {
        self.waits.turn(id)
    }

    /// Whether a waiter's event has arrived.
    pub fn is_done(&self, id: WaitId) -> bool {
        self.waits.is_done(id)
    }

    /// Removes a waiter.
    pub fn give_up(&mut self, id: WaitId) {
        self.waits.unregister(id, &mut self.effects);
    }

    /// Ends the reading of the calling reader.
    pub fn hand_over(&mut self) {
        let waiter = matches!(self.waits.reader(), Some(Reader::Waiter(_)));
        self.waits.hand_over(&mut self.effects);
        if waiter {
            self.rouse_watcher();
        }
    }

    /// Appends a command with a reply, and registers a wait for the reply with `waker`.
    ///
    /// # Errors
    /// Returns an error if its payload is too long.
    pub fn ask(
        &mut self,
        command: impl FnOnce(u64) -> Command,
        payload: &[&[u8]],
        waker: W,
        now: Duration,
    ) -> Result<WaitId> {
        let ticket = self.ticket();
        self.put(&command(ticket), payload, now)?;
        Ok(self.wait(AwaitedEvent::Reply(ticket), waker))
    }

    /// Makes a queue wait for another queue's operations; does nothing if these are known to be complete.
    /// [`Machine::flush_after`] follows.
    ///
    /// # Errors
    /// Returns an error if the connection, the device or a queue has failed.
    pub fn wait_queue(&mut self, device: u32, queue: QueueId, other: QueueId, now: Duration) -> Result<bool> {
        self.check()?;
        let state = self.devices.get(device)?;
        let before = state.queue(other)?;
        if before.drained() {
            return Ok(false);
        }
        let (seq, copies) = (before.last, std::mem::take(&mut before.copies));
        let counted = state.queue(queue).map(|waiting| {
            let at = waiting.count(MayStall::Yes);
            waiting.copies.follow(at, &copies, |transfer| self.copies_out.is_open(transfer));
        });
        // Restored whatever the outcome.
        if let Ok(other) = state.queue(other) {
            other.copies = copies;
        }
        counted?;
        self.put(&Command::WaitQueue { device, queue: queue.0, other: other.0, seq }, &[], now)?;
        Ok(true)
    }

    // Copies out.

    /// Requests the bytes of a copy out. [`Machine::flush_after`] follows.
    ///
    /// # Errors
    /// Returns an error if the connection, the device or the queue has failed.
    pub fn copy_out(&mut self, copy: CopyOut, now: Duration) -> Result<()> {
        self.check()?;
        let CopyOut { device, queue, src, len, dst, transfer, completion } = copy;
        let state = self.devices.get(device)?.queue(queue)?;
        // A copy that writes nothing does not replace earlier ones.
        let before: Vec<_> = match completion {
            Completion::Compare(_) => Vec::new(),
            Completion::Write | Completion::Changed(_) => state.copies.writing(dst).collect(),
        };
        let over = self.copies_out.expect(transfer, (device, queue), dst, completion, &before);
        state.copies.settle(&over);
        let at = state.count(MayStall::Yes);
        state.copies.push(at, transfer, dst, |transfer| self.copies_out.is_open(transfer));
        let command = Command::CopyOut { device, queue: queue.0, src: src.0, len, transfer: transfer.0 };
        self.put(&command, &[], now)
    }

    /// Decides on a copy out whose first bytes have arrived.
    pub fn begin(&mut self, transfer: TransferId) -> StoreDecision {
        self.copies_out.begin(transfer)
    }

    /// Records the completion of a copy that had begun: its bytes are stored, or could not be.
    pub fn landed(&mut self, transfer: TransferId, outcome: Result<()>) {
        let due = self.copies_out.landed(transfer, outcome, &mut self.waits, &mut self.effects);
        self.send_asked(due);
    }

    /// Records that the lane of a copy that had begun has failed: its bytes may be incomplete.
    pub fn broke(&mut self, transfer: TransferId, error: Error) {
        self.copies_out.broke(error);
        self.landed(transfer, Ok(()));
    }

    /// Whether a copy out has neither completed nor been cancelled.
    pub fn is_open(&self, transfer: TransferId) -> bool {
        self.copies_out.is_open(transfer)
    }

    /// Returns the outcome of awaited copies out.
    ///
    /// # Errors
    /// Returns an error if their bytes may not be stored.
    pub fn outcome(&mut self, transfers: &[TransferId]) -> Result<()> {
        self.copies_out.outcome(transfers)
    }

    /// Whether earlier copies of the queue will still write to a range of the program's memory.
    ///
    /// # Errors
    /// Returns an error if the connection, the device or the queue has failed.
    pub fn is_being_written(&mut self, device: u32, queue: QueueId, range: HostRange) -> Result<bool> {
        self.check()?;
        let open = |transfer| self.copies_out.is_open(transfer);
        Ok(self.devices.get(device)?.queue(queue)?.copies.any_writing(range, open))
    }

    // Copies in.

    /// Whether the calling thread may send a copy in that is read now, if a lane is free.
    ///
    /// # Errors
    /// Returns an error if the connection, the device or the queue has failed.
    pub fn is_direct(&mut self, copy: &CopyIn) -> Result<bool> {
        let quiet = self.device(copy.device)?.quiet(copy.queue, copy.streams)?;
        Ok(quiet && self.copies_in.is_line_empty())
    }

    /// Appends the command of a copy in.
    ///
    /// # Errors
    /// Returns an error if the connection, the device or the queue has failed.
    pub fn copy_in(&mut self, copy: &CopyIn, now: Duration) -> Result<CopyInPlan> {
        self.check()?;
        let &CopyIn { device, queue, dst, src, transfer, streams, .. } = copy;
        let state = self.devices.get(device)?;
        let quiet = state.quiet(queue, streams)?;
        let state = state.queue(queue)?;
        let after: Vec<_> = if copy.now { Vec::new() } else { state.copies.before_reading(src).collect() };
        let open = |transfer| self.copies_out.is_open(transfer);
        let eager = quiet && (copy.now || !state.copies.any_writing(src, open));
        state.count(if eager { MayStall::No } else { MayStall::Yes });
        // The executor's queue stops here until they have completed, so its later writes follow them.
        state.copies.settle(&after);
        let len = src.len as u64;
        let command = Command::CopyIn { device, queue: queue.0, dst: dst.0, len, transfer: transfer.0, eager };
        self.put(&command, &[], now)?;
        let direct = eager && copy.now && self.copies_in.is_line_empty();
        Ok(CopyInPlan { eager, direct, after, device, queue, transfer })
    }

    /// Queues the bytes of a copy in. `waiter` waits with [`AwaitedEvent::Sent`] until they were read.
    pub fn queue_copy(&mut self, plan: CopyInPlan, bytes: Bytes, waiter: Option<WaitId>) {
        let CopyInPlan { eager, after, device, queue, transfer, .. } = plan;
        let job = Job { transfer, place: (device, queue), bytes, after, waiter };
        if eager {
            self.copies_in.join(CopyLine::Eager, job, &mut self.effects);
        } else {
            self.copies_in.wait_for_request(job);
        }
    }

    /// Handles the executor's request for the bytes of a transfer.
    pub fn requested(&mut self, transfer: TransferId) -> Requested {
        let Some(mut job) = self.copies_in.requested(transfer) else { return Requested::Unknown };
        let after = std::mem::take(&mut job.after);
        // The transfer must not enter the line before these copies have completed, because they may depend on transfers
        // that would be behind it.
        match self.copies_out.hold(after, job) {
            Some(job) => self.send_asked(vec![job]),
            // The bytes that it waits for may arrive in events.
            None => self.rouse_watcher(),
        }
        Requested::CopyIn
    }

    fn send_asked(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            self.copies_in.join(CopyLine::Asked, job, &mut self.effects);
        }
    }

    /// Takes the next copy of a line for a thread of it, which acquires a lane, calls [`Machine::has_lane`], sends the
    /// bytes and calls [`Machine::sent`]. On `None` the thread sleeps until it is woken, or ends if the connection is
    /// lost.
    pub fn take_copy(&mut self, way: CopyLine) -> Option<Job> {
        self.copies_in.take(way)
    }

    /// Records that the last taken copy has its lane, or will never have one.
    pub fn has_lane(&mut self, way: CopyLine) {
        self.copies_in.has_lane(way, &mut self.effects);
    }

    /// Records that the bytes of a copy were sent.
    pub fn sent(&mut self, way: CopyLine, job: Job, outcome: Result<()>) {
        self.copies_in.ended(way, job.transfer);
        self.waits.complete_all(AwaitedEvent::LetGo(job.transfer), &mut self.effects);
        self.finish(job, outcome);
    }

    fn finish(&mut self, job: Job, outcome: Result<()>) {
        self.waits.complete_all(AwaitedEvent::Room, &mut self.effects);
        if job.waiter.is_some() {
            self.waits.received(
                AwaitedEvent::Sent(job.transfer),
                || outcome.map(|()| Reply::default()),
                &mut self.effects,
            );
        }
    }

    // Incoming events, and failures.

    /// Handles an event, except [`Event::Data`], [`Event::Output`], [`Event::Spans`] and [`Event::Ending`]. `place`
    /// adds the event's origin to an error.
    ///
    /// # Errors
    /// Returns an error if the event ends the connection.
    pub fn event(&mut self, event: Event, payload: &[u8], place: impl Fn(Error) -> Error) -> Result<()> {
        if self.answers_query_ahead(&event) {
            return Ok(());
        }
        let Self { waits, effects, .. } = self;
        match event {
            Event::Reply { ticket, value, extra } => {
                waits.replied(ticket, Ok(Reply { value, extra, payload: payload.to_vec() }), effects)?;
            }
            Event::ReplyFailed { ticket, failure } => {
                waits.replied(ticket, Err(place(frame::decode_error(failure, payload))), effects)?;
            }
            Event::Failed { device, queue, failure } => {
                let error = place(frame::decode_error(failure, payload));
                if device == ALL {
                    return Err(error);
                }
                self.fail(device, (queue != ALL).then_some(QueueId(queue)), &error);
            }
            Event::Credit { bytes } => {
                self.credit.commands.give_back(bytes);
                waits.complete_all(AwaitedEvent::Credit, effects);
            }
            Event::Exchanged { pushes, expects } => {
                self.credit.exchanged.give_back(pushes, expects);
                waits.complete_all(AwaitedEvent::Credit, effects);
            }
            Event::Done { device, queue, bytes } => {
                self.devices.done(device, QueueId(queue), bytes);
                waits.complete_all(AwaitedEvent::Credit, effects);
            }
            Event::PeerLost { peer } => self.peer_lanes.lost(peer),
            Event::Data { .. } | Event::Output { .. } | Event::Spans | Event::Ending => {}
        }
        Ok(())
    }

    /// Records that a queue, or with `None` a whole device, has failed.
    pub fn fail(&mut self, device: u32, queue: Option<QueueId>, error: &Error) {
        let copies = self.devices.fail(device, queue, error);
        // Waiters for credit of this queue get the error.
        self.waits.complete_all(AwaitedEvent::Credit, &mut self.effects);
        self.cancel(&copies, device, queue, error);
    }

    fn cancel(&mut self, copies: &[TransferId], device: u32, queue: Option<QueueId>, error: &Error) {
        let mut due = self.copies_out.cancel(copies, &mut self.waits, &mut self.effects);
        self.effects.extend(copies.iter().map(|&transfer| Effect::Discard(transfer)));
        due.extend(self.copies_out.release(device, queue));
        self.send_asked(due);
        for job in self.copies_in.cancel(device, queue) {
            self.finish(job, Err(error.clone()));
        }
    }

    /// Records that the connection is lost: all present and later uses fail. Returns `false` if it was lost before.
    pub fn lose(&mut self, error: &Error) -> bool {
        if self.lost.is_some() {
            return false;
        }
        self.lost = Some(error.clone());
        self.waits.lose(error, &mut self.effects);
        let held = self.copies_out.lose(error, &mut self.waits, &mut self.effects);
        for job in held.collect::<Vec<_>>().into_iter().chain(self.copies_in.lose()) {
            self.finish(job, Err(error.clone()));
        }
        self.effects.push(Effect::WakeWatcher);
        true
    }

    /// Number of waiters.
    pub fn waiters(&self) -> usize {
        self.waits.len()
    }
}

#[cfg(test)]
mod tests;
