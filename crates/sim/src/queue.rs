//! The event queue of virtual time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Events in the order of their time, and of their insertion for the same time.
#[derive(Debug)]
pub struct EventQueue<E> {
    now: u64,
    added: u64,
    events: BTreeMap<Reverse<(u64, u64)>, E>,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { now: 0, added: 0, events: BTreeMap::new() }
    }
}

impl<E> EventQueue<E> {
    /// Returns the milliseconds since the beginning.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Adds an event at `time`, or now if that has passed.
    pub fn add(&mut self, time: u64, event: E) {
        self.added += 1;
        self.events.insert(Reverse((time.max(self.now), self.added)), event);
    }

    /// Removes the next event and advances the time to it, unless it is later than `until`.
    pub fn next(&mut self, until: u64) -> Option<E> {
        let entry = self.events.last_entry()?;
        let Reverse((time, _)) = *entry.key();
        if time > until {
            return None;
        }
        self.now = time;
        Some(entry.remove())
    }
}
