//! Credit for bytes in flight. It bounds a rank's memory, however many ranks send to it and however slowly its lanes
//! are read.
//!
//! Each lane always has a credit of [`BASE`], so that no lane is starved by others. A lane with more to send requests
//! credit, and gets a [`QUANTUM`] from the rank's [`POOL`], in the order of requests. Credit returns to the pool when the
//! bytes are read, or when an idle sender gives it back. A pair of ranks or an idle lane reserves none.
//!
//! A message's overhead counts too, because many small messages would otherwise use unbounded memory.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};

/// Credit that a lane always has.
pub(super) const BASE: u64 = 256 << 10;
/// Credit that a lane gets at a time.
const QUANTUM: u64 = 2 << 20;
/// Most credit from the pool that one lane holds.
const LANE_MAX: u64 = 8 << 20;
/// Most credit from the pool that all lanes of a rank hold.
pub(super) const POOL: u64 = 64 << 20;
/// Overhead of a message.
const MESSAGE: u64 = 64;

/// Returns the credit that a message with so many bytes takes.
pub(super) fn cost(bytes: usize) -> u64 {
    bytes as u64 + MESSAGE
}

/// The sender's side of a lane's credit.
#[derive(Debug)]
pub(super) struct Outflow {
    sent: u64,
    granted: u64,
    /// Whether a request is pending.
    asked: bool,
    /// The value of `sent` at the last [`Outflow::give_back`].
    seen: u64,
}

impl Default for Outflow {
    fn default() -> Self {
        Self { sent: 0, granted: BASE, asked: false, seen: 0 }
    }
}

impl Outflow {
    /// Whether the credit suffices for a message of this cost.
    pub(super) fn may_send(&self, cost: u64) -> bool {
        self.granted - self.sent >= cost
    }

    /// Records a sent message.
    pub(super) fn send(&mut self, cost: u64) {
        self.sent += cost;
    }

    /// Whether to request credit for queued messages of this cost. A result of `true` counts as the request.
    pub(super) fn asks(&mut self, queued: u64) -> bool {
        let asks = !self.asked && self.granted - self.sent < queued;
        self.asked |= asks;
        asks
    }

    /// Raises the total that the lane may have sent to `total`.
    pub(super) fn grant(&mut self, total: u64) {
        self.granted = self.granted.max(total);
        self.asked = false;
    }

    /// Gives back all credit above [`BASE`] if no message was sent since the last call. For lanes with an empty queue. Returns
    /// the previous total that the lane might have sent.
    pub(super) fn give_back(&mut self) -> Option<u64> {
        let unused = std::mem::replace(&mut self.seen, self.sent) == self.sent;
        let keeps = self.sent + BASE;
        (unused && keeps < self.granted).then(|| std::mem::replace(&mut self.granted, keeps))
    }
}

/// The receiver's side of a lane's credit.
#[derive(Debug)]
struct Inflow {
    received: u64,
    taken: u64,
    granted: u64,
    waits: bool,
}

impl Inflow {
    /// Returns the credit that the lane holds from the pool.
    fn exposed(&self) -> u64 {
        (self.granted - self.taken).saturating_sub(BASE)
    }
}

/// The receiver's side of all lanes of a rank, by their keys `K`.
#[derive(Debug)]
pub(super) struct Credits<K> {
    lanes: BTreeMap<K, Inflow>,
    exposed: u64,
    /// Lanes whose request is pending.
    waiting: VecDeque<K>,
    /// Grants to send: the totals that the lanes may have sent.
    grants: VecDeque<(K, u64)>,
}

impl<K: Ord + Copy> Credits<K> {
    pub(super) fn new() -> Self {
        Self { lanes: BTreeMap::new(), exposed: 0, waiting: VecDeque::new(), grants: VecDeque::new() }
    }

    /// Adds a lane.
    pub(super) fn add(&mut self, lane: K) {
        self.lanes.insert(lane, Inflow { received: 0, taken: 0, granted: BASE, waits: false });
    }

    /// Removes a lane and returns its credit to the pool.
    pub(super) fn remove(&mut self, lane: K) {
        if let Some(gone) = self.lanes.remove(&lane) {
            self.exposed -= gone.exposed();
            if gone.waits {
                self.waiting.retain(|waits| *waits != lane);
            }
            self.grants.retain(|(to, _)| *to != lane);
            self.serve();
        }
    }

