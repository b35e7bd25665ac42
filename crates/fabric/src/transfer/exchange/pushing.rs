//! The pusher's side of a copy.

use super::Exchange;
use crate::copy_way::CopyWay;
use crate::peer::PeerId;
use crate::transfer::control::RoomWord;
use crate::transfer::outbox::{Outbox, Outgoing, PushingStream, Sent};
use crate::transfer::rendezvous::PushStep;
use crate::transport::PostedSend;
use accord_types::signal::Signal;
use accord_types::{Error, ErrorCode, NativeRange, Result, TransferId};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time after which a target's silence counts as a stall, and its liveness is checked.
const SOON: Duration = Duration::from_millis(100);

/// A push in flight. It gets the bytes from the device, in its stream's order.
pub struct Pushing {
    exchange: Arc<Exchange>,
    outbox: Arc<Outbox>,
    transfer: TransferId,
    /// Raised when the push may continue.
    changed: Arc<Signal>,
    len: u64,
    /// The stream whose order the bytes keep.
    stream: Option<PushingStream>,
    state: PushState,
}

/// The way of a push's bytes, and its progress.
enum PushState {
    /// No way is chosen, and no byte was sent.
    Announced,
    /// The target has posted this receive, and no byte was sent.
    Posted(RoomWord),
    /// A part of the bytes was sent over this lane.
    OnLane(Outgoing),
    /// All bytes were sent over a lane that other transfers may use since. The stream's later bytes stay ordered after these.
    Sent { _order: Sent },
    /// All bytes are in flight to the posted receive since this time.
    InFlight(Box<dyn PostedSend>, Instant),
    /// No more bytes are sent, and the target will report the outcome.
    AwaitsOutcome,
    /// The caller writes the bytes into the target's memory, and they land at once.
    Direct,
    /// The bytes have landed in the posted receive, and the target sends no message about it.
    Landed,
    /// The push has its outcome.
    Over,
}

impl Exchange {
    /// Starts a push of `len` bytes, more than 0, over the lanes of `outbox`.
    ///
    /// # Errors
    /// Returns an error if the transfer is already pushed, too many are, or the exchange is closed.
    pub fn push(self: &Arc<Self>, transfer: TransferId, to: PeerId, len: u64, outbox: Arc<Outbox>) -> Result<Pushing> {
        let mut state = self.lock();
        state.core.push(transfer, to)?;
        let changed = Arc::<Signal>::default();
        state.pushing.insert(transfer, changed.clone());
        self.act(state, Some(&outbox));
        let (exchange, state) = (self.clone(), PushState::Announced);
        Ok(Pushing { exchange, outbox, transfer, changed, len, stream: None, state })
    }
}

impl Pushing {
    /// Assigns the push to a stream. Pushes of one stream may follow each other, see [`Pushing::follows`].
    #[must_use]
    pub fn of(mut self, stream: PushingStream) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Whether there is a lane to the target.
    pub fn is_connected(&self) -> bool {
        self.outbox.is_connected()
    }

    /// Opens the target's memory directly, if the target is on this host, has sent a handle, and `reach` can import it.
    /// The caller then writes the bytes there and calls [`Pushing::finish`], and no lane is used.
    ///
    /// # Errors
    /// Returns an error if the target refuses or is gone.
    pub fn reach<T>(&mut self, reach: impl FnOnce(&[u8]) -> Option<T>) -> Result<Option<T>> {
        let Some(handle) = self.handle()? else { return Ok(None) };
        let reached = reach(&handle);
        if reached.is_some() {
            self.state = PushState::Direct;
        }
        Ok(reached)
    }

    /// Blocks until the target is ready. Returns the handle of its memory, if it has sent one.
    fn handle(&mut self) -> Result<Option<Vec<u8>>> {
        self.wait(&PushStep::Send)?;
        Ok(self.exchange.lock().core.take_handle(self.transfer))
    }

