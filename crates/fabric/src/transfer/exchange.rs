//! Copies between devices of different processes: [`TransferTable`] with threads that block and lanes that carry the
//! bytes.

mod posting;
pub(super) mod pushing;
mod receives;

pub use self::receives::DeviceReceives;

use self::receives::TransferReceive;
use super::control::{ControlMessage, TransferControl};
use super::inbox::{Inbox, Incoming};
use super::outbox::Outbox;
use super::table::{TransferEffect, TransferTable};
use crate::frame::{EXCHANGE_STEP, EXCHANGE_WINDOW};
use crate::peer::PeerId;
use crate::transport::PostedReceive;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::signal::{SharedSpinPolicy, Signal};
use accord_types::{Error, NativeRange, Result, TransferId};
use std::collections::HashMap;
use std::sync::{Arc, Condvar};

/// Called with the numbers of pushed and expected copies that are over. Called without locks.
pub type ReportOver = Box<dyn Fn(u32, u32) + Send + Sync>;

/// All copies that one process pushes or expects.
#[derive(Default)]
pub struct Exchange {
    state: ShortLock<Transfers>,
    /// Notified when copies are over.
    over: Condvar,
    report_over: Option<ReportOver>,
    /// Recent times until targets were ready, or had the bytes.
    targets: SharedSpinPolicy,
}

struct Transfers {
    table: TransferTable<TransferEnd>,
    peers: HashMap<PeerId, Present>,
    /// Receives of sources that are gone. A message may still be written there.
    abandoned: Vec<Arc<dyn PostedReceive>>,
    /// Threads blocked on the exchange window.
    waiting: usize,
}

/// What this process keeps with a transfer.
#[derive(Clone)]
enum TransferEnd {
    /// At the source: raised when the push may continue; its stream may be blocked on it.
    Source(Arc<Signal>),
    /// At the target, until the bytes may be sent: their number and destination.
    Target(u64, Arc<dyn TransferTarget>),
    /// At the target afterwards: the receive posted for the bytes.
    Posted(TransferReceive),
}

#[derive(Clone)]
struct Present {
    control: Arc<dyn TransferControl>,
    inbox: Arc<Inbox>,
}

impl Default for Transfers {
    fn default() -> Self {
        let table = TransferTable::new(None);
        Self { table, peers: HashMap::new(), abandoned: Vec::new(), waiting: 0 }
    }
}

impl Exchange {
    /// Creates a program's exchange, without peers.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Creates an executor's exchange. It reports copies that are over, so that the program may start others.
    pub fn telling(report_over: ReportOver) -> Arc<Self> {
        let table = TransferTable::new(Some(EXCHANGE_STEP));
        let state = ShortLock::new(Transfers { table, ..Transfers::default() });
        Arc::new(Self { state, report_over: Some(report_over), ..Self::default() })
    }

