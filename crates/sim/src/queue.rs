//! Virtual time: what happens next.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Events in the order of their time; those of one time in the order in which they were added.
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
    /// Milliseconds since the beginning.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Adds an event that happens at `time`, or now if that is over.
    pub fn add(&mut self, time: u64, event: E) {
        self.added += 1;
        self.events.insert(Reverse((time.max(self.now), self.added)), event);
    }

    /// Goes on to the next event, unless it lies after `until`.
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
