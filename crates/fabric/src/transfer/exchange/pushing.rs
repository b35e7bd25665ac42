//! The source's side of a copy.

use super::{Exchange, TransferEnd, Transfers};
use crate::copy_way::CopyWay;
use crate::peer::PeerId;
use crate::transfer::control::ReceiveAnnouncement;
use crate::transfer::outbox::{Outbox, Outgoing, PushingStream, Sent};
use crate::transfer::table::{Offer, PushStep};
use crate::transport::PostedSend;
use accord_types::signal::Signal;
use accord_types::{Error, ErrorCode, NativeRange, Result, TransferId};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time after which a target's silence counts as a stall, and its liveness is checked.
const SOON: Duration = Duration::from_millis(100);

/// A push in flight, at the device's stream, from which it gets the bytes. How far the copy is, is in the exchange's
/// record of the transfer; what carries the bytes is here.
pub struct Pushing {
    exchange: Arc<Exchange>,
    outbox: Arc<Outbox>,
    transfer: TransferId,
    /// Raised when the push may continue.
    changed: Arc<Signal>,
    len: u64,
    /// The stream whose order the bytes keep.
    stream: Option<PushingStream>,
    carrier: Carrier,
}

/// What carries the bytes of a push.
enum Carrier {
    /// No choice before the target is ready.
    Unknown,
    /// A choice of these ways.
    Offered(Offer),
    /// This lane. A part of the bytes was sent.
    Lane(Outgoing),
    /// A lane that other transfers may use since all bytes were sent. The stream's later bytes stay ordered after these.
    Sent { _order: Sent },
    /// A message to the posted receive, in flight since this time.
    Message(Box<dyn PostedSend>, Instant),
    /// The caller, which writes the bytes into the target's memory. They land at once.
    Caller,
    /// Nothing any more: no more bytes are sent, and the target reports the outcome.
    Done,
    /// Nothing any more: the push has ended, and the exchange has forgotten the transfer.
    Ended,
}

impl Exchange {
    /// Starts a push of `len` bytes, more than 0, over the lanes of `outbox`.
    ///
    /// # Errors
    /// Returns an error if the transfer is already pushed, too many are pushed, or the exchange is closed.
    pub fn push(self: &Arc<Self>, transfer: TransferId, to: PeerId, len: u64, outbox: Arc<Outbox>) -> Result<Pushing> {
        let changed = Arc::<Signal>::default();
        let mut state = self.lock();
        state.table.push(transfer, to, TransferEnd::Source(changed.clone()))?;
        self.act(state, Some(&outbox));
        let (exchange, carrier) = (self.clone(), Carrier::Unknown);
        Ok(Pushing { exchange, outbox, transfer, changed, len, stream: None, carrier })
    }
}

impl Pushing {
    /// Assigns the push to a stream. Pushes of one stream may follow each other, see [`Pushing::follows`].
    #[must_use]
    pub fn of(mut self, stream: PushingStream) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Returns the number of bytes.
    pub fn total(&self) -> u64 {
        self.len
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
        let Offer::Memory(handle) = self.offered()? else { return Ok(None) };
        let reached = reach(handle);
        if reached.is_some() {
            self.carrier = Carrier::Caller;
        }
        Ok(reached)
    }

    /// Blocks until the target is ready, and returns its offer.
    fn offered(&mut self) -> Result<&Offer> {
        if matches!(self.carrier, Carrier::Unknown) {
            self.carrier = Carrier::Offered(self.wait(|state, _| state.table.start(self.transfer))?);
        }
        match &self.carrier {
            Carrier::Offered(offer) => Ok(offer),
            _ => Ok(&Offer::Lane),
        }
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
        self.stream.is_some() && self.exchange.lock().table.offer(self.transfer).is_some()
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
        let is_posted = matches!(self.offered()?, Offer::Receive(_));
        // A lane without such sends may have been added meanwhile: each end decides alone which memory MPI can address.
        if is_posted && self.outbox.sends_native() {
            return Ok(true);
        }
        Ok(CopyWay::DeviceMpi.takes_offered(self.len) && self.outgoing()?.sends_native())
    }

