//! The slots of a pool: staging buffers, each with an event that tells when the device has passed its last use.

use std::collections::VecDeque;

/// Slots in use that are queried before others are made or waited for. Each query is a call of the driver.
const QUERIES_MAX: usize = 3;
/// Number of slots that are made first.
const FIRST: usize = 2;

/// The decisions of a pool of slots `T`.
pub struct SlotCore<T> {
    /// Most slots that are made.
    most: usize,
    /// Most slots that are made at a time.
    batch: usize,
    made: usize,
    free: Vec<T>,
    /// Slots that the device still uses, until their events happen. The first ones are the oldest.
    in_use: VecDeque<T>,
}

/// The next step of a caller that needs a slot.
#[derive(PartialEq, Eq, Debug)]
pub enum SlotStep<T> {
    /// The slot is the caller's.
    Take(T),
    /// Query the event of this slot. If it has happened, [`SlotCore::reuse`] returns the slot; otherwise ask again with one query more.
    Query(T),
    /// Make as many slots, and [`SlotCore::add`] them.
    Make(usize),
    /// Wait: for the oldest slot that the device uses, or else for a holder that gives one back.
    Wait,
}

impl<T: Copy> SlotCore<T> {
    /// Returns a pool that makes at most `most` slots, `batch` at a time.
    pub fn new(most: usize, batch: usize) -> Self {
        Self { most, batch, made: 0, free: Vec::new(), in_use: VecDeque::new() }
    }

    /// Returns the next step of a caller that has made `queries` without success.
    pub fn step(&mut self, queries: usize) -> SlotStep<T> {
        if let Some(slot) = self.free.pop() {
            return SlotStep::Take(slot);
        }
        // The oldest slots are done first.
        if queries < QUERIES_MAX
            && let Some(slot) = self.in_use.get(queries)
        {
            return SlotStep::Query(*slot);
        }
        if self.made < self.most {
            let count = self.made.max(FIRST).min(self.batch).min(self.most - self.made);
            return SlotStep::Make(count);
        }
        SlotStep::Wait
    }

    /// Removes and returns the slot that was queried after `queries` others: the device has passed its event.
    pub fn reuse(&mut self, queries: usize) -> Option<T> {
        self.in_use.remove(queries)
    }

    /// Adds slots that were made.
    pub fn add(&mut self, slots: impl IntoIterator<Item = T>) {
        let before = self.free.len();
        self.free.extend(slots);
        self.made += self.free.len() - before;
    }

    /// Records that there is no memory for further slots.
    pub fn is_exhausted(&mut self) {
        self.most = self.made;
    }

    /// Removes and returns the oldest slot that the device uses, to wait for its event without the lock. The caller then
    /// passes it to [`SlotCore::give_back`].
    pub fn oldest(&mut self) -> Option<T> {
        self.in_use.pop_front()
    }

    /// Takes a slot back that the device does not use.
    pub fn give_back(&mut self, slot: T) {
        self.free.push(slot);
    }

    /// Takes a slot back that the device uses until the slot's event.
    pub fn give_back_in_use(&mut self, slot: T) {
        self.in_use.push_back(slot);
    }

    /// Returns all slots without a holder.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.free.iter().chain(&self.in_use)
    }

    /// Returns the number of slots that were made.
    pub fn made(&self) -> usize {
        self.made
    }
}
