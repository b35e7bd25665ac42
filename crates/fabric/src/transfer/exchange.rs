//! Copies between devices of different processes: the decisions of [`super::rendezvous`] with
//! threads that wait for them and lanes that carry them.

use super::chunk_io::broken;
use super::control::{ControlMessage, TransferControl};
use super::inbox::{Inbox, Incoming};
use super::outbox::{Outbox, Outgoing};
use super::rendezvous::{Answer, Expects, PushStep, Pushes};
use crate::peer::PeerId;
use accord_types::{Error, ErrorCode, Result, TransferId};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Begins to take a transfer's bytes; runs on the lane's thread and must not wait for the device.
pub type Starter = Box<dyn FnOnce(Arrival) + Send>;

/// Gives a handle of the memory that a transfer goes to, for a pusher that may reach it; empty if there is no such way. At most
/// [`crate::frame::transfer::HANDLE_MAX`] bytes. Called without locks, when the bytes may come.
pub type Export = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// A target that has answered by then is as it should be: nobody looks whether it lives.
const SOON: Duration = Duration::from_millis(100);
/// Most bytes of handles that wait for their streams: beyond that bytes go over lanes.
const HANDLES_BYTES_MAX: usize = 16 << 20;

/// All copies that one process pushes or expects.
#[derive(Default)]
pub struct Exchange {
    state: Mutex<TransferTable>,
    changed: Condvar,
}

#[derive(Default)]
struct TransferTable {
    pushes: Pushes,
    expects: Expects,
    /// Transfers that may not be asked for yet.
    starters: HashMap<TransferId, (u64, Starter, Option<Export>)>,
    /// Where targets want the bytes of pushes whose streams are not there yet.
    handles: HashMap<TransferId, Vec<u8>>,
    /// Bytes of them, at most [`HANDLES_BYTES_MAX`].
    handles_bytes: usize,
    peers: HashMap<PeerId, Present>,
    closed: Option<Error>,
}

#[derive(Clone)]
struct Present {
    control: Arc<dyn TransferControl>,
    inbox: Arc<Inbox>,
}

impl TransferTable {
    /// As [`Pushes::finish`].
    fn finish(&mut self, transfer: TransferId) -> bool {
        self.take_handle(transfer);
        self.pushes.finish(transfer)
    }

    fn keep_handle(&mut self, transfer: TransferId, handle: Vec<u8>) {
        if !handle.is_empty() && self.handles_bytes + handle.len() <= HANDLES_BYTES_MAX {
            self.handles_bytes += handle.len();
            self.handles.insert(transfer, handle);
        }
    }

    fn take_handle(&mut self, transfer: TransferId) -> Option<Vec<u8>> {
        let handle = self.handles.remove(&transfer)?;
        self.handles_bytes -= handle.len();
        Some(handle)
    }
}

impl Exchange {
    /// An exchange without peers.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, TransferTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The pusher's side.

    /// Begins a push of `len` bytes, more than 0, over the lanes of `outbox`.
    ///
    /// # Errors
    /// When the transfer is known already, there are too many, or the exchange is closed.
    pub fn push(self: &Arc<Self>, transfer: TransferId, to: PeerId, len: u64, outbox: Arc<Outbox>) -> Result<Pushing> {
        let mut state = self.lock();
        if let Some(error) = &state.closed {
            return Err(error.clone());
        }
        state.pushes.push(transfer, to)?;
        drop(state);
        // Whoever loses the way to a peer closes its outbox first, and then ends the pushes it finds here.
        if let Some(error) = outbox.closed() {
            self.push_lost(to, &error);
        }
        Ok(Pushing { exchange: self.clone(), outbox, transfer, len, outgoing: None, direct: false, over: false })
    }

    /// The target said that the bytes may come, to the memory of `handle` if it is not empty and this side reaches it. True if the target
    /// has to be told that none will; see [`tell_abandoned`].
    ///
    /// # Errors
    /// When that breaks the protocol.
    fn on_ready(&self, transfer: TransferId, handle: Vec<u8>) -> Result<bool> {
        let mut state = self.lock();
        let abandoned = state.pushes.ready(transfer)?;
        if !abandoned {
            state.keep_handle(transfer, handle);
        }
        drop(state);
        self.changed.notify_all();
        Ok(abandoned)
    }

