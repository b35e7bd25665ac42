//! A process's end of the lane by which the node's agent gives out turns on devices, and suspends the process's work on them.

use crate::suspend_memory::AgentMemory;
use crate::suspend_orders::{SuspendOrder, SuspendOrders};
use accord_device::{KeptMemory, TurnAgent, TurnKeeper, hold_anyway, resume, suspend};
use accord_fabric::transport::SharedLane;
use accord_fabric::turn_messages::{HoldTurn, MemoryBound, TurnChannel, TurnOrder, TurnRequest};
use accord_types::short_lock::ShortLock;
use accord_types::threads;
use accord_types::turn_lock::TurnLock;
use accord_types::{NextTurn, SuspendRefusal};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The agent, over a lane. If it ends, all regions run; suspended work waits for another agent.
pub struct TurnLane {
    channel: TurnChannel,
    /// Held while a device joins or leaves, whose messages are in the order of the changes, and at the lane's end.
    membership: TurnLock<()>,
    keepers: ShortLock<Keepers>,
    orders: SuspendOrders,
    /// The agent's answer to a need of host memory.
    memory: AgentMemory,
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

/// The keepers of a lane that has ended.
pub struct EndedTurns {
    /// Ordinals and keepers of the devices that were joined.
    pub keepers: Vec<(u32, Arc<TurnKeeper>)>,
    /// Whether the agent has given a turn: it gives none, and closes the lane, if the session is of no job.
    pub gave_turns: bool,
    /// The bytes of host memory that the suspended work takes; `None` if it is not suspended.
    pub suspended: Option<u64>,
}

/// The keeper of a device that has joined.
struct Joined {
    /// The number of its join, which the agent's messages name: those for an earlier keeper of the device may still arrive.
    number: u64,
    keeper: Arc<TurnKeeper>,
}

/// The outcome of a keeper's join.
enum Insertion {
    /// The join's number.
    Joined(u64),
    DeviceEnded,
    /// The keeper is not among [`EndedTurns::keepers`].
    LaneEnded,
}

impl TurnLane {
    /// Starts the thread that reads the lane. It calls `on_end` at the lane's end.
    ///
    /// # Errors
    /// Returns the system's error if there is no thread.
    pub fn start(lane: SharedLane, on_end: impl FnOnce(EndedTurns) + Send + 'static) -> io::Result<Arc<Self>> {
        let (membership, keepers) = (TurnLock::default(), ShortLock::default());
        let (orders, memory) = (SuspendOrders::default(), AgentMemory::default());
        let this = Arc::new(Self { channel: TurnChannel::new(lane), membership, keepers, orders, memory });
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

    /// Joins the devices of a lane that has ended. Their work stays suspended if it was. Those are left in `ended` that did not
    /// join, because this lane has ended, too.
    pub fn join_again(&self, ended: &mut EndedTurns) {
        let _one = self.membership.take();
        if let Some(bytes) = ended.suspended {
            let earlier = self.keepers.lock().suspended.replace(bytes);
            if earlier.is_none() {
                hold_anyway(&self.keepers());
            }
        }
        ended.keepers.retain(|(ordinal, keeper)| match self.insert(*ordinal, keeper) {
            Insertion::Joined(number) => {
                self.announce(*ordinal, number, keeper);
                false
            }
            Insertion::DeviceEnded => false,
            Insertion::LaneEnded => true,
        });
        if let Some(bytes) = ended.suspended {
            self.send(TurnRequest::Suspended { bytes });
        }
    }

    /// Reads to the lane's end, and releases the keepers of the devices that are joined.
    fn read(self: &Arc<Self>) -> EndedTurns {
        let mut gave_turns = false;
        while let Ok(order) = self.channel.receive_order() {
            match order {
                TurnOrder::Hold(hold) => {
                    gave_turns = true;
                    self.hold(hold);
                }
                TurnOrder::Suspend(bound) => self.obey(SuspendOrder::Suspend(bound)),
                TurnOrder::Resume => self.obey(SuspendOrder::Resume),
                TurnOrder::Memory { bytes, files } => match self.receive_memory(files) {
                    Ok(kept) => self.memory.granted(bytes, kept),
                    Err(_) => break,
                },
            }
        }
        self.channel.close();
        // Orders that have not begun are void, as the work goes on as it is.
        self.orders.clear();
        self.memory.ended();
        // A device that joins meanwhile is released, too.
        let _one = self.membership.take();
        let mut keepers = self.keepers.lock();
        keepers.has_ended = true;
        let suspended = keepers.suspended.take();
        let released = std::mem::take(&mut keepers.by_ordinal);
        drop(keepers);
        released.values().for_each(|joined| joined.keeper.release());
        let keepers = released.into_iter().map(|(ordinal, joined)| (ordinal, joined.keeper)).collect();
        EndedTurns { keepers, gave_turns, suspended }
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

    /// Maps the files of the agent's memory. Descriptors are closed batch by batch, since a process may have few.
    fn receive_memory(&self, files: u32) -> io::Result<KeptMemory> {
        let (mut kept, mut left) = (KeptMemory::default(), files as usize);
        while left > 0 {
            let received = self.channel.receive_files()?;
            left = left.checked_sub(received.len()).ok_or(io::ErrorKind::InvalidData)?;
            kept.extend(KeptMemory::map(received)?);
        }
        Ok(kept)
    }

    /// Carries an order out after those before, on a thread of its own: regions that must end before may need turns.
    fn obey(self: &Arc<Self>, order: SuspendOrder) {
        if !self.orders.put(order) {
            // The agent awaits an answer before it sends the next order.
            self.channel.close();
            return;
        }
        if !self.orders.needs_thread() {
            return;
        }
        let this = self.clone();
        let serve = move || {
            while let Some(order) = this.orders.next() {
                match order {
                    SuspendOrder::Suspend(bound) => this.suspend(bound),
                    SuspendOrder::Resume => this.resume(),
                }
            }
        };
        if let Err(error) = threads::spawn("accord-suspend", serve) {
            let code = error.raw_os_error().unwrap_or(0);
            self.orders.no_thread();
            self.send(TurnRequest::Refused(SuspendRefusal::Failed(code)));
        }
    }

    fn suspend(&self, bound: MemoryBound) {
        // No device joins meanwhile, and none of a lane that has ended.
        let _members = self.membership.take();
        let earlier = self.keepers.lock().suspended;
        if let Some(bytes) = earlier {
            return self.send(TurnRequest::Suspended { bytes });
        }
        let reserve = |needed| match bound {
            MemoryBound::Unbounded => Ok(KeptMemory::default()),
            MemoryBound::OfAgent => self.memory.ask(needed, || self.send(TurnRequest::Needs { bytes: needed })),
        };
        match suspend(&self.keepers(), reserve) {
            Ok(bytes) => {
                self.keepers.lock().suspended = Some(bytes);
                self.send(TurnRequest::Suspended { bytes });
            }
            Err(_) if bound == MemoryBound::Unbounded => {
                // The job is suspended already.
                hold_anyway(&self.keepers());
                self.keepers.lock().suspended = Some(0);
                self.send(TurnRequest::Suspended { bytes: 0 });
            }
            Err(why) => self.send(TurnRequest::Refused(why)),
        }
    }

    fn resume(&self) {
        let _members = self.membership.take();
        let is_suspended = self.keepers.lock().suspended.is_some();
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

    /// Inserts a keeper, while the caller holds `membership`.
    fn insert(&self, ordinal: u32, keeper: &Arc<TurnKeeper>) -> Insertion {
        if keeper.has_ended() {
            // The device may have started anew, and its next keeper joined.
            return Insertion::DeviceEnded;
        }
        let mut keepers = self.keepers.lock();
        if keepers.has_ended {
            drop(keepers);
            keeper.release();
            return Insertion::LaneEnded;
        }
        keepers.joins += 1;
        let number = keepers.joins;
        keepers.by_ordinal.insert(ordinal, Joined { number, keeper: keeper.clone() });
        Insertion::Joined(number)
    }

    /// Reports an inserted keeper to the agent.
    fn announce(&self, ordinal: u32, number: u64, keeper: &TurnKeeper) {
        self.send(TurnRequest::Join { ordinal, number });
        // After the message, as the agent ignores wishes of a process that has not joined.
        keeper.hold_back();
    }

    fn send(&self, request: TurnRequest) {
        // The reader finds the end of the lane, too.
        let _ = self.channel.send_request(request);
    }
}

impl TurnAgent for TurnLane {
    fn join(&self, ordinal: u32, keeper: &Arc<TurnKeeper>) {
        let _one = self.membership.take();
        let Insertion::Joined(number) = self.insert(ordinal, keeper) else { return };
        let is_suspended = self.keepers.lock().suspended.is_some();
        if is_suspended {
            hold_anyway(std::slice::from_ref(keeper));
        }
        self.announce(ordinal, number, keeper);
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

#[cfg(test)]
mod tests {
    use super::*;
    use accord_fabric::transport::local_pair;

    #[test]
    fn a_slow_process_carries_orders_out_in_their_order() {
        let (agent, process) = local_pair().unwrap();
        let agent = TurnChannel::new(agent);
        let (end, ended) = std::sync::mpsc::channel();
        let lane = TurnLane::start(process, move |turns| end.send(turns.suspended).unwrap()).unwrap();
        // A device joins, which takes long.
        let slow = lane.membership.take();
        for _ in 0..4 {
            agent.send_order(TurnOrder::Suspend(MemoryBound::OfAgent)).unwrap();
            agent.send_order(TurnOrder::Resume).unwrap();
        }
        drop(slow);
        for _ in 0..4 {
            assert_eq!(agent.receive_request(|| true).unwrap(), TurnRequest::Suspended { bytes: 0 });
            assert_eq!(agent.receive_request(|| true).unwrap(), TurnRequest::Resumed);
        }
        agent.send_order(TurnOrder::Suspend(MemoryBound::OfAgent)).unwrap();
        assert_eq!(agent.receive_request(|| true).unwrap(), TurnRequest::Suspended { bytes: 0 });
        agent.close();
        assert_eq!(ended.recv().unwrap(), Some(0), "suspended work waits for another agent");
    }

    #[test]
    fn more_orders_than_an_agent_sends_end_the_lane() {
        let (agent, process) = local_pair().unwrap();
        let agent = TurnChannel::new(agent);
        let lane = TurnLane::start(process, drop).unwrap();
        let slow = lane.membership.take();
        while agent.send_order(TurnOrder::Resume).is_ok() {}
        drop(slow);
        while agent.receive_request(|| true).is_ok() {}
    }
}
