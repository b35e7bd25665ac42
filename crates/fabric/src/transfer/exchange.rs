//! Copies between devices of different processes: [`ExchangeCore`] with threads that block and lanes that carry the
//! bytes.

mod core;
mod posting;
pub(super) mod pushing;
mod rooms;

pub use self::core::{ExchangeCore, ExchangeEffect};
pub use self::rooms::{DeviceRoom, DeviceRooms, RoomPlace};

use self::rooms::TransferRoom;
use super::control::{ControlMessage, TransferControl};
use super::inbox::{Inbox, Incoming};
use super::outbox::Outbox;
use crate::frame::{EXCHANGE_STEP, EXCHANGE_WINDOW};
use crate::peer::PeerId;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::signal::{SharedSpinPolicy, Signal};
use accord_types::{Error, NativeRange, Result, TransferId};
use std::collections::HashMap;
use std::sync::{Arc, Condvar};

/// Starts to receive a transfer's bytes. Runs on the lane's thread and must not wait for the device.
pub type Starter = Box<dyn FnOnce(IncomingTransfer) + Send>;

/// Returns a handle of a transfer's target memory, for a pusher that may import it, or an empty one if the memory can't
/// be exported. At most [`crate::frame::transfer::HANDLE_MAX`] bytes. Called without locks, when the bytes may be sent.
pub type Export = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// Called with the numbers of pushed and expected copies that are over. Called without locks.
pub type TellOver = Box<dyn Fn(u32, u32) + Send + Sync>;

/// All copies that one process pushes or expects.
#[derive(Default)]
pub struct Exchange {
    state: ShortLock<TransferTable>,
    /// Notified when copies are over.
    over: Condvar,
    tell_over: Option<TellOver>,
    /// Recent times until targets were ready, or had the bytes.
    targets: SharedSpinPolicy,
}

struct TransferTable {
    core: ExchangeCore<Expected>,
    peers: HashMap<PeerId, Present>,
    /// Raised when a push may continue; its stream may be blocked on it.
    pushing: HashMap<TransferId, Arc<Signal>>,
    /// Receives posted for transfers.
    rooms: HashMap<TransferId, TransferRoom>,
    /// Threads blocked on the exchange window.
    waiting: usize,
}

/// Ways by which bytes may reach a target's memory without its host.
#[derive(Default)]
pub struct DirectWays {
    /// The memory's handle.
    pub export: Option<Export>,
    /// The memory itself, for a library that writes into it.
    pub room: Option<DeviceRoom>,
}

/// A receive for an expected transfer.
struct Expected {
    len: u64,
    starter: Starter,
    ways: DirectWays,
}

#[derive(Clone)]
struct Present {
    control: Arc<dyn TransferControl>,
    inbox: Arc<Inbox>,
}

impl Default for TransferTable {
    fn default() -> Self {
        let core = ExchangeCore::new(None);
        Self { core, peers: HashMap::new(), pushing: HashMap::new(), rooms: HashMap::new(), waiting: 0 }
    }
}

impl Exchange {
    /// Creates a program's exchange, without peers.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Creates an executor's exchange. It reports copies that are over, so that the program may start others.
    pub fn telling(tell_over: TellOver) -> Arc<Self> {
        let core = ExchangeCore::new(Some(EXCHANGE_STEP));
        let state = ShortLock::new(TransferTable { core, ..TransferTable::default() });
        Arc::new(Self { state, tell_over: Some(tell_over), ..Self::default() })
    }

