//! Turns: what one thread at a time does although it may wait meanwhile.
//!
//! A turn holds nothing that another thread needs for a decision; what is decided quickly is under a [`ShortLock`].
//! Taking a turn may block until its holder is done, so no thread takes one with a [`ShortLock`] held: debug builds
//! check that. The house rules list all turns, each with the event that its holder waits for and the threads that it
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
    /// One that holds this.
    pub const fn new(held: T) -> Self {
        Self(Mutex::new(held))
    }

    /// Takes it. Most turns end soon, too.
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

    /// Takes it unless it is held.
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

/// Waits for `condition` with the turn given up.
pub fn wait<'a, T>(guard: MutexGuard<'a, T>, condition: &Condvar) -> MutexGuard<'a, T> {
    assert_none_held();
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits as [`wait`], for so long at most.
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
        // The other way round is how it is meant.
        assert_eq!(*mine + *lock.lock(), 3);
    }
}
