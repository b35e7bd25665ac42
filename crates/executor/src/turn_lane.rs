//! A process's end of the lane by which the node's agent gives out turns on devices, and suspends the process's work on them.

use accord_device::{TurnAgent, TurnKeeper, resume, suspend};
use accord_fabric::transport::SharedLane;
use accord_fabric::turn_messages::{HoldTurn, TurnChannel, TurnOrder, TurnRequest};
use accord_types::SuspendRefusal;
use accord_types::short_lock::ShortLock;
use accord_types::threads;
use accord_types::turn_lock::TurnLock;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Opens another lane to the agent, after the earlier one has ended.
pub type Reconnect = Box<dyn Fn() -> Option<SharedLane> + Send + Sync>;

/// The pause before an attempt to reconnect.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// The agent, over a lane. If it ends, all regions run; suspended work waits for another agent.
pub struct TurnLane {
    channel: ShortLock<Arc<TurnChannel>>,
    reconnect: Option<Reconnect>,
    /// Held while a device joins or leaves, whose messages are in the order of the changes.
    membership: TurnLock<()>,
    /// Held while the work is suspended or resumed.
    suspension: TurnLock<()>,
    keepers: ShortLock<Keepers>,
}

#[derive(Default)]
struct Keepers {
    by_ordinal: BTreeMap<u32, Joined>,
    /// Number of joins so far.
    joins: u64,
    has_ended: bool,
    /// The bytes of host memory that the suspended work takes; `None` if it is not suspended.
    suspended: Option<u64>,
}

/// The keeper of a device that has joined.
struct Joined {
    /// The number of its join, which the agent's messages name: those for an earlier keeper of the device may still arrive.
    number: u64,
    keeper: Arc<TurnKeeper>,
}

impl TurnLane {
    /// Starts the thread that reads the lane. `reconnect` opens another one if the agent ends while the work is suspended.
    ///
    /// # Errors
    /// Returns the system's error if there is no thread.
    pub fn start(lane: SharedLane, reconnect: Option<Reconnect>) -> io::Result<Arc<Self>> {
        let (membership, suspension, keepers) = (TurnLock::default(), TurnLock::default(), ShortLock::default());
        let channel = ShortLock::new(Arc::new(TurnChannel::new(lane)));
        let this = Arc::new(Self { channel, reconnect, membership, suspension, keepers });
        let reader = this.clone();
        threads::spawn("accord-turns", move || reader.read())?;
        Ok(this)
    }

    /// Whether the agent has closed the lane, or ended.
    pub fn has_ended(&self) -> bool {
        self.keepers.lock().has_ended
    }

    fn read(self: Arc<Self>) {
        loop {
            let channel = self.channel();
            while let Ok(order) = channel.receive_order() {
                match order {
                    TurnOrder::Hold(hold) => self.hold(hold),
                    TurnOrder::Suspend { room } => self.in_background(move |this| this.suspend(room)),
                    TurnOrder::Resume => self.in_background(|this| this.resume()),
                }
            }
            if !self.has_reconnected() {
                break;
            }
        }
        let mut keepers = self.keepers.lock();
        keepers.has_ended = true;
        let released = std::mem::take(&mut keepers.by_ordinal);
        drop(keepers);
        released.into_values().for_each(|joined| joined.keeper.release());
    }

    /// Opens another lane while the work is suspended: another job may have the devices. Returns `false` if it is not, or there
    /// is no work any more.
    fn has_reconnected(&self) -> bool {
        let Some(reconnect) = &self.reconnect else { return false };
        loop {
            let keepers = self.keepers.lock();
            let Some(bytes) = keepers.suspended.filter(|_| !keepers.by_ordinal.is_empty()) else { return false };
            drop(keepers);
            std::thread::sleep(RECONNECT_PAUSE);
            let Some(lane) = reconnect() else { continue };
            let _one = self.membership.take();
            *self.channel.lock() = Arc::new(TurnChannel::new(lane));
            let keepers = self.keepers.lock();
            let joined: Vec<(u32, u64)> =
                keepers.by_ordinal.iter().map(|(ordinal, joined)| (*ordinal, joined.number)).collect();
            drop(keepers);
            joined.into_iter().for_each(|(ordinal, number)| self.send(TurnRequest::Join { ordinal, number }));
            self.send(TurnRequest::Suspended { bytes });
            return true;
        }
    }

    fn hold(&self, hold: HoldTurn) {
        let keepers = self.keepers.lock();
        let joined = keepers.by_ordinal.get(&hold.ordinal).filter(|joined| joined.number == hold.join);
        let keeper = joined.map(|joined| joined.keeper.clone());
        drop(keepers);
        if let Some(keeper) = keeper {
            keeper.hold(hold.turn, hold.limit);
        }
    }

    /// Carries an order out on a thread of its own: regions that must end before may need turns.
    fn in_background(self: &Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) {
        let this = self.clone();
        let started = threads::spawn("accord-suspend", move || work(&this));
        if let Err(error) = started {
            let code = error.raw_os_error().unwrap_or(0);
            self.send(TurnRequest::Refused(SuspendRefusal::Failed(code)));
        }
    }

    fn suspend(&self, room: u64) {
        let _one = self.suspension.take();
        if let Some(bytes) = self.keepers.lock().suspended {
            return self.send(TurnRequest::Suspended { bytes });
        }
        // No device joins meanwhile.
        let _members = self.membership.take();
        match suspend(&self.keepers(), room) {
            Ok(bytes) => {
                self.keepers.lock().suspended = Some(bytes);
                self.send(TurnRequest::Suspended { bytes });
            }
            Err(why) => self.send(TurnRequest::Refused(why)),
        }
    }

    fn resume(&self) {
        let _one = self.suspension.take();
        let is_suspended = self.keepers.lock().suspended.is_some();
        let _members = self.membership.take();
        match if is_suspended { resume(&self.keepers()) } else { Ok(()) } {
            Ok(()) => {
                self.keepers.lock().suspended = None;
                self.send(TurnRequest::Resumed);
            }
            Err(why) => self.send(TurnRequest::Refused(why)),
        }
    }

    fn keepers(&self) -> Vec<Arc<TurnKeeper>> {
        self.keepers.lock().by_ordinal.values().map(|joined| joined.keeper.clone()).collect()
    }

    fn channel(&self) -> Arc<TurnChannel> {
        self.channel.lock().clone()
    }

    fn send(&self, request: TurnRequest) {
        // The reader finds the end of the lane, too.
        let _ = self.channel().send_request(request);
    }
}

impl TurnAgent for TurnLane {
    fn join(&self, ordinal: u32, keeper: &Arc<TurnKeeper>) {
        let _one = self.membership.take();
        if keeper.has_ended() {
            // The device may have started anew, and its next keeper joined.
            return;
        }
        let mut keepers = self.keepers.lock();
        if keepers.has_ended {
            drop(keepers);
            return keeper.release();
        }
        keepers.joins += 1;
        let number = keepers.joins;
        keepers.by_ordinal.insert(ordinal, Joined { number, keeper: keeper.clone() });
        let is_suspended = keepers.suspended.is_some();
        drop(keepers);
        if is_suspended {
            // A device without memory has nothing to refuse.
            let _ = suspend(std::slice::from_ref(keeper), u64::MAX);
        }
        self.send(TurnRequest::Join { ordinal, number });
    }

    fn wants(&self, ordinal: u32) {
        self.send(TurnRequest::Wants { ordinal });
    }

    fn returns(&self, ordinal: u32, turn: u64, wants: bool) {
        self.send(TurnRequest::Returns { ordinal, turn, wants });
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