    /// Whether the bytes may be in flight together with those of other such pushes, in any order: the target has posted a
    /// receive for each, and none overlaps. Does not block.
    pub fn is_concurrent(&self) -> bool {
        let is_beside = |offer: &Offer| matches!(offer, Offer::Receive(receive) if !receive.overlaps);
        match &self.carrier {
            Carrier::Offered(offer) => is_beside(offer),
            Carrier::Unknown if self.outbox.sends_native() => {
                self.exchange.lock().table.offer(self.transfer).is_some_and(is_beside)
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
        // The receive accepts one message.
        if let Carrier::Offered(Offer::Receive(ReceiveAnnouncement { number, .. })) = self.carrier
            && bytes.len as u64 == self.len
        {
            self.carrier = Carrier::Done;
            self.carrier = Carrier::Message(self.outbox.send_posted(number, bytes)?, Instant::now());
            return Ok(());
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
        if let Some((bytes, begin)) = self.carrier.take_message()
            && self.outbox.await_posted(bytes, self.len, begin)?
        {
            // The target sends no message about it. The outcome stands even if the target was lost since.
            let _ = self.done(true);
        }
        Ok(())
    }

    /// Returns the push's lane once the target is ready.
    fn outgoing(&mut self) -> Result<&mut Outgoing> {
        match self.carrier {
            Carrier::Unknown => {
                self.offered()?;
            }
            // The push may have failed since the target was ready.
            Carrier::Offered(_) => self.check()?,
            _ => {}
        }
        if matches!(self.carrier, Carrier::Offered(_)) {
            self.carrier = Carrier::Lane(self.outbox.begin_ordered(self.transfer, self.len, self.stream)?);
        }
        match &mut self.carrier {
            Carrier::Lane(outgoing) => Ok(outgoing),
            _ => Err(Error::new(ErrorCode::ImplementationDefined, "a transfer sent too many bytes")),
        }
    }

    /// Releases the lane once all bytes were sent.
    fn give_lane_back(&mut self) {
        if let Some(outgoing) = self.carrier.take_complete() {
            self.carrier = Carrier::Sent { _order: outgoing.sent(self.stream) };
        }
    }

    /// Blocks until all bytes, which the caller has sent, have landed.
    ///
    /// # Errors
    /// Returns an error if the target refuses or is gone.
    pub fn finish(&mut self) -> Result<()> {
        self.await_native()?;
        match self.carrier {
            Carrier::Ended => return Ok(()),
            Carrier::Caller => return self.done(false),
            // Dropping the lane notifies the target that no more bytes are sent.
            Carrier::Lane(_) => self.carrier = Carrier::Done,
            _ => {}
        }
        let outcome = self.wait(|_, step| matches!(step, PushStep::End(_)).then_some(()));
        self.done(false).and(outcome)
    }

    /// Ends the push. `has_landed`: the bytes have, and the target sends no message about it.
    fn done(&mut self, has_landed: bool) -> Result<()> {
        let mut state = self.exchange.lock();
        if has_landed {
            state.table.has_landed(self.transfer);
        }
        let outcome = state.table.push_done(self.transfer);
        self.exchange.act(state, Some(&self.outbox));
        self.carrier = Carrier::Ended;
        outcome
    }

    /// Returns the error of a push that has failed.
    fn check(&self) -> Result<()> {
        let step = self.exchange.lock().table.step(self.transfer);
        match step {
            PushStep::End(outcome) => outcome,
            PushStep::Wait | PushStep::Send => Ok(()),
        }
    }

    /// Blocks until `until`, which gets the next step of the push, returns a value.
    fn wait<T>(&self, until: impl Fn(&mut Transfers, &PushStep) -> Option<T>) -> Result<T> {
        let start = Instant::now();
        let mut state = self.exchange.lock();
        let (mut stalled, mut looked) = (None, false);
        loop {
            let step = state.table.step(self.transfer);
            if let PushStep::End(Err(error)) = step {
                return Err(error);
            }
            if let Some(found) = until(&mut state, &step) {
                self.exchange.targets.waited(start);
                return Ok(found);
            }
            if step == PushStep::End(Ok(())) {
                return Err(Error::new(ErrorCode::ImplementationDefined, "a copy has landed before it was sent"));
            }
            if !std::mem::replace(&mut looked, true) && self.exchange.targets.has_any() {
                let seen = self.changed.raised();
                drop(state);
                self.changed.spin_until(seen, &self.exchange.targets);
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

impl Carrier {
    /// Returns the message in flight, if any. Nothing carries bytes from then on.
    fn take_message(&mut self) -> Option<(Box<dyn PostedSend>, Instant)> {
        match std::mem::replace(self, Self::Done) {
            Self::Message(bytes, begin) => Some((bytes, begin)),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Returns the lane if all bytes were sent over it. Nothing carries bytes from then on.
    fn take_complete(&mut self) -> Option<Outgoing> {
        match std::mem::replace(self, Self::Done) {
            Self::Lane(outgoing) if outgoing.is_complete() => Some(outgoing),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Whether the target gets bytes, or learns from the carrier that it gets no more.
    fn tells(&self) -> bool {
        match self {
            Self::Lane(_) | Self::Sent { .. } | Self::Message(..) | Self::Done => true,
            Self::Unknown | Self::Offered(_) | Self::Caller | Self::Ended => false,
        }
    }
}

impl Drop for Pushing {
    fn drop(&mut self) {
        // Nothing waits for the outcome.
        let _ = self.await_native();
        if matches!(self.carrier, Carrier::Ended) {
            return;
        }
        // The lane is dropped last, which notifies the target.
        let before = std::mem::replace(&mut self.carrier, Carrier::Ended);
        let mut state = self.exchange.lock();
        state.table.give_up(self.transfer, before.tells());
        self.exchange.act(state, Some(&self.outbox));
        drop(before);
    }
}