    /// The target said that they have landed.
    ///
    /// # Errors
    /// When that breaks the protocol.
    fn on_landed(&self, transfer: TransferId) -> Result<()> {
        self.lock().pushes.landed(transfer)?;
        self.changed.notify_all();
        Ok(())
    }

    /// The target can't take them.
    ///
    /// # Errors
    /// When that breaks the protocol.
    fn on_refused(&self, transfer: TransferId, error: Error) -> Result<()> {
        self.lock().pushes.refused(transfer, error)?;
        self.changed.notify_all();
        Ok(())
    }

    /// A control message of a target came; what it has to be told goes over `outbox`.
    ///
    /// # Errors
    /// When that breaks the protocol.
    pub fn on_control(&self, message: ControlMessage, outbox: &Arc<Outbox>) -> Result<()> {
        match message {
            ControlMessage::Ready(transfer, handle) => {
                if self.on_ready(transfer, handle)? {
                    tell_abandoned(outbox, transfer);
                }
                Ok(())
            }
            ControlMessage::Landed(transfer) => self.on_landed(transfer),
            ControlMessage::Refused(transfer, error) => self.on_refused(transfer, error),
            // Whoever is asked answers before it comes here, and nobody else asks.
            ControlMessage::Ask(_) | ControlMessage::Alive(_) | ControlMessage::Lost(..) => {
                Err(broken("it asks or answers what it should not"))
            }
        }
    }

    /// The way to a peer is gone: pushes to it end with `error`.
    pub fn push_lost(&self, peer: PeerId, error: &Error) {
        self.lock().pushes.lost(peer, error);
        self.changed.notify_all();
    }

    // The target's side.

    /// Expects a transfer. Nothing is asked for before [`Exchange::due`].
    ///
    /// # Errors
    /// When the transfer is known already, there are too many, or the exchange is closed.
    pub fn expect(
        &self,
        transfer: TransferId,
        from: PeerId,
        len: u64,
        starter: Starter,
        export: Option<Export>,
    ) -> Result<()> {
        let mut state = self.lock();
        if let Some(error) = &state.closed {
            return Err(error.clone());
        }
        state.expects.expect(transfer, from)?;
        state.starters.insert(transfer, (len, starter, export));
        Ok(())
    }

    /// What stood before the transfer on its target is done, or failed.
    pub fn due(self: &Arc<Self>, transfer: TransferId, outcome: Result<()>) {
        let mut state = self.lock();
        let answer = state.expects.due(transfer, outcome);
        if let Some((peer, answer)) = answer {
            self.answer(state, peer, vec![answer]);
        }
    }

    /// A peer can be talked to, and its bytes come in through `inbox`.
    pub fn arrived(self: &Arc<Self>, peer: PeerId, control: Arc<dyn TransferControl>, inbox: Arc<Inbox>) {
        let mut state = self.lock();
        state.peers.insert(peer, Present { control, inbox });
        let answers = state.expects.arrived(peer);
        self.answer(state, peer, answers);
    }

    fn answer(self: &Arc<Self>, mut state: MutexGuard<'_, TransferTable>, peer: PeerId, answers: Vec<Answer>) {
        let Some(present) = state.peers.get(&peer).cloned() else { return };
        let mut exports = Vec::new();
        for answer in &answers {
            let (Answer::Ready(transfer) | Answer::Refused(transfer, _)) = *answer;
            let (len, starter, export) = match state.starters.remove(&transfer) {
                Some((len, starter, export)) => (len, Some(starter), export),
                None => (0, None, None),
            };
            exports.push(export);
            if let (Answer::Ready(_), Some(starter)) = (answer, starter) {
                let exchange = self.clone();
                let begin = move |incoming| exchange.begin(transfer, peer, incoming, starter);
                present.inbox.post(transfer, len, Box::new(begin));
            }
        }
        drop(state);
        for (answer, export) in answers.into_iter().zip(exports) {
            match answer {
                Answer::Ready(transfer) => {
                    present.control.ready(transfer, export.map_or_else(Vec::new, |export| export()));
                }
                Answer::Refused(transfer, error) => present.control.refused(transfer, &error),
            }
        }
    }

