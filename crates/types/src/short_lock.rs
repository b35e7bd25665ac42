//! Locks for decisions, held only briefly: never while a call may wait for a device, another node or the program's own
//! code. Debug builds check that before every such call. A lock that must be held over one is a
//! [`crate::turn_lock::TurnLock`].

use crate::spin_policy::poll_until;
use std::hint::spin_loop;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

/// The time for which a thread spins for a held lock before it blocks: about the time to wake a thread on an idle core
/// of a virtual machine. Few holders take a tenth of it.
const SOON: Duration = Duration::from_micros(50);
/// Number of tries before the core is yielded once.
const TRIES: u32 = 4;
/// Number of pause instructions between tries: each try takes the lock's cache line from its holder.
const PAUSES: u32 = 4;

/// A mutex that no thread holds over a call that may wait. A panic of its holder leaves it usable.
#[derive(Default, Debug)]
pub struct ShortLock<T>(Mutex<T>);

/// A [`ShortLock`] for data that is read often and changed rarely.
#[derive(Default, Debug)]
pub struct ShortRwLock<T>(RwLock<T>);

/// The guard of [`ShortLock::lock`].
pub struct ShortGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    #[allow(dead_code, reason = "it counts until it is dropped")]
    mark: Mark,
}

impl<T> ShortLock<T> {
    /// Creates a lock around a value.
    pub const fn new(held: T) -> Self {
        Self(Mutex::new(held))
    }

    /// Locks the value.
    pub fn lock(&self) -> ShortGuard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.lock_late(),
        }
    }

    #[cold]
    fn lock_late(&self) -> ShortGuard<'_, T> {
        soon(|| self.try_lock()).unwrap_or_else(|| ShortGuard {
            guard: self.0.lock().unwrap_or_else(PoisonError::into_inner),
            mark: Mark::new(),
        })
    }
}

/// The guard of [`ShortRwLock::read`].
pub struct ShortReadGuard<'a, T> {
    guard: RwLockReadGuard<'a, T>,
    #[allow(dead_code, reason = "it counts until it is dropped")]
    mark: Mark,
}

/// The guard of [`ShortRwLock::write`].
pub struct ShortWriteGuard<'a, T> {
    guard: RwLockWriteGuard<'a, T>,
    #[allow(dead_code, reason = "it counts until it is dropped")]
    mark: Mark,
}

impl<T> ShortRwLock<T> {
    /// Creates a lock around a value.
    pub const fn new(held: T) -> Self {
        Self(RwLock::new(held))
    }

    /// Locks the value for reading.
    pub fn read(&self) -> ShortReadGuard<'_, T> {
        ShortReadGuard { guard: self.0.read().unwrap_or_else(PoisonError::into_inner), mark: Mark::new() }
    }

    /// Locks the value for writing.
    pub fn write(&self) -> ShortWriteGuard<'_, T> {
        ShortWriteGuard { guard: self.0.write().unwrap_or_else(PoisonError::into_inner), mark: Mark::new() }
    }

    /// Returns the value; `&mut self` excludes other holders.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> ShortLock<T> {
    /// Returns the value; `&mut self` excludes other holders.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the value unless another thread holds the lock.
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
    /// Waits for `condition` with the lock released.
    pub fn wait(this: Self, condition: &Condvar) -> Self {
        let Self { guard, mark } = this;
        drop(mark);
        assert_none_held();
        let guard: MutexGuard<'a, T> = condition.wait(guard).unwrap_or_else(PoisonError::into_inner);
        Self { guard, mark: Mark::new() }
    }

    /// Waits as [`ShortGuard::wait`], at most for `time`. Returns whether the wait timed out.
    pub fn wait_timeout(this: Self, condition: &Condvar, time: Duration) -> (Self, bool) {
        let Self { guard, mark } = this;
        drop(mark);
        assert_none_held();
        let (guard, waited) = condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
        (Self { guard, mark: Mark::new() }, waited.timed_out())
    }
}

impl<'a, T> ShortGuard<'a, T> {
    /// Waits while `waits` returns `true`, with the lock released meanwhile.
    pub fn wait_while(this: Self, condition: &Condvar, mut waits: impl FnMut(&mut T) -> bool) -> Self {
        let mut this = this;
        while waits(&mut this) {
            this = Self::wait(this, condition);
        }
        this
    }

