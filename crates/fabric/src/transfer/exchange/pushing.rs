//! The pusher's side of a copy.

use super::Exchange;
use crate::copy_way::CopyWay;
use crate::peer::PeerId;
use crate::transfer::control::RoomWord;
use crate::transfer::outbox::{Outbox, Outgoing, PushingStream, Sent};
use crate::transfer::rendezvous::PushStep;
use crate::transport::PostedBytes;
use accord_types::signal::Signal;
use accord_types::{Error, ErrorCode, NativeRange, Result, TransferId};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A target that has answered by then is as it should be: nobody looks whether it lives.
const SOON: Duration = Duration::from_millis(100);

/// A push under way: gets the bytes from the device, in its stream's order.
pub struct Pushing {
    exchange: Arc<Exchange>,
    outbox: Arc<Outbox>,
    transfer: TransferId,
    /// It goes on.
    changed: Arc<Signal>,
    len: u64,
    /// Whose bytes keep their order on their way.
    stream: Option<PushingStream>,
    outgoing: Option<Outgoing>,
    /// All of them went over a lane, which others have since.
    sent: Option<Sent>,
    /// The bytes do not go over a lane.
    direct: bool,
    /// The room that the target has posted for them.
    room: Option<RoomWord>,
    /// They went there.
    in_room: bool,
    /// They are on their way there, since then.
    going: Option<(Box<dyn PostedBytes>, Instant)>,
    /// They are there, which the target does not say again.
    landed: bool,
    over: bool,
}

impl Exchange {
    /// Begins a push of `len` bytes, more than 0, over the lanes of `outbox`.
    ///
    /// # Errors
    /// When the transfer is known already, there are too many, or the exchange is closed.
    pub fn push(self: &Arc<Self>, transfer: TransferId, to: PeerId, len: u64, outbox: Arc<Outbox>) -> Result<Pushing> {
        let mut state = self.lock();
        state.core.push(transfer, to)?;
        let changed = Arc::<Signal>::default();
        state.pushing.insert(transfer, changed.clone());
        self.act(state, Some(&outbox));
        let (exchange, stream, outgoing, sent, room, going) = (self.clone(), None, None, None, None, None);
        let [direct, in_room, landed, over] = [false; 4];
        Ok(Pushing {
            exchange,
            outbox,
            transfer,
            changed,
            len,
            stream,
            outgoing,
            sent,
            direct,
            room,
            in_room,
            going,
            landed,
            over,
        })
    }
}

impl Pushing {
    /// The push of this stream. Pushes of one may follow each other, see [`Pushing::follows`].
    #[must_use]
    pub fn of(mut self, stream: PushingStream) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Whether there is a lane to the target.
    pub fn is_connected(&self) -> bool {
        self.outbox.is_connected()
    }

    /// Where the bytes go straight to, if the target is on this host and has said where it wants them and `reach` gets there:
    /// then [`Pushing::finish`] is to be called when they are there, and no lane is used.
    ///
    /// # Errors
    /// When the target refuses or is gone.
    pub fn reach<T>(&mut self, reach: impl FnOnce(&[u8]) -> Option<T>) -> Result<Option<T>> {
        let Some(handle) = self.handle()? else { return Ok(None) };
        let reached = reach(&handle);
        self.direct = reached.is_some();
        Ok(reached)
    }

    /// Waits until the target is ready. Where it wants the bytes, if it has said so.
    fn handle(&mut self) -> Result<Option<Vec<u8>>> {
        self.wait(&PushStep::Send)?;
        Ok(self.exchange.lock().core.take_handle(self.transfer))
    }

    /// Sends the next bytes, the first ones once the target is ready.
    ///
    /// # Errors
    /// When the target refuses or is gone.
    pub fn drain(&mut self, piece: &[u8]) -> Result<()> {
        self.outgoing()?.send(piece)?;
        self.give_lane_back();
        Ok(())
    }

    /// Whether the bytes may be sent now, though those of the stream's pushes before it have not landed: the target is ready. They don't overtake those,
    /// as they go by the same lane. Does not wait.
    pub fn follows(&self) -> bool {
        self.stream.is_some() && self.exchange.lock().core.step(self.transfer) == PushStep::Send
    }

    /// Whether [`Pushing::drains_native`] may say so.
    pub fn may_drain_native(&self) -> bool {
        CopyWay::DeviceMpi.takes(self.len) && self.outbox.may_send_native()
    }

