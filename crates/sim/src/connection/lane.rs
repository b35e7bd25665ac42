//! A simulated lane: first in, first out, with delay, limited capacity, stalls and cuts.

use crate::random::Random;
use accord_fabric::frame::FrameReader;
use std::collections::VecDeque;

/// Bytes of a transfer that are sent in one piece.
pub(super) const PIECE: usize = 48;

/// The behaviour of a lane.
#[derive(Clone, Copy)]
pub(super) struct LaneBehaviour {
    /// Longest delay, in microseconds.
    pub(super) delay: u64,
    /// Capacity in bytes.
    pub(super) capacity: usize,
    /// Chance of a long stall, in percent.
    pub(super) stalls: u64,
}

pub(super) struct Lane<T> {
    lane_behaviour: LaneBehaviour,
    items: VecDeque<(u64, T, usize)>,
    bytes: usize,
    last: u64,
    /// Whether the lane no longer delivers anything, without notice to either end.
    pub(super) dead: bool,
}

impl<T> Lane<T> {
    pub(super) fn new(lane_behaviour: LaneBehaviour) -> Self {
        Self { lane_behaviour, items: VecDeque::new(), bytes: 0, last: 0, dead: false }
    }

    /// Returns the free capacity in bytes.
    pub(super) fn space(&self) -> usize {
        self.lane_behaviour.capacity.saturating_sub(self.bytes)
    }

    /// Whether nothing is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Sends an item. Returns its time of arrival.
    pub(super) fn put(&mut self, random: &mut Random, now: u64, item: T, bytes: usize) -> u64 {
        let mut at = now + 1 + random.within(0..self.lane_behaviour.delay);
        if random.chance(self.lane_behaviour.stalls) {
            at += random.within(0..5_000);
        }
        self.last = self.last.max(at);
        self.items.push_back((self.last, item, bytes));
        self.bytes += bytes;
        self.last
    }

    /// Returns the next item if it has arrived.
    pub(super) fn front(&self, now: u64) -> Option<&T> {
        self.items.front().filter(|(at, ..)| *at <= now && !self.dead).map(|(_, item, _)| item)
    }

    /// Puts back an item that was taken but not used.
    pub(super) fn put_back(&mut self, item: T, bytes: usize) {
        self.items.push_front((0, item, bytes));
        self.bytes += bytes;
    }

    pub(super) fn take(&mut self, now: u64) -> Option<T> {
        self.front(now)?;
        let (_, item, bytes) = self.items.pop_front()?;
        self.bytes -= bytes;
        Some(item)
    }
}

/// Reads arrived bytes into `reader` as from a socket, as many as fit. Returns `false` if none have arrived.
pub(super) fn read(lane: &mut Lane<Vec<u8>>, now: u64, reader: &mut FrameReader) -> bool {
    let Some(mut bytes) = lane.take(now) else { return false };
    let mut used = 0;
    // The closure returns no error.
    let _ = reader.fill(|space| {
        used = space.len().min(bytes.len());
        space[..used].copy_from_slice(&bytes[..used]);
        Ok(used)
    });
    if used < bytes.len() {
        let rest = bytes.split_off(used);
        let len = rest.len();
        lane.put_back(rest, len);
    }
    true
}
