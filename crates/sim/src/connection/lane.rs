//! A lane: what is put in comes out in order, later. It holds only so much, stalls, and may be cut.

use crate::random::Random;
use accord_fabric::frame::FrameReader;
use std::collections::VecDeque;

/// Bytes of a transfer that travel together.
pub(super) const PIECE: usize = 48;

/// How a lane behaves.
#[derive(Clone, Copy)]
pub(super) struct Weather {
    /// Microseconds on the way.
    pub(super) delay: u64,
    /// Bytes that it holds.
    pub(super) capacity: usize,
    /// Chance in percent that something is held up for long.
    pub(super) stalls: u64,
}

pub(super) struct Lane<T> {
    weather: Weather,
    items: VecDeque<(u64, T, usize)>,
    bytes: usize,
    last: u64,
    /// Nothing comes out any more, and neither end is told.
    pub(super) dead: bool,
}

impl<T> Lane<T> {
    pub(super) fn new(weather: Weather) -> Self {
        Self { weather, items: VecDeque::new(), bytes: 0, last: 0, dead: false }
    }

    /// Bytes for which there is room.
    pub(super) fn room(&self) -> usize {
        self.weather.capacity.saturating_sub(self.bytes)
    }

    /// Whether nothing is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Puts something in. Returns when it comes out.
    pub(super) fn put(&mut self, random: &mut Random, now: u64, item: T, bytes: usize) -> u64 {
        let mut at = now + 1 + random.within(0..self.weather.delay);
        if random.chance(self.weather.stalls) {
            at += random.within(0..5_000);
        }
        self.last = self.last.max(at);
        self.items.push_back((self.last, item, bytes));
        self.bytes += bytes;
        self.last
    }

    /// What comes out next, if it is there.
    pub(super) fn front(&self, now: u64) -> Option<&T> {
        self.items.front().filter(|(at, ..)| *at <= now && !self.dead).map(|(_, item, _)| item)
    }

    /// Puts back what was taken and not used.
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

/// Reads bytes from a lane as from a socket: as many as there is room for. False if none are there.
pub(super) fn read(lane: &mut Lane<Vec<u8>>, now: u64, reader: &mut FrameReader) -> bool {
    let Some(mut bytes) = lane.take(now) else { return false };
    let mut used = 0;
    // It can't fail.
    let _ = reader.fill(|room| {
        used = room.len().min(bytes.len());
        room[..used].copy_from_slice(&bytes[..used]);
        Ok(used)
    });
    if used < bytes.len() {
        let rest = bytes.split_off(used);
        let len = rest.len();
        lane.put_back(rest, len);
    }
    true
}