    fn begin(self: &Arc<Self>, transfer: TransferId, peer: PeerId, incoming: Incoming, starter: Starter) {
        let begun = self.lock().expects.begin(transfer, peer);
        if begun.is_err() || incoming.aborted() {
            self.lock().expects.end(transfer);
            return;
        }
        let arrival = Arrival { exchange: self.clone(), peer, incoming: Some(incoming), transfer, failed: None };
        starter(arrival);
    }

    /// A peer is gone: what it was to push is forgotten.
    pub fn peer_lost(&self, peer: PeerId) {
        let mut state = self.lock();
        let present = state.peers.remove(&peer);
        let lost = state.expects.lost(peer);
        let dropped: Vec<_> = lost.iter().filter_map(|transfer| state.starters.remove(transfer)).collect();
        drop(state);
        drop(dropped);
        if let Some(present) = present {
            lost.iter().for_each(|&transfer| present.inbox.forget(transfer));
        }
    }

    /// Ends everything: pushes fail with `error`.
    pub fn close(&self, error: &Error) {
        let mut state = self.lock();
        state.closed.get_or_insert_with(|| error.clone());
        let starters = std::mem::take(&mut state.starters);
        state.handles.clear();
        state.handles_bytes = 0;
        state.peers.clear();
        drop(state);
        drop(starters);
        self.changed.notify_all();
    }

    fn end(&self, transfer: TransferId, peer: PeerId, outcome: &Result<()>) {
        let mut state = self.lock();
        let tell = state.expects.end(transfer);
        let present = state.peers.get(&peer).cloned();
        drop(state);
        if let (true, Some(present)) = (tell, present) {
            match outcome {
                Ok(()) => present.control.landed(transfer),
                Err(error) => present.control.refused(transfer, error),
            }
        }
    }
}

/// Tells a target that the bytes for which it is ready will not come over a lane. Waits for one.
fn tell_abandoned(outbox: &Arc<Outbox>, transfer: TransferId) {
    // Dropped before its only byte, the transfer is aborted. The target is gone if that fails.
    drop(outbox.begin(transfer, 1));
}

/// A push under way: gets the bytes from the device, in its stream's order.
pub struct Pushing {
    exchange: Arc<Exchange>,
    outbox: Arc<Outbox>,
    transfer: TransferId,
    len: u64,
    outgoing: Option<Outgoing>,
    /// The bytes do not go over a lane.
    direct: bool,
    over: bool,
}

impl Pushing {
    /// Where the bytes go straight to, if the target is on this host and has said where it wants them and `reach` gets there:
    /// then [`Pushing::finish`] is to be called when they are there, and no lane is used.
    ///
    /// # Errors
    /// When the target refuses or is gone.
    pub fn reach<T>(
        &mut self,
        is_same_host: impl FnOnce() -> bool,
        reach: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        // With the first lane it is known who is on this host. Others get the bytes as soon as they may come.
        if self.outbox.is_connected() && !is_same_host() {
            return Ok(None);
        }
        let Some(handle) = self.handle()? else { return Ok(None) };
        let reached = reach(&handle);
        self.direct = reached.is_some();
        Ok(reached)
    }

    /// Waits until the target is ready. Where it wants the bytes, if it has said so.
    fn handle(&mut self) -> Result<Option<Vec<u8>>> {
        self.wait(&PushStep::Send)?;
        Ok(self.exchange.lock().take_handle(self.transfer))
    }

    /// Sends the next bytes, the first ones once the target is ready.
    ///
    /// # Errors
    /// When the target refuses or is gone.
    pub fn drain(&mut self, piece: &[u8]) -> Result<()> {
        if self.outgoing.is_none() {
            self.wait(&PushStep::Send)?;
            self.outgoing = Some(self.outbox.begin(self.transfer, self.len)?);
        }
        match &mut self.outgoing {
            Some(outgoing) => outgoing.send(piece),
            None => Ok(()),
        }
    }