    fn lock(&self) -> ShortGuard<'_, Transfers> {
        self.state.lock()
    }

    /// Carries out the table's effects. `outbox` is that of the pushed-to peer that they concern, if any.
    fn act(self: &Arc<Self>, mut state: ShortGuard<'_, Transfers>, outbox: Option<&Arc<Outbox>>) {
        let Transfers { table, peers, abandoned, waiting } = &mut *state;
        let (mut effects, mut going_on, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        for effect in table.effects() {
            let present = match &effect {
                TransferEffect::Gone(peer, reported) => {
                    ended.extend(abandoned.extract_if(.., |receive| receive.has_ended()));
                    abandoned.extend(reported.iter().filter_map(|(_, end)| end.as_ref()?.receive()));
                    peers.remove(peer)
                }
                effect => effect.peer().and_then(|peer| peers.get(&peer).cloned()),
            };
            match effect {
                TransferEffect::Wake(_, Some(TransferEnd::Source(changed))) => going_on.push(changed),
                TransferEffect::Wake(..) => {}
                effect => effects.push((present, effect)),
            }
        }
        let room_wanted = *waiting > 0;
        drop(state);
        drop(ended);
        going_on.iter().for_each(|changed| changed.raise());
        if room_wanted {
            self.over.notify_all();
        }
        effects.into_iter().for_each(|(present, effect)| self.do_one(effect, present, outbox));
    }

    fn do_one(
        self: &Arc<Self>,
        effect: TransferEffect<TransferEnd>,
        present: Option<Present>,
        outbox: Option<&Arc<Outbox>>,
    ) {
        match (effect, present) {
            (TransferEffect::Ready { peer, transfer, value: TransferEnd::Target(len, target) }, Some(present)) => {
                let (exchange, destination) = (self.clone(), target.clone());
                let begin = move |incoming| exchange.begin(transfer, peer, incoming, &*destination);
                present.inbox.post(transfer, len, Box::new(begin));
                let handle = target.export();
                let receive =
                    if handle.is_empty() { self.post((transfer, len), peer, &*target, &present) } else { None };
                present.control.send(match receive {
                    Some(receive) => ControlMessage::Room(transfer, receive),
                    None => ControlMessage::Ready(transfer, handle),
                });
            }
            (TransferEffect::Tell(_, message), Some(present)) => present.control.send(message),
            (TransferEffect::Abandon(_, transfer), _) => {
                if let Some(outbox) = outbox {
                    notify_abandoned(outbox, transfer);
                }
            }
            (TransferEffect::Gone(_, reported), present) => {
                for (transfer, end) in reported {
                    if let Some(present) = &present {
                        present.inbox.forget(transfer);
                    }
                    if let Some(receive) = end.and_then(|end| end.receive()) {
                        receive.abandon();
                    }
                }
            }
            (TransferEffect::Drop(TransferEnd::Posted(receive)), _) => receive.receive.await_free(),
            (TransferEffect::Over { pushes, expects }, _) => {
                if let Some(notify) = &self.report_over {
                    notify(pushes, expects);
                }
            }
            // The peer is gone, or the effect is to drop a value.
            _ => {}
        }
    }

    /// Blocks until a program's own process has fewer than [`EXCHANGE_WINDOW`] transfers of a kind. A thread that
    /// completes transfers must not call it.
    ///
    /// # Errors
    /// Returns the error of [`Exchange::close`] once the exchange is closed.
    fn wait_for_space(&self, transfers: impl Fn(&TransferTable<TransferEnd>) -> usize) -> Result<()> {
        let mut state = self.lock();
        loop {
            state.table.check()?;
            if transfers(&state.table) < EXCHANGE_WINDOW as usize {
                return Ok(());
            }
            state.waiting += 1;
            state = ShortGuard::wait(state, &self.over);
            state.waiting -= 1;
        }
    }

    /// Blocks until a program may push one more transfer. A thread that completes pushes must not call it.
    ///
    /// # Errors
    /// Returns the error of [`Exchange::close`] once the exchange is closed.
    pub fn wait_to_push(&self) -> Result<()> {
        self.wait_for_space(TransferTable::pushes)
    }

    /// Waits as [`Exchange::wait_to_push`], to expect a transfer.
    ///
    /// # Errors
    /// Returns the error of [`Exchange::close`] once the exchange is closed.
    pub fn wait_to_expect(&self) -> Result<()> {
        self.wait_for_space(TransferTable::expects)
    }

    // The pusher's side.

    /// Handles a control message of the target `from`; replies go over `outbox`.
    ///
    /// # Errors
    /// Returns an error if the message breaks the protocol.
    pub fn on_control(self: &Arc<Self>, from: PeerId, message: ControlMessage, outbox: &Arc<Outbox>) -> Result<()> {
        let mut state = self.lock();
        state.table.on_control(from, message)?;
        self.act(state, Some(outbox));
        Ok(())
    }

    /// Ends the pushes to a peer that can't be reached any more with `error`.
    pub fn push_lost(self: &Arc<Self>, peer: PeerId, error: &Error) {
        let mut state = self.lock();
        state.table.push_lost(peer, error);
        self.act(state, None);
    }

    // The target's side.

    /// Expects a transfer of `len` bytes. Nothing is requested before [`Exchange::due`].
    ///
    /// # Errors
    /// Returns an error if the transfer is already expected, too many are expected, or the exchange is closed.
    pub fn expect(
        self: &Arc<Self>,
        transfer: TransferId,
        from: PeerId,
        len: u64,
        target: Arc<dyn TransferTarget>,
    ) -> Result<()> {
        self.announced(transfer, from, Ok(TransferEnd::Target(len, target)))
    }

    /// Refuses an announced transfer that has no destination: its pusher gets `why`.
    ///
    /// # Errors
    /// Returns the errors of [`Exchange::expect`].
    pub fn refuse(self: &Arc<Self>, transfer: TransferId, from: PeerId, why: Error) -> Result<()> {
        self.announced(transfer, from, Err(why))
    }

    fn announced(self: &Arc<Self>, transfer: TransferId, from: PeerId, place: Result<TransferEnd>) -> Result<()> {
        let mut state = self.lock();
        let outcome = state.table.expect(transfer, from, place);
        self.act(state, None);
        outcome
    }

    /// Records that all work ahead of the transfer on its target is done, or has failed.
    pub fn due(self: &Arc<Self>, transfer: TransferId, outcome: Result<()>) {
        let mut state = self.lock();
        state.table.due(transfer, outcome);
        self.act(state, None);
    }

    /// Whether the lane of a peer is no longer read.
    pub fn is_over(&self, peer: PeerId) -> bool {
        self.lock().table.is_over(peer)
    }

    /// Registers a peer, whose messages go over `control` and whose bytes arrive through `inbox`.
    pub fn arrived(self: &Arc<Self>, peer: PeerId, control: Arc<dyn TransferControl>, inbox: Arc<Inbox>) {
        let mut state = self.lock();
        let before = state.peers.insert(peer, Present { control, inbox });
        state.table.arrived(peer);
        self.act(state, None);
        drop(before);
    }

    fn begin(self: &Arc<Self>, transfer: TransferId, peer: PeerId, incoming: Incoming, target: &dyn TransferTarget) {
        let aborted = incoming.aborted();
        let mut state = self.lock();
        let begun = state.table.begin(transfer, peer, aborted);
        self.act(state, None);
        // Otherwise the peer was lost meanwhile.
        let Ok(posted) = begun else { return };
        // The bytes arrive on a lane, or not at all.
        if let Some(TransferEnd::Posted(receive)) = posted {
            receive.withdraw(transfer);
        }
        if !aborted {
            let bytes = IncomingBytes { exchange: self.clone(), transfer, incoming, are_lost: false };
            target.start(bytes, TransferEnding { exchange: self.clone(), transfer, peer });
        }
    }

    /// Drops the expected transfers of a peer that is gone.
    pub fn peer_lost(self: &Arc<Self>, peer: PeerId) {
        let mut state = self.lock();
        state.table.peer_lost(peer);
        self.act(state, None);
    }

    /// Ends all transfers; pushes fail with `error`. After the return no posted receive is written.
    pub fn close(self: &Arc<Self>, error: &Error) {
        let mut state = self.lock();
        state.table.close(error);
        let (peers, abandoned) = (std::mem::take(&mut state.peers), std::mem::take(&mut state.abandoned));
        self.act(state, None);
        drop(peers);
        abandoned.iter().for_each(|receive| receive.await_free());
    }

    fn end(self: &Arc<Self>, transfer: TransferId, peer: PeerId, outcome: Result<()>) {
        let mut state = self.lock();
        state.table.ended(transfer, peer, outcome);
        self.act(state, None);
    }
}