    /// Sends the next bytes, the first ones once the target is ready.
    ///
    /// # Errors
    /// Returns an error if the target refuses or is gone.
    pub fn drain(&mut self, piece: &[u8]) -> Result<()> {
        self.outgoing()?.send(piece)?;
        self.give_lane_back();
        Ok(())
    }

    /// Whether the bytes may be sent before those of the stream's earlier pushes have landed: the target is ready, and all
    /// pushes use one lane, which keeps their order. Does not block.
    pub fn follows(&self) -> bool {
        self.stream.is_some() && self.exchange.lock().core.step(self.transfer) == PushStep::Send
    }

    /// Whether [`Pushing::drains_native`] may return `true`.
    pub fn may_drain_native(&self) -> bool {
        CopyWay::DeviceMpi.takes(self.len) && self.outbox.may_send_native()
    }

    /// Whether to use [`Pushing::drain_native`]. Called before any byte is sent; blocks until the target is ready if
    /// the answer may be `true`.
    ///
    /// # Errors
    /// Returns an error if the target refuses or is gone.
    pub fn drains_native(&mut self) -> Result<bool> {
        if !self.may_drain_native() {
            return Ok(false);
        }
        if matches!(self.state, PushState::Announced) {
            self.wait(&PushStep::Send)?;
            let room = self.exchange.lock().core.take_room(self.transfer);
            // A lane without such sends may have been added meanwhile: each end decides alone which memory MPI can address.
            if let Some(room) = room.filter(|_| self.outbox.sends_native()) {
                self.state = PushState::Posted(room);
            }
        }
        let is_posted = matches!(self.state, PushState::Posted(_));
        Ok(is_posted || CopyWay::DeviceMpi.takes_offered(self.len) && self.outgoing()?.sends_native())
    }

    /// Whether the bytes may be in flight together with those of other such pushes, in any order: the target has posted a
    /// receive for each, and none overlaps. Does not block.
    pub fn goes_beside(&self) -> bool {
        let is_beside = |room: RoomWord| !room.overlaps;
        match &self.state {
            PushState::Posted(room) => is_beside(*room),
            PushState::Announced if self.outbox.sends_native() => {
                self.exchange.lock().core.room(self.transfer).is_some_and(is_beside)
            }
            _ => false,
        }
    }

    /// Sends bytes as [`Pushing::drain`], from device memory, which stays unchanged until [`Pushing::await_native`] has
    /// returned.
    ///
    /// # Errors
    /// Returns the errors of [`Pushing::drain`].
    pub fn drain_native(&mut self, bytes: NativeRange) -> Result<()> {
        if let PushState::Posted(room) = self.state {
            // The receive accepts one message. If the message does not fit, the target ends the receive.
            if bytes.len as u64 == self.len {
                self.state = PushState::AwaitsOutcome;
                self.state = PushState::InFlight(self.outbox.send_posted(room.number, bytes)?, Instant::now());
                return Ok(());
            }
            self.state = PushState::Announced;
        }
        self.outgoing()?.send_native(bytes)?;
        self.give_lane_back();
        Ok(())
    }

    /// Blocks until the bytes of [`Pushing::drain_native`] are released.
    ///
    /// # Errors
    /// Returns an error if the bytes may not have been sent.
    pub fn await_native(&mut self) -> Result<()> {
        if let Some((bytes, begin)) = self.state.take_in_flight()
            && self.outbox.await_posted(bytes, self.len, begin)?
        {
            self.state = PushState::Landed;
        }
        Ok(())
    }

    /// Returns the push's lane once the target is ready.
    fn outgoing(&mut self) -> Result<&mut Outgoing> {
        if matches!(self.state, PushState::Announced | PushState::Posted(_)) {
            self.wait(&PushStep::Send)?;
            self.state = PushState::OnLane(self.outbox.begin_behind(self.transfer, self.len, self.stream)?);
        }
        match &mut self.state {
            PushState::OnLane(outgoing) => Ok(outgoing),
            _ => Err(Error::new(ErrorCode::ImplementationDefined, "a transfer sent too many bytes")),
        }
    }