    /// All bytes were sent: waits until they have landed.
    ///
    /// # Errors
    /// When the target refuses or is gone.
    pub fn finish(&mut self) -> Result<()> {
        if self.direct {
            return self.finish_directly();
        }
        self.outgoing = None;
        let outcome = self.wait(&PushStep::End(Ok(())));
        self.exchange.lock().finish(self.transfer);
        self.over = true;
        outcome
    }

    fn finish_directly(&mut self) -> Result<()> {
        let mut state = self.exchange.lock();
        let step = state.pushes.step(self.transfer);
        let tell = state.finish(self.transfer);
        let closed = state.closed.clone();
        drop(state);
        self.over = true;
        if tell {
            tell_abandoned(&self.outbox, self.transfer);
        }
        match (step, closed) {
            (PushStep::End(outcome), _) => outcome,
            (_, Some(error)) => Err(error),
            (PushStep::Wait | PushStep::Send, None) => Ok(()),
        }
    }

    fn wait(&self, until: &PushStep) -> Result<()> {
        let mut state = self.exchange.lock();
        let mut stalled = None;
        loop {
            match state.pushes.step(self.transfer) {
                PushStep::End(Err(error)) => return Err(error),
                step if step == *until => return Ok(()),
                PushStep::End(Ok(())) => {
                    return Err(Error::new(ErrorCode::ImplementationDefined, "a copy has landed before it was sent"));
                }
                PushStep::Wait | PushStep::Send => {}
            }
            if let Some(error) = &state.closed {
                return Err(error.clone());
            }
            if stalled.is_some() {
                state = self.exchange.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let waited = self.exchange.changed.wait_timeout(state, SOON);
            let (locked, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = locked;
            if waited.timed_out() {
                // Whoever is told of it must not find the lock taken.
                drop(state);
                stalled = Some(self.outbox.stats.stalls.begin());
                state = self.exchange.lock();
            }
        }
    }
}

impl Drop for Pushing {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let tell = self.exchange.lock().finish(self.transfer);
        match self.outgoing.take() {
            // Dropping it tells the target.
            Some(outgoing) => drop(outgoing),
            None if tell => tell_abandoned(&self.outbox, self.transfer),
            None => {}
        }
    }
}

/// A transfer that arrives: gives the bytes to the device. [`Arrival::landed`] has to be told how it ended.
pub struct Arrival {
    exchange: Arc<Exchange>,
    peer: PeerId,
    incoming: Option<Incoming>,
    transfer: TransferId,
    failed: Option<Error>,
}

/// Says how a transfer ended.
pub struct Ending {
    exchange: Arc<Exchange>,
    peer: PeerId,
    transfer: TransferId,
    failure: Arc<Mutex<Option<Error>>>,
}

/// The bytes of an [`Arrival`].
pub struct ArrivalBytes {
    incoming: Incoming,
    failure: Arc<Mutex<Option<Error>>>,
}

impl Arrival {
    /// The bytes, for the device's stream, and what to call when they have landed.
    pub fn split(mut self) -> Option<(ArrivalBytes, Ending)> {
        let failure = Arc::new(Mutex::new(self.failed.take()));
        let ending = Ending {
            exchange: self.exchange.clone(),
            peer: self.peer,
            transfer: self.transfer,
            failure: failure.clone(),
        };
        Some((ArrivalBytes { incoming: self.incoming.take()?, failure }, ending))
    }
}

impl ArrivalBytes {
    /// Fills `piece` with the next bytes. If the pusher fails, the piece stays as it is and the
    /// [`Ending`] knows: the stream that takes copies from all sides must not fail with one of them.
    pub fn fill(&mut self, piece: &mut [u8]) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none()
            && let Err(error) = self.incoming.fill(piece)
        {
            *failure = Some(error);
        }
    }
}

impl Ending {
    /// The device is done with the bytes, or failed.
    pub fn landed(self, outcome: Result<()>) {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let outcome = failure.map_or(outcome, Err);
        self.exchange.end(self.transfer, self.peer, &outcome);
    }
}

#[cfg(test)]
mod tests;