/// Reports to a ready target that no bytes will be sent on a lane. Blocks until a lane is free.
fn notify_abandoned(outbox: &Arc<Outbox>, transfer: TransferId) {
    // A transfer that is dropped before its only byte is aborted. If that fails the target is gone.
    drop(outbox.begin(transfer, 1));
}

/// The destination of a transfer's bytes. Its last reference may end the device, so it is dropped without locks.
pub trait TransferTarget: Send + Sync {
    /// Returns a handle of the memory, for a source that may import it, or an empty one if the memory can't be exported. At most
    /// [`crate::frame::transfer::HANDLE_MAX`] bytes. Called without locks, when the bytes may be sent.
    fn export(&self) -> Vec<u8>;

    /// Returns the memory for a library that writes into it, and the posted receives of its device, or `None` if a library can't
    /// address it or another operation still writes there. Called without locks, when the bytes may be sent.
    fn native(&self) -> Option<(Arc<DeviceReceives>, NativeRange)>;

    /// Whether the memory still has no other writer, as far as known without the device. Called after posting, so that a later
    /// writer sees the receive, and this call sees an earlier writer. Called with locks.
    fn is_free(&self) -> bool;

    /// Starts to receive the bytes. Runs on the lane's thread and must not wait for the device. The implementation calls
    /// [`TransferEnding::landed`] with the outcome.
    fn start(&self, bytes: IncomingBytes, ending: TransferEnding);
}

/// The bytes of a transfer, for the device's stream.
pub struct IncomingBytes {
    exchange: Arc<Exchange>,
    transfer: TransferId,
    incoming: Incoming,
    /// Whether the source has failed, which the transfer's record says.
    are_lost: bool,
}

/// Reports how a transfer ended at its device.
pub struct TransferEnding {
    exchange: Arc<Exchange>,
    transfer: TransferId,
    peer: PeerId,
}

impl IncomingBytes {
    /// Returns the number of bytes of the transfer.
    pub fn total(&self) -> u64 {
        self.incoming.total()
    }

    /// Fills `piece` with the next bytes. If the source fails, `piece` stays unchanged and its pusher learns of the failure from
    /// [`TransferEnding`]: the stream serves copies from all peers, and must not fail with one of them.
    pub fn fill(&mut self, piece: &mut [u8]) {
        if !self.are_lost
            && let Err(error) = self.incoming.fill(piece)
        {
            self.lost(error);
        }
    }

    /// Whether [`IncomingBytes::fill_native`] may receive bytes.
    pub fn fills_native(&self) -> bool {
        self.incoming.fills_native()
    }

    /// Receives bytes as [`IncomingBytes::fill`], into device memory. Returns their number, or 0 if the host has to read the
    /// next ones.
    pub fn fill_native(&mut self, receive: NativeRange) -> usize {
        if self.are_lost {
            return receive.len;
        }
        self.incoming.fill_native(receive).unwrap_or_else(|error| {
            self.lost(error);
            receive.len
        })
    }

    fn lost(&mut self, error: Error) {
        self.are_lost = true;
        self.exchange.lock().table.bytes_lost(self.transfer, error);
    }
}

impl TransferEnding {
    /// Reports that the device has consumed the bytes, or has failed.
    pub fn landed(self, outcome: Result<()>) {
        self.exchange.end(self.transfer, self.peer, outcome);
    }
}

#[cfg(test)]
mod tests;
