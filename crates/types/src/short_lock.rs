//! Locks for decisions, held for a short time only: never while a call may wait for a device, another node or the program's own
//! code. Debug builds check it before every such call.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// A mutex that no thread holds over a call that may wait. A panic of its holder leaves it usable.
#[derive(Default, Debug)]
pub struct ShortLock<T>(Mutex<T>);

/// What [`ShortLock::lock`] gives.
pub struct ShortGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    #[allow(dead_code, reason = "it counts until it is dropped")]
    mark: Mark,
}

impl<T> ShortLock<T> {
    /// One that holds this.
    pub const fn new(held: T) -> Self {
        Self(Mutex::new(held))
    }

    /// Locks it.
    pub fn lock(&self) -> ShortGuard<'_, T> {
        ShortGuard { guard: self.0.lock().unwrap_or_else(PoisonError::into_inner), mark: Mark::new() }
    }
}

impl<T> ShortLock<T> {
    /// Locks it unless somebody has it.
    pub fn try_lock(&self) -> Option<ShortGuard<'_, T>> {
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(ShortGuard { guard, mark: Mark::new() })
    }
}

impl<'a, T> ShortGuard<'a, T> {
    /// Waits for `condition` with the lock given up.
    pub fn wait(this: Self, condition: &Condvar) -> Self {
        let Self { guard, mark } = this;
        drop(mark);
        assert_none_held();
        let guard: MutexGuard<'a, T> = condition.wait(guard).unwrap_or_else(PoisonError::into_inner);
        Self { guard, mark: Mark::new() }
    }

    /// As [`ShortGuard::wait`], for so long at most. Whether that time is over.
    pub fn wait_timeout(this: Self, condition: &Condvar, time: Duration) -> (Self, bool) {
        let Self { guard, mark } = this;
        drop(mark);
        assert_none_held();
        let (guard, waited) = condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
        (Self { guard, mark: Mark::new() }, waited.timed_out())
    }
}

impl<T> Deref for ShortGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for ShortGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// To be called before anything that may wait.
///
/// # Panics
/// In debug builds, if this thread holds a [`ShortLock`].
#[inline]
pub fn assert_none_held() {
    #[cfg(debug_assertions)]
    HELD.with(|held| assert_eq!(held.get(), 0, "a lock is held over a call that may wait"));
}

#[cfg(debug_assertions)]
thread_local! {
    static HELD: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Counts the locks that a thread holds.
struct Mark;

impl Mark {
    #[inline]
    fn new() -> Self {
        #[cfg(debug_assertions)]
        HELD.with(|held| held.set(held.get() + 1));
        Self
    }
}

#[cfg(debug_assertions)]
impl Drop for Mark {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get() - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_may_wait_is_free_of_locks() {
        let lock = ShortLock::<u32>::default();
        assert_none_held();
        *lock.lock() += 1;
        assert_none_held();
        let held = lock.lock();
        assert!(std::panic::catch_unwind(assert_none_held).is_err(), "it was not noticed");
        drop(held);
        assert_none_held();
        assert_eq!(*lock.lock(), 1);
    }
}
