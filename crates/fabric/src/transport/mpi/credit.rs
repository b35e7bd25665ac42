//! How many bytes may be on their way to whom, so that a rank's memory is bounded however many others send to it and however slowly
//! its lanes are read.
//!
//! Each lane may always have [`BASE`] under way: so it goes on whatever others do, and nothing can stand still for lack of room. A lane
//! with more to send asks, and is lent a [`QUANTUM`] from the rank's [`POOL`], in the order of asking. What was lent is free again when
//! it has been read, or when its sender gives it back since it has nothing to send. Nothing is reserved for a pair of ranks, nor for a
//! lane that is not used.
//!
//! Bytes are counted with what a message costs beside them, else many small ones would take memory that nobody counts.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};

/// What a lane may always have under way.
pub(super) const BASE: u64 = 256 << 10;
/// What a lane is lent at one time.
const QUANTUM: u64 = 2 << 20;
/// The most that one lane is lent.
const LANE_MAX: u64 = 8 << 20;
/// The most that all lanes of a rank are lent.
pub(super) const POOL: u64 = 64 << 20;
/// What a message costs beside its bytes.
const MESSAGE: u64 = 64;

/// What a message with so many bytes of a lane counts.
pub(super) fn cost(bytes: usize) -> u64 {
    bytes as u64 + MESSAGE
}

/// The sender's side of a lane.
#[derive(Debug)]
pub(super) struct Outflow {
    sent: u64,
    granted: u64,
    /// It has asked, and nothing has come since.
    asked: bool,
    /// What was sent when that was last looked at.
    seen: u64,
}

impl Default for Outflow {
    fn default() -> Self {
        Self { sent: 0, granted: BASE, asked: false, seen: 0 }
    }
}

impl Outflow {
    /// Whether a message that counts `cost` may go.
    pub(super) fn may_send(&self, cost: u64) -> bool {
        self.granted - self.sent >= cost
    }

    /// It goes.
    pub(super) fn send(&mut self, cost: u64) {
        self.sent += cost;
    }

    /// Whether to ask for more, with what counts `queued` to send. It counts as asked then.
    pub(super) fn asks(&mut self, queued: u64) -> bool {
        let asks = !self.asked && self.granted - self.sent < queued;
        self.asked |= asks;
        asks
    }

    /// It may have sent `total`.
    pub(super) fn grant(&mut self, total: u64) {
        self.granted = self.granted.max(total);
        self.asked = false;
    }

    /// Gives back what it may send, but for what a lane may always have, if it has sent nothing since the last call; it is for lanes
    /// with nothing to send. Returns what it might have sent.
    pub(super) fn give_back(&mut self) -> Option<u64> {
        let unused = std::mem::replace(&mut self.seen, self.sent) == self.sent;
        let keeps = self.sent + BASE;
        (unused && keeps < self.granted).then(|| std::mem::replace(&mut self.granted, keeps))
    }
}

/// The receiver's side of a lane.
#[derive(Debug)]
struct Inflow {
    received: u64,
    taken: u64,
    granted: u64,
    waits: bool,
}

impl Inflow {
    /// What it is lent.
    fn lent(&self) -> u64 {
        (self.granted - self.taken).saturating_sub(BASE)
    }
}

/// The receiver's side of all lanes of a rank, which are named by `K`.
#[derive(Debug)]
pub(super) struct Credits<K> {
    lanes: BTreeMap<K, Inflow>,
    lent: u64,
    /// Who has asked and was not given.
    waiting: VecDeque<K>,
    /// What senders have to be told: what they may have sent.
    grants: VecDeque<(K, u64)>,
}

impl<K: Ord + Copy> Credits<K> {
    pub(super) fn new() -> Self {
        Self { lanes: BTreeMap::new(), lent: 0, waiting: VecDeque::new(), grants: VecDeque::new() }
    }

    /// A lane begins.
    pub(super) fn add(&mut self, lane: K) {
        self.lanes.insert(lane, Inflow { received: 0, taken: 0, granted: BASE, waits: false });
    }

    /// A lane is over, and what was received of it is forgotten.
    pub(super) fn remove(&mut self, lane: K) {
        if let Some(gone) = self.lanes.remove(&lane) {
            self.lent -= gone.lent();
            if gone.waits {
                self.waiting.retain(|waits| *waits != lane);
            }
            self.grants.retain(|(to, _)| *to != lane);
            self.serve();
        }
    }

