//! Copies between devices of different processes: what [`ExchangeCore`] decides, with threads that wait for it and lanes that
//! carry the bytes.

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

/// Begins to take a transfer's bytes; runs on the lane's thread and must not wait for the device.
pub type Starter = Box<dyn FnOnce(IncomingTransfer) + Send>;

/// Gives a handle of the memory that a transfer goes to, for a pusher that may reach it; empty if there is no such way. At most
/// [`crate::frame::transfer::HANDLE_MAX`] bytes. Called without locks, when the bytes may come.
pub type Export = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// Told how many copies that were pushed and that were expected are over. Called without locks.
pub type TellOver = Box<dyn Fn(u32, u32) + Send + Sync>;

/// All copies that one process pushes or expects.
#[derive(Default)]
pub struct Exchange {
    state: ShortLock<TransferTable>,
    /// Copies are over, for whoever waits for room.
    over: Condvar,
    tell_over: Option<TellOver>,
    /// How long targets took lately until they were ready, or had the bytes.
    targets: SharedSpinPolicy,
}

struct TransferTable {
    core: ExchangeCore<Expected>,
    peers: HashMap<PeerId, Present>,
    /// Told when the push goes on: its stream may wait for that.
    pushing: HashMap<TransferId, Arc<Signal>>,
    /// Room that is posted for transfers.
    rooms: HashMap<TransferId, TransferRoom>,
    /// Threads that wait for room.
    waiting: usize,
}

/// Ways by which bytes may come to a target's memory without its host.
#[derive(Default)]
pub struct DirectWays {
    /// The memory's handle.
    pub export: Option<Export>,
    /// The memory itself, for a library that writes there.
    pub room: Option<DeviceRoom>,
}

/// What is announced with a transfer.
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
    /// A program's exchange, without peers.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// An executor's: says that copies are over, so that its program may begin others.
    pub fn telling(tell_over: TellOver) -> Arc<Self> {
        let core = ExchangeCore::new(Some(EXCHANGE_STEP));
        let state = ShortLock::new(TransferTable { core, ..TransferTable::default() });
        Arc::new(Self { state, tell_over: Some(tell_over), ..Self::default() })
    }

    fn lock(&self) -> ShortGuard<'_, TransferTable> {
        self.state.lock()
    }

    /// Does what the core wants done. `outbox`: to the peer that it is about, if that is one that is pushed to.
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
            // Whom it is about is gone, or it is dropped.
            _ => {}
        }
    }

    /// Waits until a program's own process may push, or with `expects` expect, one more transfer. No thread that ends one may do so.
    ///
    /// # Errors
    /// When the exchange is closed.
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

    /// Waits until this process may push one more transfer, for a program: who ends one must not.
    ///
    /// # Errors
    /// When the exchange is closed.
    pub fn wait_to_push(&self) -> Result<()> {
        self.wait_for_room(ExchangeCore::pushes)
    }

    /// As [`Exchange::wait_to_push`], to expect one.
    ///
    /// # Errors
    /// When the exchange is closed.
    pub fn wait_to_expect(&self) -> Result<()> {
        self.wait_for_room(ExchangeCore::expects)
    }

    // The pusher's side.

    /// A control message of a target came, `from`; what it has to be told goes over `outbox`.
    ///
    /// # Errors
    /// When that breaks the protocol.
    pub fn on_control(self: &Arc<Self>, from: PeerId, message: ControlMessage, outbox: &Arc<Outbox>) -> Result<()> {
        let mut state = self.lock();
        state.core.on_control(from, message)?;
        self.act(state, Some(outbox));
        Ok(())
    }

    /// The way to a peer is gone: pushes to it end with `error`.
    pub fn push_lost(self: &Arc<Self>, peer: PeerId, error: &Error) {
        let mut state = self.lock();
        state.core.push_lost(peer, error);
        self.act(state, None);
    }

    // The target's side.

    /// Expects a transfer of `len` bytes. Nothing is asked for before [`Exchange::due`].
    ///
    /// # Errors
    /// When the transfer is known already, there are too many, or the exchange is closed.
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

    /// A transfer was announced for which there is no place: its pusher is told.
    ///
    /// # Errors
    /// As for [`Exchange::expect`].
    pub fn refuse(self: &Arc<Self>, transfer: TransferId, from: PeerId, why: Error) -> Result<()> {
        self.announced(transfer, from, Err(why))
    }

    fn announced(self: &Arc<Self>, transfer: TransferId, from: PeerId, place: Result<Expected>) -> Result<()> {
        let mut state = self.lock();
        let outcome = state.core.expect(transfer, from, place);
        self.act(state, None);
        outcome
    }

    /// What stood before the transfer on its target is done, or failed.
    pub fn due(self: &Arc<Self>, transfer: TransferId, outcome: Result<()>) {
        let mut state = self.lock();
        state.core.due(transfer, outcome);
        self.act(state, None);
    }

    /// Whether nothing is taken any more from the lane of a peer.
    pub fn is_over(&self, peer: PeerId) -> bool {
        self.lock().core.is_over(peer)
    }

    /// A peer can be talked to, and its bytes come in through `inbox`.
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
        // It comes by a lane, or not at all.
        if let Some(room) = room {
            room.withdraw(transfer);
        }
        // Else the peer was lost meanwhile, or has nothing to give.
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

    /// A peer is gone: what it was to push is forgotten.
    pub fn peer_lost(self: &Arc<Self>, peer: PeerId) {
        let mut state = self.lock();
        state.core.peer_lost(peer);
        self.act(state, None);
    }

    /// Ends everything: pushes fail with `error`. When it returns nobody writes into room that was posted.
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

/// Tells a target that the bytes for which it is ready will not come over a lane. Waits for one.
fn tell_abandoned(outbox: &Arc<Outbox>, transfer: TransferId) {
    // Dropped before its only byte, the transfer is aborted. The target is gone if that fails.
    drop(outbox.begin(transfer, 1));
}

/// A transfer that arrives: gives the bytes to the device. [`IncomingTransfer::landed`] has to be told how it ended.
pub struct IncomingTransfer {
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
    failure: Arc<ShortLock<Option<Error>>>,
}

/// The bytes of an [`IncomingTransfer`].
pub struct IncomingBytes {
    incoming: Incoming,
    failure: Arc<ShortLock<Option<Error>>>,
}

impl IncomingTransfer {
    /// The bytes, for the device's stream, and what to call when they have landed.
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
    /// Fills `piece` with the next bytes. If the pusher fails, the piece stays as it is and the
    /// [`Ending`] knows: the stream that takes copies from all sides must not fail with one of them.
    pub fn fill(&mut self, piece: &mut [u8]) {
        let has_failed = self.failure.lock().is_some();
        if !has_failed && let Err(error) = self.incoming.fill(piece) {
            *self.failure.lock() = Some(error);
        }
    }

    /// Whether [`IncomingBytes::fill_native`] may put something there.
    pub fn fills_native(&self) -> bool {
        self.incoming.fills_native()
    }

    /// As [`IncomingBytes::fill`], into the device's own memory: how many bytes are there now; 0 if the next ones have to be read by the host.
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
    /// The device is done with the bytes, or failed.
    pub fn landed(self, outcome: Result<()>) {
        let failure = self.failure.lock().take();
        let outcome = failure.map_or(outcome, Err);
        self.exchange.end(self.transfer, self.peer, outcome);
    }
}

#[cfg(test)]
mod tests;
