//! A process's end of the lane by which the node's agent gives out turns on devices.

use accord_device::{TurnAgent, TurnKeeper};
use accord_fabric::transport::SharedLane;
use accord_fabric::turn_messages::{TurnChannel, TurnRequest};
use accord_types::NextTurn;
use accord_types::short_lock::ShortLock;
use accord_types::threads;
use accord_types::turn_lock::TurnLock;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The agent, over a lane. If it ends, all regions run.
pub struct TurnLane {
    channel: TurnChannel,
    /// Held while a device joins or leaves, whose messages are in the order of the changes, and at the lane's end.
    membership: TurnLock<()>,
    keepers: ShortLock<Keepers>,
}

#[derive(Default)]
struct Keepers {
    by_ordinal: BTreeMap<u32, Joined>,
    /// Number of joins so far.
    joins: u64,
    has_ended: bool,
}

/// The keepers of a lane that has ended.
pub struct EndedTurns {
    /// Ordinals and keepers of the devices that were joined.
    pub keepers: Vec<(u32, Arc<TurnKeeper>)>,
    /// Whether the agent has given a turn: it gives none, and closes the lane, if the session shares no device.
    pub gave_turns: bool,
}

/// The keeper of a device that has joined.
struct Joined {
    /// The number of its join, which the agent's messages name: those for an earlier keeper of the device may still arrive.
    number: u64,
    keeper: Arc<TurnKeeper>,
}

impl TurnLane {
    /// Starts the thread that reads the lane. It calls `on_end` at the lane's end.
    ///
    /// # Errors
    /// Returns the system's error if there is no thread.
    pub fn start(lane: SharedLane, on_end: impl FnOnce(EndedTurns) + Send + 'static) -> io::Result<Arc<Self>> {
        let (membership, keepers) = (TurnLock::default(), ShortLock::default());
        let this = Arc::new(Self { channel: TurnChannel::new(lane), membership, keepers });
        let reader = this.clone();
        threads::spawn("accord-turns", move || {
            let ended = reader.read();
            drop(reader);
            on_end(ended);
        })?;
        Ok(this)
    }

    /// Whether the agent has closed the lane, or ended.
    pub fn has_ended(&self) -> bool {
        self.keepers.lock().has_ended
    }

    /// Reads to the lane's end, and releases the keepers of the devices that are joined.
    fn read(&self) -> EndedTurns {
        let mut gave_turns = false;
        while let Ok(hold) = self.channel.receive_hold() {
            gave_turns = true;
            let keepers = self.keepers.lock();
            let joined = keepers.by_ordinal.get(&hold.ordinal).filter(|joined| joined.number == hold.join);
            let keeper = joined.map(|joined| joined.keeper.clone());
            drop(keepers);
            if let Some(keeper) = keeper {
                keeper.hold(hold.turn, hold.limit);
            }
        }
        // A device that joins meanwhile is released, too.
        let _one = self.membership.take();
        let mut keepers = self.keepers.lock();
        keepers.has_ended = true;
        let released = std::mem::take(&mut keepers.by_ordinal);
        drop(keepers);
        released.values().for_each(|joined| joined.keeper.release());
        let keepers = released.into_iter().map(|(ordinal, joined)| (ordinal, joined.keeper)).collect();
        EndedTurns { keepers, gave_turns }
    }

    /// Joins as [`TurnAgent::join`]. Returns `false` if the lane had ended before, so that the keeper is not among
    /// [`EndedTurns::keepers`].
    pub fn try_join(&self, ordinal: u32, keeper: &Arc<TurnKeeper>) -> bool {
        let _one = self.membership.take();
        if keeper.has_ended() {
            // The device may have started anew, and its next keeper joined.
            return true;
        }
        let mut keepers = self.keepers.lock();
        if keepers.has_ended {
            drop(keepers);
            keeper.release();
            return false;
        }
        keepers.joins += 1;
        let number = keepers.joins;
        keepers.by_ordinal.insert(ordinal, Joined { number, keeper: keeper.clone() });
        drop(keepers);
        self.send(TurnRequest::Join { ordinal, number });
        // After the message, as the agent ignores wishes of a process that has not joined.
        keeper.hold_back();
        true
    }

    fn send(&self, request: TurnRequest) {
        // The reader finds the end of the lane, too.
        let _ = self.channel.send_request(request);
    }
}

impl TurnAgent for TurnLane {
    fn join(&self, ordinal: u32, keeper: &Arc<TurnKeeper>) {
        self.try_join(ordinal, keeper);
    }

    fn wants(&self, ordinal: u32) {
        self.send(TurnRequest::Wants { ordinal });
    }

    fn returns(&self, ordinal: u32, turn: u64, next: NextTurn) {
        self.send(TurnRequest::Returns { ordinal, turn, next });
    }

    fn leave(&self, ordinal: u32, keeper: &Arc<TurnKeeper>) {
        let _one = self.membership.take();
        let mut keepers = self.keepers.lock();
        let is_current = keepers.by_ordinal.get(&ordinal).is_some_and(|current| Arc::ptr_eq(&current.keeper, keeper));
        if !is_current {
            // The device has started anew.
            return;
        }
        keepers.by_ordinal.remove(&ordinal);
        drop(keepers);
        self.send(TurnRequest::Leave { ordinal });
    }
}