    /// Waits as [`ShortGuard::wait_while`], at most for `time`. Returns whether the condition still holds.
    pub fn wait_timeout_while(
        this: Self,
        condition: &Condvar,
        time: Duration,
        waits: impl FnMut(&mut T) -> bool,
    ) -> (Self, bool) {
        let Self { guard, mark } = this;
        drop(mark);
        assert_none_held();
        let (guard, waited): (MutexGuard<'a, T>, _) =
            condition.wait_timeout_while(guard, time, waits).unwrap_or_else(PoisonError::into_inner);
        (Self { guard, mark: Mark::new() }, waited.timed_out())
    }
}

impl<T> Deref for ShortReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> Deref for ShortWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for ShortWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
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

/// Spins for a held lock. Returns `None` if the caller must block for it.
pub(crate) fn soon<T>(mut try_it: impl FnMut() -> Option<T>) -> Option<T> {
    let paused = || {
        (0..PAUSES).for_each(|_| spin_loop());
        try_it()
    };
    poll_until(Instant::now(), SOON, TRIES, paused).ok()
}

/// Panics in a debug build if this thread holds a short lock. Called before every call that may wait.
///
/// # Panics
/// Panics in debug builds if this thread holds a [`ShortLock`].
#[inline]
pub fn assert_none_held() {
    #[cfg(debug_assertions)]
    HELD.with(|held| assert_eq!(held.get(), 0, "a lock is held over a call that may wait"));
}

/// A field of types that may own a device, whose shutdown may wait: debug builds check that no lock is held at the
/// drop.
///
/// # Panics
/// Panics in debug builds if this thread holds a [`ShortLock`] at the drop.
#[derive(Default, Debug)]
pub struct DroppedUnlocked(());

impl Drop for DroppedUnlocked {
    fn drop(&mut self) {
        assert_none_held();
    }
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
        let (held, owner) = (lock.lock(), DroppedUnlocked::default());
        let drops = std::panic::AssertUnwindSafe(|| drop(owner));
        assert!(std::panic::catch_unwind(drops).is_err(), "it was not noticed");
        drop(held);
        drop(DroppedUnlocked::default());
        assert_eq!(*lock.lock(), 1);
    }

    #[test]
    fn lock_is_exclusive_and_every_waiter_gets_it() {
        const TIMES: u32 = 2_000;
        let lock = ShortLock::new(0_u32);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let lock = &lock;
                scope.spawn(move || {
                    for turn in 0..TIMES {
                        let mut held = lock.lock();
                        let before = *held;
                        // Occasionally holds the lock for longer than waiters spin.
                        if thread == 0 && turn % 500 == 0 {
                            std::thread::sleep(4 * SOON);
                        }
                        *held = before + 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 4 * TIMES);
        let held = lock.lock();
        assert!(soon(|| lock.try_lock()).is_none(), "who has it goes on having it");
        drop(held);
        assert!(soon(|| lock.try_lock()).is_some());
    }

    #[test]
    fn readers_count_as_well() {
        let lock = ShortRwLock::<u32>::default();
        *lock.write() += 1;
        assert_none_held();
        let held = (lock.read(), lock.read());
        assert!(std::panic::catch_unwind(assert_none_held).is_err(), "it was not noticed");
        drop(held.0);
        assert!(std::panic::catch_unwind(assert_none_held).is_err(), "one is still held");
        drop(held.1);
        assert_none_held();
        assert_eq!(*lock.read(), 1);
    }

    #[test]
    fn a_wait_for_a_signal_with_another_lock_held_panics() {
        let (one, other, never) = (ShortLock::new(1), ShortLock::new(2), Condvar::new());
        let held = other.lock();
        let waits = std::panic::AssertUnwindSafe(|| {
            ShortGuard::wait_timeout_while(one.lock(), &never, Duration::from_millis(1), |_| true).1
        });
        assert!(std::panic::catch_unwind(waits).is_err(), "it was not noticed");
        drop(held);
        assert!(ShortGuard::wait_timeout_while(one.lock(), &never, Duration::from_millis(1), |_| true).1);
        assert!(!ShortGuard::wait_timeout_while(one.lock(), &never, Duration::from_millis(1), |_| false).1);
    }
}
