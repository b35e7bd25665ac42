//! Pools of slots. A slot's number is that of its event.

use super::faults::{Fault, Slots};

/// Slots of small copies, which nothing waits for, and of others.
pub(super) const SMALL: usize = 3;
const LARGE: usize = 3;

/// The pool of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pool {
    Small,
    Large,
}

pub(super) struct Pools {
    small: Slots,
    large: Slots,
    /// Whether slots have a holder.
    held: [bool; SMALL + LARGE],
}

impl Pools {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Self { small: Slots::new(SMALL, fault), large: Slots::new(LARGE, fault), held: [false; SMALL + LARGE] }
    }

    pub(super) fn count(&self) -> usize {
        self.held.len()
    }

    pub(super) fn of(&mut self, pool: Pool) -> &mut Slots {
        match pool {
            Pool::Small => &mut self.small,
            Pool::Large => &mut self.large,
        }
    }

    fn home(slot: usize) -> Pool {
        if slot < SMALL { Pool::Small } else { Pool::Large }
    }

    /// Takes a slot back that the device does not use.
    pub(super) fn give_back(&mut self, slot: usize) {
        self.held[slot] = false;
        self.of(Self::home(slot)).rules().give_back(slot);
    }

    /// Takes a slot back that the device uses until its event.
    pub(super) fn give_back_in_use(&mut self, slot: usize) {
        self.held[slot] = false;
        self.of(Self::home(slot)).give_back_in_use(slot);
    }

    /// Records that a slot has a holder. Returns whether it had one.
    pub(super) fn hold(&mut self, slot: usize) -> bool {
        std::mem::replace(&mut self.held[slot], true)
    }

    /// Returns the number of slots that have not returned.
    pub(super) fn missing(&mut self) -> usize {
        let missing = |slots: &mut Slots| slots.rules().made() - slots.rules().all().count();
        missing(&mut self.small) + missing(&mut self.large)
    }
}