    /// Whether [`Pushing::drain_native`] is the way. Asked before anything else was sent; waits until the target is ready if it may be.
    ///
    /// # Errors
    /// When the target refuses or is gone.
    pub fn drains_native(&mut self) -> Result<bool> {
        if !self.may_drain_native() {
            return Ok(false);
        }
        if self.outgoing.is_none() {
            self.wait(&PushStep::Send)?;
            let room = self.exchange.lock().core.take_room(self.transfer);
            // A lane may have come meanwhile that does not: what MPI reaches is each end's own.
            self.room = room.filter(|_| self.outbox.sends_native());
        }
        Ok(self.room.is_some() || CopyWay::DeviceMpi.takes_offered(self.len) && self.outgoing()?.sends_native())
    }

    /// Whether the bytes may be on their way beside those of other pushes that say so, though these were to come before or after: the target has
    /// room for each of them, and none overlaps. Does not wait.
    pub fn goes_beside(&self) -> bool {
        let is_beside = |room: RoomWord| !room.overlaps;
        match self.room {
            Some(room) => is_beside(room),
            None if self.outgoing.is_some() || !self.outbox.sends_native() => false,
            None => self.exchange.lock().core.room(self.transfer).is_some_and(is_beside),
        }
    }

    /// As [`Pushing::drain`], out of a device's own memory, where they stay as they are until [`Pushing::await_native`] has returned.
    ///
    /// # Errors
    /// As for [`Pushing::drain`].
    pub fn drain_native(&mut self, bytes: NativeRange) -> Result<()> {
        // The room takes one message. If something else comes, the target has no use for it any more.
        if let Some(room) = self.room.take().filter(|_| bytes.len as u64 == self.len) {
            self.in_room = true;
            self.going = Some((self.outbox.send_posted(room.number, bytes)?, Instant::now()));
            return Ok(());
        }
        self.outgoing()?.send_native(bytes)?;
        self.give_lane_back();
        Ok(())
    }

    /// Returns when nobody needs the bytes any more that [`Pushing::drain_native`] was given.
    ///
    /// # Errors
    /// When they may not have gone.
    pub fn await_native(&mut self) -> Result<()> {
        if let Some((bytes, begin)) = self.going.take() {
            self.landed = self.outbox.await_posted(bytes, self.len, begin)?;
        }
        Ok(())
    }

    /// The lane that it has, once the target is ready.
    fn outgoing(&mut self) -> Result<&mut Outgoing> {
        if self.sent.is_some() {
            return Err(Error::new(ErrorCode::ImplementationDefined, "a transfer sent too many bytes"));
        }
        if self.outgoing.is_none() {
            self.wait(&PushStep::Send)?;
        }
        match &mut self.outgoing {
            Some(outgoing) => Ok(outgoing),
            none => Ok(none.insert(self.outbox.begin_behind(self.transfer, self.len, self.stream)?)),
        }
    }

    /// Lets others have the lane once all bytes were sent.
    fn give_lane_back(&mut self) {
        self.sent = self.outgoing.take_if(|outgoing| outgoing.is_complete()).map(|outgoing| outgoing.sent(self.stream));
    }

    /// All bytes were sent: waits until they have landed.
    ///
    /// # Errors
    /// When the target refuses or is gone.
    pub fn finish(&mut self) -> Result<()> {
        self.await_native()?;
        self.outgoing = None;
        if self.landed {
            // Whatever became of the target since.
            let _ = self.done();
            return Ok(());
        }
        // What did not go over a lane has landed when it was written.
        if !self.direct {
            let outcome = self.wait(&PushStep::End(Ok(())));
            return self.done().and(outcome);
        }
        self.done()
    }

    fn done(&mut self) -> Result<()> {
        let mut state = self.exchange.lock();
        state.pushing.remove(&self.transfer);
        if self.landed {
            state.core.has_landed(self.transfer);
        }
        let outcome = state.core.push_done(self.transfer);
        self.exchange.act(state, Some(&self.outbox));
        self.over = true;
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
                // Whoever is told of it must not find the lock taken.
                Err(_) => {
                    stalled = Some(self.outbox.stats.stalls.begin());
                    self.exchange.lock()
                }
            };
        }
    }
}

impl Drop for Pushing {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let _ = self.await_native();
        // Dropping the lane tells the target.
        let outgoing = self.outgoing.take();
        let mut state = self.exchange.lock();
        state.pushing.remove(&self.transfer);
        // What is in its room, or was sent, can't be called off.
        state.core.give_up(self.transfer, outgoing.is_some() || self.in_room || self.sent.is_some());
        self.exchange.act(state, Some(&self.outbox));
    }
}