    /// Releases the lane once all bytes were sent.
    fn give_lane_back(&mut self) {
        if let Some(outgoing) = self.state.take_complete() {
            self.state = PushState::Sent { _order: outgoing.sent(self.stream) };
        }
    }

    /// Blocks until all bytes, which the caller has sent, have landed.
    ///
    /// # Errors
    /// Returns an error if the target refuses or is gone.
    pub fn finish(&mut self) -> Result<()> {
        self.await_native()?;
        match self.state {
            PushState::Landed => {
                // The outcome stands even if the target was lost since.
                let _ = self.done();
                return Ok(());
            }
            PushState::Direct => return self.done(),
            // Dropping the lane notifies the target that no more bytes are sent.
            PushState::OnLane(_) => self.state = PushState::AwaitsOutcome,
            _ => {}
        }
        let outcome = self.wait(&PushStep::End(Ok(())));
        self.done().and(outcome)
    }

    fn done(&mut self) -> Result<()> {
        let mut state = self.exchange.lock();
        state.pushing.remove(&self.transfer);
        if matches!(self.state, PushState::Landed) {
            state.core.has_landed(self.transfer);
        }
        let outcome = state.core.push_done(self.transfer);
        self.exchange.act(state, Some(&self.outbox));
        self.state = PushState::Over;
        outcome
    }

    fn wait(&self, until: &PushStep) -> Result<()> {
        let start = Instant::now();
        let mut state = self.exchange.lock();
        let (mut stalled, mut looked) = (None, false);
        loop {
            match state.core.step(self.transfer) {
                PushStep::End(Err(error)) => return Err(error),
                step if step == *until => {
                    self.exchange.targets.waited(start);
                    return Ok(());
                }
                PushStep::End(Ok(())) => {
                    return Err(Error::new(ErrorCode::ImplementationDefined, "a copy has landed before it was sent"));
                }
                PushStep::Wait | PushStep::Send => {}
            }
            if !std::mem::replace(&mut looked, true) && self.exchange.targets.has_any() {
                let seen = self.changed.raised();
                drop(state);
                self.changed.look(seen, &self.exchange.targets);
                state = self.exchange.lock();
                continue;
            }
            let end = stalled.is_none().then(|| start + SOON);
            state = match self.changed.wait(state, end) {
                Ok(state) => state,
                // The lock is released, because an observer of stalls may take it.
                Err(_) => {
                    stalled = Some(self.outbox.stats.stalls.begin());
                    self.exchange.lock()
                }
            };
        }
    }
}

impl PushState {
    /// Returns the send in flight, if any. The push awaits the outcome from then on.
    fn take_in_flight(&mut self) -> Option<(Box<dyn PostedSend>, Instant)> {
        match std::mem::replace(self, Self::AwaitsOutcome) {
            Self::InFlight(bytes, begin) => Some((bytes, begin)),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Returns the lane if all bytes were sent over it. The push awaits the outcome from then on.
    fn take_complete(&mut self) -> Option<Outgoing> {
        match std::mem::replace(self, Self::AwaitsOutcome) {
            Self::OnLane(outgoing) if outgoing.is_complete() => Some(outgoing),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Whether bytes were sent, which can't be withdrawn.
    fn has_sent(&self) -> bool {
        match self {
            Self::OnLane(_) | Self::Sent { .. } | Self::InFlight(..) | Self::AwaitsOutcome | Self::Landed => true,
            Self::Announced | Self::Posted(_) | Self::Direct | Self::Over => false,
        }
    }
}

impl Drop for Pushing {
    fn drop(&mut self) {
        if matches!(self.state, PushState::Over) {
            return;
        }
        let _ = self.await_native();
        // The lane is dropped last, which notifies the target.
        let before = std::mem::replace(&mut self.state, PushState::Over);
        let mut state = self.exchange.lock();
        state.pushing.remove(&self.transfer);
        state.core.give_up(self.transfer, before.has_sent());
        self.exchange.act(state, Some(&self.outbox));
        drop(before);
    }
}