    fn lock(&self) -> ShortGuard<'_, TransferTable> {
        self.state.lock()
    }

    /// Carries out the core's effects. `outbox` is that of the pushed-to peer that they concern, if any.
    fn act(self: &Arc<Self>, mut state: ShortGuard<'_, TransferTable>, outbox: Option<&Arc<Outbox>>) {
        let TransferTable { core, peers, pushing, waiting, .. } = &mut *state;
        let mut present = |effect: &ExchangeEffect<_>| match effect {
            ExchangeEffect::Gone(peer, _) => peers.remove(peer),
            effect => peers.get(&effect.peer()?).cloned(),
        };
        let (mut effects, mut going_on) = (Vec::new(), Vec::new());
        for effect in core.effects() {
            match effect {
                ExchangeEffect::Push(transfer) => going_on.extend(pushing.get(&transfer).cloned()),
                effect => effects.push((present(&effect), effect)),
            }
        }
        let room_wanted = *waiting > 0;
        drop(state);
        going_on.iter().for_each(|changed| changed.raise());
        if room_wanted {
            self.over.notify_all();
        }
        effects.into_iter().for_each(|(present, effect)| self.do_one(effect, present, outbox));
    }

    fn do_one(
        self: &Arc<Self>,
        effect: ExchangeEffect<Expected>,
        present: Option<Present>,
        outbox: Option<&Arc<Outbox>>,
    ) {
        match (effect, present) {
            (ExchangeEffect::Ready { peer, transfer, expected: Expected { len, starter, ways } }, Some(present)) => {
                let exchange = self.clone();
                let begin = move |incoming| exchange.begin(transfer, peer, incoming, starter);
                present.inbox.post(transfer, len, Box::new(begin));
                let handle = ways.export.map_or_else(Vec::new, |export| export());
                let room = ways.room.filter(|_| handle.is_empty());
                match room.and_then(|room| self.post_room((transfer, len), peer, room, &present)) {
                    Some(room) => present.control.ready_with_room(transfer, room),
                    None => present.control.ready(transfer, handle),
                }
            }
            (ExchangeEffect::Landed(_, transfer), Some(present)) => present.control.landed(transfer),
            (ExchangeEffect::Refused(_, transfer, error), Some(present)) => present.control.refused(transfer, &error),
            (ExchangeEffect::Failed(_, transfer, error), Some(present)) => present.control.failed(transfer, &error),
            (ExchangeEffect::Abandon(_, transfer), _) => {
                if let Some(outbox) = outbox {
                    tell_abandoned(outbox, transfer);
                }
            }
            (ExchangeEffect::Gone(_, told), Some(present)) => {
                told.iter().for_each(|transfer| present.inbox.forget(*transfer));
                self.abandon_rooms(&told);
            }
            (ExchangeEffect::Over { pushes, expects }, _) => {
                if let Some(tell) = &self.tell_over {
                    tell(pushes, expects);
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
    fn wait_for_room(&self, transfers: impl Fn(&ExchangeCore<Expected>) -> usize) -> Result<()> {
        let mut state = self.lock();
        loop {
            state.core.check()?;
            if transfers(&state.core) < EXCHANGE_WINDOW as usize {
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
        self.wait_for_room(ExchangeCore::pushes)
    }

    /// Waits as [`Exchange::wait_to_push`], to expect a transfer.
    ///
    /// # Errors
    /// Returns the error of [`Exchange::close`] once the exchange is closed.
    pub fn wait_to_expect(&self) -> Result<()> {
        self.wait_for_room(ExchangeCore::expects)
    }

    // The pusher's side.

    /// Handles a control message of the target `from`; replies go over `outbox`.
    ///
    /// # Errors
    /// Returns an error if the message breaks the protocol.
    pub fn on_control(self: &Arc<Self>, from: PeerId, message: ControlMessage, outbox: &Arc<Outbox>) -> Result<()> {
        let mut state = self.lock();
        state.core.on_control(from, message)?;
        self.act(state, Some(outbox));
        Ok(())
    }

    /// Ends the pushes to a peer that can't be reached any more with `error`.
    pub fn push_lost(self: &Arc<Self>, peer: PeerId, error: &Error) {
        let mut state = self.lock();
        state.core.push_lost(peer, error);
        self.act(state, None);
    }

    // The target's side.

    /// Expects a transfer of `len` bytes. Nothing is requested before [`Exchange::due`].
    ///
    /// # Errors
    /// Returns an error if the transfer is already expected, too many are, or the exchange is closed.
    pub fn expect(
        self: &Arc<Self>,
        transfer: TransferId,
        from: PeerId,
        len: u64,
        starter: Starter,
        ways: DirectWays,
    ) -> Result<()> {
        self.announced(transfer, from, Ok(Expected { len, starter, ways }))
    }

    /// Refuses an announced transfer that has no destination: its pusher gets `why`.
    ///
    /// # Errors
    /// Returns the errors of [`Exchange::expect`].
    pub fn refuse(self: &Arc<Self>, transfer: TransferId, from: PeerId, why: Error) -> Result<()> {
        self.announced(transfer, from, Err(why))
    }

    fn announced(self: &Arc<Self>, transfer: TransferId, from: PeerId, place: Result<Expected>) -> Result<()> {
        let mut state = self.lock();
        let outcome = state.core.expect(transfer, from, place);
        self.act(state, None);
        outcome
    }

    /// Records that all work ahead of the transfer on its target is done, or has failed.
    pub fn due(self: &Arc<Self>, transfer: TransferId, outcome: Result<()>) {
        let mut state = self.lock();
        state.core.due(transfer, outcome);
        self.act(state, None);
    }

    /// Whether the lane of a peer is no longer read.
    pub fn is_over(&self, peer: PeerId) -> bool {
        self.lock().core.is_over(peer)
    }

    /// Registers a peer, whose messages go over `control` and whose bytes arrive through `inbox`.
    pub fn arrived(self: &Arc<Self>, peer: PeerId, control: Arc<dyn TransferControl>, inbox: Arc<Inbox>) {
        let mut state = self.lock();
        let before = state.peers.insert(peer, Present { control, inbox });
        state.core.arrived(peer);
        self.act(state, None);
        drop(before);
    }

    fn begin(self: &Arc<Self>, transfer: TransferId, peer: PeerId, incoming: Incoming, starter: Starter) {
        let mut state = self.lock();
        let begun = state.core.begin(transfer, peer, incoming.aborted());
        let room = state.rooms.remove(&transfer);
        self.act(state, None);
        // The bytes arrive on a lane, or not at all.
        if let Some(room) = room {
            room.withdraw(transfer);
        }
        // Otherwise the peer was lost meanwhile, or has aborted the transfer.
        if begun == Ok(true) {
            starter(IncomingTransfer {
                exchange: self.clone(),
                peer,
                incoming: Some(incoming),
                transfer,
                failed: None,
            });
        }
    }

    /// Drops the expected transfers of a peer that is gone.
    pub fn peer_lost(self: &Arc<Self>, peer: PeerId) {
        let mut state = self.lock();
        state.core.peer_lost(peer);
        self.act(state, None);
    }

    /// Ends all transfers; pushes fail with `error`. After the return no posted receive is written.
    pub fn close(self: &Arc<Self>, error: &Error) {
        let mut state = self.lock();
        state.core.close(error);
        let peers = std::mem::take(&mut state.peers);
        self.act(state, None);
        drop(peers);
        self.end_rooms();
    }

    fn end(self: &Arc<Self>, transfer: TransferId, peer: PeerId, outcome: Result<()>) {
        let mut state = self.lock();
        state.core.ended(transfer, peer, outcome);
        self.act(state, None);
    }
}

/// Reports to a ready target that no bytes will be sent on a lane. Blocks until a lane is free.
fn tell_abandoned(outbox: &Arc<Outbox>, transfer: TransferId) {
    // A transfer that is dropped before its only byte is aborted. If that fails the target is gone.
    drop(outbox.begin(transfer, 1));
}

/// An arriving transfer, whose bytes go to the device. The caller must call [`Ending::landed`] with the outcome.
pub struct IncomingTransfer {
    exchange: Arc<Exchange>,
    peer: PeerId,
    incoming: Option<Incoming>,
    transfer: TransferId,
    failed: Option<Error>,
}

/// Reports how a transfer ended.
pub struct Ending {
    exchange: Arc<Exchange>,
    peer: PeerId,
    transfer: TransferId,
    failure: Arc<ShortLock<Option<Error>>>,
}

/// The bytes of an [`IncomingTransfer`].
pub struct IncomingBytes {
    incoming: Incoming,
    failure: Arc<ShortLock<Option<Error>>>,
}

impl IncomingTransfer {
    /// Returns the bytes, for the device's stream, and the object to report their outcome to.
    pub fn split(mut self) -> Option<(IncomingBytes, Ending)> {
        let failure = Arc::new(ShortLock::new(self.failed.take()));
        let ending = Ending {
            exchange: self.exchange.clone(),
            peer: self.peer,
            transfer: self.transfer,
            failure: failure.clone(),
        };
        Some((IncomingBytes { incoming: self.incoming.take()?, failure }, ending))
    }
}

impl IncomingBytes {
    /// Fills `piece` with the next bytes. If the pusher fails, `piece` stays unchanged and [`Ending`] reports the failure: the
    /// stream serves copies from all peers, and must not fail with one of them.
    pub fn fill(&mut self, piece: &mut [u8]) {
        let has_failed = self.failure.lock().is_some();
        if !has_failed && let Err(error) = self.incoming.fill(piece) {
            *self.failure.lock() = Some(error);
        }
    }

    /// Whether [`IncomingBytes::fill_native`] may receive bytes.
    pub fn fills_native(&self) -> bool {
        self.incoming.fills_native()
    }

    /// Receives bytes as [`IncomingBytes::fill`], into device memory. Returns their number, or 0 if the host has to read the
    /// next ones.
    pub fn fill_native(&mut self, room: NativeRange) -> usize {
        if self.failure.lock().is_some() {
            return room.len;
        }
        self.incoming.fill_native(room).unwrap_or_else(|error| {
            *self.failure.lock() = Some(error);
            room.len
        })
    }
}

impl Ending {
    /// Reports that the device has consumed the bytes, or has failed.
    pub fn landed(self, outcome: Result<()>) {
        let failure = self.failure.lock().take();
        let outcome = failure.map_or(outcome, Err);
        self.exchange.end(self.transfer, self.peer, outcome);
    }
}

#[cfg(test)]
mod tests;
