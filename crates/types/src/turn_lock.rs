//! Turns: locks that a thread may hold while it waits.
//!
//! A turn protects nothing that another thread needs for a decision; quick decisions are made under a [`ShortLock`].
//! Taking a turn may block until its holder is done, so a thread that holds a [`ShortLock`] must not take one: debug
//! builds check that. A house rule lists all turns, with the event that each holder waits for and the threads that it
//! blocks (`tests/tests/tidy/locks.rs`).
//!
//! [`ShortLock`]: crate::short_lock::ShortLock

use crate::short_lock::{assert_none_held, soon};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// A lock that is held over calls that may block. A panic of its holder leaves it usable.
#[derive(Default, Debug)]
pub struct TurnLock<T>(Mutex<T>);

impl<T> TurnLock<T> {
    /// Creates a turn around a value.
    pub const fn new(held: T) -> Self {
        Self(Mutex::new(held))
    }

    /// Takes the turn. Spins first, since most turns are short.
    pub fn take(&self) -> MutexGuard<'_, T> {
        assert_none_held();
        match self.try_take() {
            Some(guard) => guard,
            None => self.take_late(),
        }
    }

    #[cold]
    fn take_late(&self) -> MutexGuard<'_, T> {
        soon(|| self.try_take()).unwrap_or_else(|| self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the turn unless it is held.
    pub fn try_take(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns the value; `&mut self` excludes other holders.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for `condition` with the turn released.
pub fn wait<'a, T>(guard: MutexGuard<'a, T>, condition: &Condvar) -> MutexGuard<'a, T> {
    assert_none_held();
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits as [`wait`], at most for `time`.
pub fn wait_timeout<'a, T>(guard: MutexGuard<'a, T>, condition: &Condvar, time: Duration) -> MutexGuard<'a, T> {
    assert_none_held();
    condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::short_lock::ShortLock;

    #[test]
    fn a_wait_for_a_turn_with_a_lock_held_panics() {
        let (lock, turn) = (ShortLock::new(1), TurnLock::new(2));
        let held = lock.lock();
        let taken = std::panic::AssertUnwindSafe(|| *turn.take());
        assert!(std::panic::catch_unwind(taken).is_err(), "it was not noticed");
        assert_eq!(turn.try_take().map(|held| *held), Some(2), "a try does not wait");
        drop(held);
        let mine = turn.take();
        assert!(turn.try_take().is_none());
        // The other nesting is the intended one.
        assert_eq!(*mine + *lock.lock(), 3);
    }
}