    /// Records a received message of this cost.
    ///
    /// # Errors
    /// Returns `InvalidData` if the message exceeds the sender's credit.
    pub(super) fn receive(&mut self, lane: K, cost: u64) -> io::Result<()> {
        let Some(inflow) = self.lanes.get_mut(&lane) else { return Ok(()) };
        if inflow.granted - inflow.received < cost {
            return Err(io::Error::new(ErrorKind::InvalidData, "a rank sends more than it may"));
        }
        inflow.received += cost;
        Ok(())
    }

    /// Records that a message of this cost was read.
    pub(super) fn take(&mut self, lane: K, cost: u64) {
        self.change(lane, |inflow| inflow.taken += cost);
        self.refill(lane);
        self.serve();
    }

    /// Records the sender's request for credit.
    pub(super) fn ask(&mut self, lane: K) {
        if let Some(inflow) = self.lanes.get_mut(&lane)
            && !std::mem::replace(&mut inflow.waits, true)
        {
            self.waiting.push_back(lane);
            self.serve();
        }
    }

    /// Takes back all credit above [`BASE`]. `known` is the total that the sender believed it might send. If a larger grant
    /// is in flight, it stays valid and no credit is taken back.
    ///
    /// # Errors
    /// Returns `InvalidData` if `known` was never granted.
    pub(super) fn take_back(&mut self, lane: K, known: u64) -> io::Result<()> {
        let Some(inflow) = self.lanes.get(&lane) else { return Ok(()) };
        if known > inflow.granted {
            return Err(io::Error::new(ErrorKind::InvalidData, "a rank gives back what it does not have"));
        }
        if known == inflow.granted {
            // Messages keep their order, so that all sent ones have been received.
            self.change(lane, |inflow| inflow.granted = inflow.granted.min(inflow.received + BASE));
            self.serve();
        }
        Ok(())
    }

    /// Whether a lane holds credit from the pool.
    pub(super) fn has_pool_credit(&self, lane: K) -> bool {
        self.lanes.get(&lane).is_some_and(|inflow| inflow.exposed() > 0)
    }

    /// Returns the next grant to send: a lane, and the total that it may have sent.
    pub(super) fn next_grant(&mut self) -> Option<(K, u64)> {
        self.grants.pop_front()
    }

    fn change(&mut self, lane: K, change: impl FnOnce(&mut Inflow)) {
        if let Some(inflow) = self.lanes.get_mut(&lane) {
            self.exposed -= inflow.exposed();
            change(inflow);
            self.exposed += inflow.exposed();
        }
    }

    fn grant(&mut self, lane: K, total: u64) {
        self.change(lane, |inflow| inflow.granted = total);
        match self.grants.iter_mut().find(|(to, _)| *to == lane) {
            Some((_, granted)) => *granted = total,
            None => self.grants.push_back((lane, total)),
        }
    }

    /// Restores the lane's base credit once half of it is used, or a quarter if everything sent was read.
    fn refill(&mut self, lane: K) {
        let Some(inflow) = self.lanes.get(&lane) else { return };
        let full = inflow.taken + BASE;
        let used = full.saturating_sub(inflow.granted);
        if used >= BASE / 2 || (used > 0 && inflow.received == inflow.taken && used > BASE / 4) {
            self.grant(lane, full);
        }
    }

    /// Grants credit to pending requests while the pool lasts.
    fn serve(&mut self) {
        let mut at = 0;
        while let Some(lane) = self.waiting.get(at).copied() {
            let Some(inflow) = self.lanes.get_mut(&lane) else { break };
            if self.exposed + QUANTUM > POOL {
                break;
            }
            // The lane's reader is slow, which must not delay other lanes.
            if inflow.exposed() + QUANTUM > LANE_MAX {
                at += 1;
                continue;
            }
            inflow.waits = false;
            let total = inflow.granted.max(inflow.taken + BASE) + QUANTUM;
            self.waiting.remove(at);
            self.grant(lane, total);
        }
    }

    /// Returns the credit that all lanes hold from the pool.
    #[cfg(test)]
    pub(super) fn exposed(&self) -> u64 {
        assert_eq!(self.exposed, self.lanes.values().map(Inflow::exposed).sum::<u64>());
        self.exposed
    }
}

#[cfg(test)]
mod tests;