    /// A message that counts `cost` has come.
    ///
    /// # Errors
    /// If its sender may not have sent it.
    pub(super) fn receive(&mut self, lane: K, cost: u64) -> io::Result<()> {
        let Some(inflow) = self.lanes.get_mut(&lane) else { return Ok(()) };
        if inflow.granted - inflow.received < cost {
            return Err(io::Error::new(ErrorKind::InvalidData, "a rank sends more than it may"));
        }
        inflow.received += cost;
        Ok(())
    }

    /// A message that counts `cost` was read.
    pub(super) fn take(&mut self, lane: K, cost: u64) {
        self.change(lane, |inflow| inflow.taken += cost);
        self.refill(lane);
        self.serve();
    }

    /// The sender has more than it may send.
    pub(super) fn ask(&mut self, lane: K) {
        if let Some(inflow) = self.lanes.get_mut(&lane)
            && !std::mem::replace(&mut inflow.waits, true)
        {
            self.waiting.push_back(lane);
            self.serve();
        }
    }

    /// The sender gives back what it may send, but for what a lane may always have. It knows that it might have sent `known`. If it was
    /// granted more meanwhile, then that holds for both.
    ///
    /// # Errors
    /// If it was not granted that.
    pub(super) fn take_back(&mut self, lane: K, known: u64) -> io::Result<()> {
        let Some(inflow) = self.lanes.get(&lane) else { return Ok(()) };
        if known > inflow.granted {
            return Err(io::Error::new(ErrorKind::InvalidData, "a rank gives back what it does not have"));
        }
        if known == inflow.granted {
            // All that it has sent is here: messages keep their order.
            self.change(lane, |inflow| inflow.granted = inflow.granted.min(inflow.received + BASE));
            self.serve();
        }
        Ok(())
    }

    /// Whether a lane has more than it may always have.
    pub(super) fn lends_to(&self, lane: K) -> bool {
        self.lanes.get(&lane).is_some_and(|inflow| inflow.lent() > 0)
    }

    /// The next sender to be told, and what it may have sent.
    pub(super) fn next_grant(&mut self) -> Option<(K, u64)> {
        self.grants.pop_front()
    }

    fn change(&mut self, lane: K, change: impl FnOnce(&mut Inflow)) {
        if let Some(inflow) = self.lanes.get_mut(&lane) {
            self.lent -= inflow.lent();
            change(inflow);
            self.lent += inflow.lent();
        }
    }

    fn grant(&mut self, lane: K, total: u64) {
        self.change(lane, |inflow| inflow.granted = total);
        match self.grants.iter_mut().find(|(to, _)| *to == lane) {
            Some((_, granted)) => *granted = total,
            None => self.grants.push_back((lane, total)),
        }
    }

    /// What a lane may always have is had again, when half of it is used or the sender may have no more.
    fn refill(&mut self, lane: K) {
        let Some(inflow) = self.lanes.get(&lane) else { return };
        let full = inflow.taken + BASE;
        let used = full.saturating_sub(inflow.granted);
        if used >= BASE / 2 || (used > 0 && inflow.received == inflow.taken && used > BASE / 4) {
            self.grant(lane, full);
        }
    }

    /// Lends to those who have asked, while there is something to lend.
    fn serve(&mut self) {
        let mut at = 0;
        while let Some(lane) = self.waiting.get(at).copied() {
            let Some(inflow) = self.lanes.get_mut(&lane) else { break };
            if self.lent + QUANTUM > POOL {
                break;
            }
            // Its reader is slow: others don't wait for that.
            if inflow.lent() + QUANTUM > LANE_MAX {
                at += 1;
                continue;
            }
            inflow.waits = false;
            let total = inflow.granted.max(inflow.taken + BASE) + QUANTUM;
            self.waiting.remove(at);
            self.grant(lane, total);
        }
    }

    /// What all lanes may have under way beyond what each always may.
    #[cfg(test)]
    pub(super) fn lent(&self) -> u64 {
        assert_eq!(self.lent, self.lanes.values().map(Inflow::lent).sum::<u64>());
        self.lent
    }
}

#[cfg(test)]
mod tests;
